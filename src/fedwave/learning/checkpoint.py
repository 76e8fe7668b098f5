"""A half-finished replay on disk: plain arrays, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from fedwave.errors import FedwaveError
from fedwave.files import write_whole
from fedwave.learning.evaluation import State
from fedwave.learning.replay import Replay, RunState
from fedwave.types import Array


def save(replay: Replay, path: Path) -> Path:
    """Write everything that ``advance`` needs to go on, whole or not at all."""
    return write_whole(path, lambda file: write(replay, file))


def write(replay: Replay, file: IO[bytes]) -> None:
    """Write a checkpoint into an open file."""
    arrays: dict[str, Array] = {}
    for r, state in enumerate(replay.states):
        _put(arrays, f"{r}/w", state.w)
        _put(arrays, f"{r}/b", state.buffers)
        for u, psi in state.psi.items():
            _put(arrays, f"{r}/psi/{u}", psi)
        for u, (w, b) in state.own.items():
            _put(arrays, f"{r}/own-w/{u}", w)
            _put(arrays, f"{r}/own-b/{u}", b)
        if replay.results[r]:
            arrays[f"{r}/loss"] = np.array([loss for loss, _ in replay.results[r]])
            arrays[f"{r}/right"] = np.stack([right.numpy() for _, right in replay.results[r]])
    about = {
        "round": replay.round,
        "made_for": replay.fingerprint(),
        "psi": [list(state.psi) for state in replay.states],
        "diverged": [state.diverged for state in replay.states],
    }
    np.savez(file, allow_pickle=False, about=np.array(json.dumps(about)), **arrays)


def load(replay: Replay, path: Path) -> None:
    """Put a fresh replay of the same runs where the saved one stopped."""
    try:
        with open(path, "rb") as raw:
            read(replay, raw, str(path))
    except OSError as error:
        raise FedwaveError(f"{path} cannot be read: {error.strerror}.") from None


def read(replay: Replay, raw: IO[bytes], name: str) -> None:
    """The same from an open file; ``name`` is what to call it if it is damaged."""
    try:
        with np.load(raw, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        about = json.loads(str(arrays["about"]))
        ours = about["made_for"] == replay.fingerprint()
        # All of it is read before any of it is used.
        parts = [_part(replay, r, arrays, about) for r in range(len(replay.runs))] if ours else []
    except Exception as error:  # damage shows anywhere: in the archive, an array or the text
        raise FedwaveError(f"{name} is not a checkpoint or is damaged ({error}).") from None
    if not ours:
        raise FedwaveError(
            f"{name} belongs to other runs, another task or other settings: remove it to start anew."
        )
    replay.states = [state for state, _ in parts]
    replay.results = [results for _, results in parts]
    replay.round = about["round"]


def _part(
    replay: Replay, r: int, arrays: dict[str, Array], about: dict[str, Any]
) -> tuple[RunState, list[tuple[float, Tensor]]]:
    """What was saved of one run."""
    fresh = replay.states[r]

    def get(prefix: str, like: State) -> State:
        return {
            k: torch.as_tensor(arrays[f"{r}/{prefix}/{k}"]).to(p.device) for k, p in like.items()
        }

    state = RunState(
        w=get("w", fresh.w),
        buffers=get("b", fresh.buffers),
        psi={u: get(f"psi/{u}", fresh.w) for u in about["psi"][r]},
        own={u: (get(f"own-w/{u}", fresh.w), get(f"own-b/{u}", fresh.buffers)) for u in fresh.own},
        diverged=about["diverged"][r],
    )
    if not about["round"]:
        return state, []
    results = zip(arrays[f"{r}/loss"], arrays[f"{r}/right"], strict=True)
    return state, [(float(loss), torch.as_tensor(right)) for loss, right in results]


def _put(arrays: dict[str, Array], prefix: str, state: State) -> None:
    for name, value in state.items():
        arrays[f"{prefix}/{name}"] = value.detach().cpu().numpy()
