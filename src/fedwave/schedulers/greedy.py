"""Schedulers that rank by the gain of an upload now: waiting or fresh shards, delay, or the size of the update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.errors import check_number, set_int
from fedwave.rng import Draws
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.picking import pick_largest
from fedwave.types import FloatArray, Observation, State


@dataclass(frozen=True)
class MaxWeight(Scheduler):
    """Waiting shards times the probability to deliver them; needs no rate."""

    name = "max-weight"
    needs = frozenset({"channel", "backlog"})
    formula = "p n"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return seen.success * seen.waiting


@dataclass(frozen=True)
class SqrtRule(Scheduler):
    """Greedy, corrected so that backlogs become proportional to sqrt(theta), as in the optimum."""

    name = "sqrt-rule"
    needs = frozenset({"channel", "backlog", "rates"})
    formula = "p (n + theta) / sqrt(theta)"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        # A device that never gets data has nothing to deliver: rank it last instead of 0/0.
        root = np.sqrt(np.where(seen.rates > 0, seen.rates, np.inf))
        return seen.success * (seen.waiting + seen.rates) / root


@dataclass(frozen=True)
class Fresh(Scheduler):
    """The expected shards of this round only; it ignores the delay and starves slow devices."""

    name = "fresh"
    needs = frozenset({"channel", "rates"})
    formula = "p theta"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return seen.success * seen.rates


@dataclass(frozen=True)
class AlphaFresh(Scheduler):
    """Between `fresh` (alpha 0) and greedy on expected backlog (alpha 1)."""

    alpha: float = 0.5

    name = "alpha-fresh"
    needs = frozenset({"channel", "rates"})
    formula = "p theta d^alpha"

    def __post_init__(self) -> None:
        check_number("alpha-fresh alpha", self.alpha, note=" (0 is fresh)")

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return seen.success * seen.rates * seen.delay ** float(self.alpha)


@dataclass(frozen=True)
class Age(Scheduler):
    """Rounds since the last delivery times the probability to deliver now."""

    name = "age"
    needs = frozenset({"channel"})
    formula = "p d"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return seen.success * seen.delay


@dataclass(frozen=True)
class UpdateAware(Scheduler):
    """The largest updates among the `breadth` times W best channels; for training in lock step."""

    breadth: int = 2

    name = "update-aware"
    needs = frozenset({"channel", "learner"})
    formula = "update norm, if among the 2 W best SNR"

    def __post_init__(self) -> None:
        set_int(self, "breadth", 1)

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        devices = seen.snr.shape[1]
        considered = pick_largest(seen.snr, min(self.breadth * seen.slots, devices), draws)
        return np.where(considered, seen.update_norm, -np.inf)
