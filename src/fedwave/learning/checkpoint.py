"""Checkpoints of a replay: plain arrays, written whole or not at all."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from fedwave.array_archive import read_archive
from fedwave.errors import FedwaveError
from fedwave.files import write_whole
from fedwave.learning.curves import Evaluation
from fedwave.learning.replay import Replay, RunState
from fedwave.learning.state import Tensors
from fedwave.plain_text import brief
from fedwave.reading import opened
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
        _put(arrays, f"{r}/server", state.server)
        for u, psi in state.psi.items():
            _put(arrays, f"{r}/psi/{u}", psi)
        for u, (w, b) in state.own.items():
            _put(arrays, f"{r}/own-w/{u}", w)
            _put(arrays, f"{r}/own-b/{u}", b)
        if replay.results[r]:
            for name, column in _columns(replay.results[r]).items():
                arrays[f"{r}/found/{name}"] = column
    about = {
        "round": replay.round,
        "made_for": replay.fingerprint(),
        "psi": [list(state.psi) for state in replay.states],
        "diverged": [state.diverged for state in replay.states],
    }
    np.savez(file, allow_pickle=False, about=np.array(json.dumps(about)), **arrays)


def load(replay: Replay, path: Path) -> None:
    """Continue a saved replay: restore its state into a new replay of the same runs."""
    with opened(path, str(path)) as (raw, _):
        read(replay, raw, str(path))


def read(replay: Replay, raw: IO[bytes], name: str) -> None:
    """The same from an open file; ``name`` is what to call it if it is damaged."""
    try:
        arrays = read_archive(raw)
        about = json.loads(str(arrays["about"]))
        ours = about["made_for"] == replay.fingerprint()
        if ours:  # all of it is read before any of it is used
            _check_numbers(about, replay)
            parts = [_part(replay, r, arrays, about) for r in range(len(replay.runs))]
    except Exception as error:  # damage can be in the archive, an array or the text
        raise FedwaveError(f"{name} is not a checkpoint or is damaged ({brief(error)}).") from None
    if not ours:
        raise FedwaveError(
            f"{name} belongs to other runs, another task or other settings: remove it to start again."
        )
    replay.states = [state for state, _ in parts]
    replay.results = [results for _, results in parts]
    replay.round = about["round"]


def _part(
    replay: Replay, r: int, arrays: dict[str, Array], about: dict[str, Any]
) -> tuple[RunState, list[Evaluation]]:
    """The saved state and results of one run."""
    fresh = replay.states[r]

    def get(prefix: str, like: Tensors) -> Tensors:
        return {k: _tensor(arrays[f"{r}/{prefix}/{k}"], p) for k, p in like.items()}

    state = RunState(
        w=get("w", fresh.w),
        buffers=get("b", fresh.buffers),
        psi={u: get(f"psi/{u}", fresh.w) for u in about["psi"][r]},
        own={u: (get(f"own-w/{u}", fresh.w), get(f"own-b/{u}", fresh.buffers)) for u in fresh.own},
        server=get("server", fresh.server),
        diverged=about["diverged"][r],
    )
    if not about["round"]:
        return state, []
    found = {f.name: arrays[f"{r}/found/{f.name}"] for f in fields(Evaluation)}
    _check_found(found, about["round"], state.diverged, replay.task.dataset.classes)
    return state, _rows(found)


# A file may come from a stranger: what does not fit would fail, or count, only later in the training.


def _check_numbers(about: dict[str, Any], replay: Replay) -> None:
    runs, devices = len(replay.runs), replay.runs[0].shards.shape[1]
    wanted = {"round": int, "psi": list, "diverged": list}
    if any(type(about[name]) is not kind for name, kind in wanted.items()):
        raise ValueError("a number in its text is none")
    known = all(type(u) is int and 0 <= u < devices for us in about["psi"] for u in us)
    told = all(type(one) is bool for one in about["diverged"])
    if not (0 <= about["round"] <= replay.rounds and known and told):
        raise ValueError("a number in its text cannot be")
    if not len(about["psi"]) == len(about["diverged"]) == runs:
        raise ValueError("it is of another number of runs")


def _tensor(array: Array, like: torch.Tensor) -> torch.Tensor:
    made = torch.as_tensor(array)
    if made.shape != like.shape or made.dtype != like.dtype:
        wish = f"{like.dtype} {tuple(like.shape)}"
        raise ValueError(f"an array of it is {array.dtype} {array.shape}, not {wish}")
    return made.to(like.device)


def _check_found(found: dict[str, Array], rounds: int, diverged: bool, classes: int) -> None:
    """One evaluation for every round, until the run diverged."""
    rows = len(found["loss"])
    if rows != rounds and not (diverged and 0 < rows < rounds):
        raise ValueError(f"it has {rows} evaluations of {rounds} rounds")
    if found["loss"].shape != (rows,) or found["loss"].dtype != np.float64:
        raise ValueError("its losses are no numbers")
    counts = {name: array for name, array in found.items() if name != "loss"}
    for name, array in counts.items():
        if array.shape != (rows, classes) or array.dtype.kind not in "iu" or array.min() < 0:
            raise ValueError(f"its {name} are no counts of {classes} classes")
    for part in ("", "_of_all"):
        if (counts[f"right{part}"] > counts[f"images{part}"]).any():
            raise ValueError("it has more right answers than images")
    if not counts["images"].any(axis=1).all():
        raise ValueError("it has an accuracy of no images")


def _columns(found: list[Evaluation]) -> dict[str, Array]:
    """Evaluations by field, a row for each round; what was not measured is 0."""
    blank = np.zeros_like(found[0].images)
    columns = {f.name: [getattr(one, f.name) for one in found] for f in fields(Evaluation)}
    return {k: np.stack([blank if v is None else v for v in c]) for k, c in columns.items()}


def _rows(columns: dict[str, Array]) -> list[Evaluation]:
    """The inverse of ``_columns``."""
    found = []
    for t in range(len(columns["loss"])):
        row: dict[str, Any] = {name: column[t] for name, column in columns.items()}
        row["loss"] = float(row["loss"])
        if not row["images_of_all"].any():
            row["right_of_all"] = row["images_of_all"] = None
        found.append(Evaluation(**row))
    return found


def _put(arrays: dict[str, Array], prefix: str, state: Tensors) -> None:
    for name, value in state.items():
        arrays[f"{prefix}/{name}"] = value.detach().cpu().numpy()
