"""Checkpoints of a replay: plain arrays, one file (files/archive.py)."""

from __future__ import annotations

from dataclasses import fields
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from fedwave.errors import FedwaveError
from fedwave.files.archive import read_archive, refusing, write_archive
from fedwave.learning.curves import Evaluation
from fedwave.learning.model_rows import ModelRows, Tensors
from fedwave.learning.replay import Replay
from fedwave.types import Array

_FORMAT = "checkpoint 2"


def write_checkpoint(replay: Replay, file: IO[bytes]) -> None:
    """Write everything that ``Replay.advance`` needs to resume into an open file."""
    replay.collect_evaluation()
    runs, devices = np.nonzero(replay.undelivered.held)
    tensors = {
        "w": replay.central.w,
        "own": replay.own.w,
        "psi": replay.undelivered.rows(runs, devices),
        **{f"rest/{k}": p for k, p in replay.central.rest.items()},
        **{f"own-rest/{k}": p for k, p in replay.own.rest.items()},
        **{f"server/{r}/{k}": p for r, one in enumerate(replay.server) for k, p in one.items()},
    }
    arrays = {name: p.detach().cpu().numpy() for name, p in tensors.items()}
    for r, found in enumerate(replay.results):
        for name, column in _columns(found).items() if found else ():
            arrays[f"found/{r}/{name}"] = column
    header = {
        "round": replay.round,
        "made_for": replay.fingerprint(),
        "waiting": [runs.tolist(), devices.tolist()],
        "diverged": replay.diverged.tolist(),
    }
    write_archive(file, _FORMAT, header, arrays)


def read_checkpoint(replay: Replay, raw: IO[bytes], name: str) -> None:
    """Restore a checkpoint into a new replay of the same runs; ``name`` is the name of the file in messages."""
    header, arrays = read_archive(raw, name, _FORMAT)
    if header.get("made_for") != replay.fingerprint():
        raise FedwaveError(f"{name} belongs to other runs, another task or other settings: remove it to start again.")
    with refusing(name, _FORMAT):
        restored = _restored(replay, arrays, header)  # all of it, before any of it is used
    replay.collect_evaluation()  # an evaluation under way is of no use any more
    replay.central, replay.own, replay.server, replay.results, psi = restored
    replay.diverged = np.array(header["diverged"], np.bool_)
    replay.undelivered.drop(replay.undelivered.held)
    runs, devices = (np.array(part, np.int64) for part in header["waiting"])
    replay.undelivered.add(runs, devices, psi)
    replay.round = header["round"]


def _restored(
    replay: Replay, arrays: dict[str, Array], header: dict[str, Any]
) -> tuple[ModelRows, ModelRows, list[Tensors], list[list[Evaluation]], Tensor]:
    """The saved models, memories of the server step, results and undelivered gradients."""

    def models(prefix: str, rest: str, like: ModelRows) -> ModelRows:
        names = like.rest
        return ModelRows(_tensor(arrays[prefix], like.w), {k: _tensor(arrays[f"{rest}/{k}"], names[k]) for k in names})

    server = [{k: _tensor(arrays[f"server/{r}/{k}"], p) for k, p in one.items()} for r, one in enumerate(replay.server)]
    results: list[list[Evaluation]] = [[] for _ in replay.runs]
    for r in range(len(results) if header["round"] else 0):
        results[r] = _rows({f.name: arrays[f"found/{r}/{f.name}"] for f in fields(Evaluation)})
    psi = replay.central.w[:1].expand(len(header["waiting"][0]), -1)
    return (
        models("w", "rest", replay.central),
        models("own", "own-rest", replay.own),
        server,
        results,
        _tensor(arrays["psi"], psi),
    )


def _tensor(array: Array, like: torch.Tensor) -> torch.Tensor:
    made = torch.as_tensor(array)
    if made.shape != like.shape or made.dtype != like.dtype:
        wish = f"{like.dtype} {tuple(like.shape)}"
        raise ValueError(f"an array of it is {array.dtype} {array.shape}, not {wish}")
    return made.to(like.device)


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
