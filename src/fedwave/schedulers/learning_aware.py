"""Schedulers that use the models: they run in lock step with training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.errors import as_int
from fedwave.rng import Draws
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.picking import pick_largest
from fedwave.types import FloatArray, Observation, State


@dataclass(frozen=True)
class UpdateAware(Scheduler):
    """The largest updates among the `breadth` times W best channels."""

    breadth: int = 2

    name = "update-aware"
    needs = frozenset({"channel", "learner"})
    formula = "update norm, if among the 2 W best SNR"

    def __post_init__(self) -> None:
        as_int("update-aware breadth", self.breadth, 1)

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        devices = seen.snr.shape[1]
        considered = pick_largest(seen.snr, min(self.breadth * seen.slots, devices), draws)
        return np.where(considered, seen.update_norm, -np.inf)
