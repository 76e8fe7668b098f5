"""The state of one run of a replay by the names of its parameters, as tests look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedwave.learning.replay import Replay

Tensors = dict[str, Any]


@dataclass(frozen=True)
class State:
    """Copies; what is written into them does not change the replay."""

    w: Tensors
    buffers: Tensors
    psi: dict[int, Tensors]
    own: dict[int, tuple[Tensors, Tensors]]
    server: Tensors
    diverged: bool


def states(replay: Replay) -> list[State]:
    return [_state(replay, r) for r in range(len(replay.runs))]


def _state(replay: Replay, r: int) -> State:
    layout, here = replay.layout, np.array([r])
    psi = {
        u: _named(layout.views(replay.undelivered.rows(here, np.array([u]))), 0)
        for u in np.flatnonzero(replay.undelivered.held[r]).tolist()
    }
    own = {}
    for u, row in enumerate(replay.row_of_own[r].tolist()):
        if row >= 0:
            own[u] = (_named(layout.views(replay.own.w), row), _named(replay.own.rest, row))
    return State(
        _named(layout.views(replay.central.w), r),
        _named(replay.central.rest, r),
        psi,
        own,
        dict(replay.server[r]),
        bool(replay.diverged[r]),
    )


def _named(tensors: Tensors, row: int) -> Tensors:
    return {k: p[row].clone() for k, p in tensors.items()}
