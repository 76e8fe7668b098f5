"""Checkpoints of a replay: plain arrays, one file (files/archive.py)."""

from __future__ import annotations

from typing import IO

import numpy as np
import torch
from torch import Tensor

from fedwave.files.archive import read_archive, refusing, write_archive
from fedwave.learning.curves import Evaluation
from fedwave.learning.model_rows import ModelRows, Tensors
from fedwave.learning.replay import Replay
from fedwave.types import Array

_FORMAT = "checkpoint 4"


def write_checkpoint(replay: Replay, file: IO[bytes]) -> None:
    """Write everything that ``Replay.advance`` needs to resume into an open file."""
    replay.collect_evaluation()
    runs, devices = np.nonzero(replay.undelivered.held)
    tensors = _state(replay) | {"psi": replay.undelivered.rows(runs, devices)}
    header = {"round": replay.round, "waiting": [runs.tolist(), devices.tolist()]}
    write_archive(file, _FORMAT, header, {name: p.detach().cpu().numpy() for name, p in tensors.items()})


def read_checkpoint(replay: Replay, raw: IO[bytes], name: str) -> None:
    """Restore a checkpoint into a new replay of the same runs; ``name`` is the name of the file in messages.

    Whose runs they are is not in it: the runner keeps it with the run id and the unit (experiments/run/work.py).
    """
    header, arrays = read_archive(raw, name, _FORMAT)
    with refusing(name, _FORMAT):  # all of it, before any of it is used
        runs, devices = (np.array(part, np.int64) for part in header["waiting"])
        like = _state(replay) | {"psi": replay.central.w[:1].expand(len(runs), -1)}
        state = {key: _tensor(arrays[key], p) for key, p in like.items()}
        round_ = int(header["round"])
    replay.collect_evaluation()  # an evaluation under way is of no use any more
    replay.central, replay.own = (
        ModelRows(state[part], {k: state[f"{part}/{k}"] for k in replay.central.rest}) for part in ("central", "own")
    )
    replay.server = [{k: state[f"server/{r}/{k}"] for k in one} for r, one in enumerate(replay.server)]
    replay.results = Evaluation(*(state[f"results/{k}"].numpy() for k in Evaluation._fields))
    replay.diverged[:] = np.isnan(replay.results.loss[:round_]).any(axis=0)
    replay.round = round_
    replay.undelivered.drop(replay.undelivered.held)
    replay.undelivered.add(runs, devices, state["psi"])


def _state(replay: Replay) -> Tensors:
    """All but the undelivered gradients, by name."""
    return {
        "central": replay.central.w,
        "own": replay.own.w,
        **{f"central/{k}": p for k, p in replay.central.rest.items()},
        **{f"own/{k}": p for k, p in replay.own.rest.items()},
        **{f"server/{r}/{k}": p for r, one in enumerate(replay.server) for k, p in one.items()},
        **{f"results/{k}": torch.as_tensor(array) for k, array in replay.results._asdict().items()},
    }


def _tensor(array: Array, like: Tensor) -> Tensor:
    made = torch.as_tensor(array)
    if made.shape != like.shape or made.dtype != like.dtype:
        wish = f"{like.dtype} {tuple(like.shape)}"
        raise ValueError(f"an array of it is {array.dtype} {array.shape}, not {wish}")
    return made.to(like.device)
