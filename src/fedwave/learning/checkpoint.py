"""Checkpoints of a replay: plain arrays, written whole or not at all."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from fedwave.errors import FedwaveError
from fedwave.files.archive import read_archive
from fedwave.files.reading import opened
from fedwave.files.writing import write_whole
from fedwave.learning.curves import Evaluation
from fedwave.learning.replay import Replay
from fedwave.learning.rows import Models
from fedwave.learning.state import Tensors
from fedwave.plain_text import brief
from fedwave.types import Array


def save(replay: Replay, path: Path) -> Path:
    """Write everything that ``advance`` needs to go on, whole or not at all."""
    return write_whole(path, lambda file: write(replay, file))


def write(replay: Replay, file: IO[bytes]) -> None:
    """Write a checkpoint into an open file."""
    replay.settle()
    runs, devices = np.nonzero(replay.waiting.held)
    tensors = {
        "w": replay.central.w,
        "own": replay.own.w,
        "psi": replay.waiting.rows(runs, devices),
        **{f"rest/{k}": p for k, p in replay.central.rest.items()},
        **{f"own-rest/{k}": p for k, p in replay.own.rest.items()},
        **{f"server/{r}/{k}": p for r, one in enumerate(replay.server) for k, p in one.items()},
    }
    arrays = {name: p.detach().cpu().numpy() for name, p in tensors.items()}
    for r, found in enumerate(replay.results):
        for name, column in _columns(found).items() if found else ():
            arrays[f"found/{r}/{name}"] = column
    about = {
        "round": replay.round,
        "made_for": replay.fingerprint(),
        "waiting": [runs.tolist(), devices.tolist()],
        "diverged": replay.diverged.tolist(),
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
            restored = _restored(replay, arrays, about)
    except Exception as error:  # damage can be in the archive, an array or the text
        raise FedwaveError(f"{name} is not a checkpoint or is damaged ({brief(error)}).") from None
    if not ours:
        raise FedwaveError(f"{name} belongs to other runs, another task or other settings: remove it to start again.")
    replay.settle()  # an evaluation under way is of no use any more
    replay.central, replay.own, replay.server, replay.results, psi = restored
    replay.diverged = np.array(about["diverged"], np.bool_)
    replay.waiting.drop(replay.waiting.held)
    runs, devices = (np.array(part, np.int64) for part in about["waiting"])
    replay.waiting.add(runs, devices, psi)
    replay.round = about["round"]


def _restored(
    replay: Replay, arrays: dict[str, Array], about: dict[str, Any]
) -> tuple[Models, Models, list[Tensors], list[list[Evaluation]], Tensor]:
    """The saved models, memories of the server step, results and waiting gradients."""

    def models(prefix: str, rest: str, like: Models) -> Models:
        names = like.rest
        return Models(_tensor(arrays[prefix], like.w), {k: _tensor(arrays[f"{rest}/{k}"], names[k]) for k in names})

    server = [{k: _tensor(arrays[f"server/{r}/{k}"], p) for k, p in one.items()} for r, one in enumerate(replay.server)]
    results: list[list[Evaluation]] = [[] for _ in replay.runs]
    for r in range(len(results) if about["round"] else 0):
        found = {f.name: arrays[f"found/{r}/{f.name}"] for f in fields(Evaluation)}
        classes = replay.task.dataset.classes
        _check_found(found, about["round"], about["diverged"][r], classes)
        results[r] = _rows(found)
    psi = replay.central.w[:1].expand(len(about["waiting"][0]), -1)
    return (
        models("w", "rest", replay.central),
        models("own", "own-rest", replay.own),
        server,
        results,
        _tensor(arrays["psi"], psi),
    )


# A file may come from a stranger: what does not fit would fail, or count, only later in the training.


def _check_numbers(about: dict[str, Any], replay: Replay) -> None:
    wanted = {"round": int, "waiting": list, "diverged": list}
    if any(type(about[name]) is not kind for name, kind in wanted.items()):
        raise ValueError("a number in its text is none")
    runs, devices = about["waiting"]
    known = all(
        type(n) is int and 0 <= n < size
        for which, size in zip((runs, devices), replay.waiting.slots.shape, strict=True)
        for n in which
    )
    told = all(type(one) is bool for one in about["diverged"])
    if not (0 <= about["round"] <= replay.rounds and known and told):
        raise ValueError("a number in its text cannot be")
    if len(set(zip(runs, devices, strict=True))) != len(runs):
        raise ValueError("a device has two gradients in it")
    if len(about["diverged"]) != len(replay.runs):
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
