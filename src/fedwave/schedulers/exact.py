"""The exact schedulers of the paper: the optimum by dynamic programming, for networks of a few devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.errors import set_int
from fedwave.planning.exact_model import decisions
from fedwave.planning.exact_solver import ExactPlan, decision_gains, interpolated_gains
from fedwave.rng import Draws
from fedwave.schedulers.balsa import Balsa
from fedwave.schedulers.base import Scheduler
from fedwave.types import FloatArray, Observation, State

_TIE = 1e-9  # relative difference of gains up to which they count as equal
_LEAST_RATE = 0.01
_PER_E = 32  # sampled rates are rounded to a logarithmic grid with steps of 3 %


@dataclass(frozen=True)
class Dp(Scheduler):
    """The least mean backlog by value iteration, with known rates; for networks of a few devices.

    The plan has ``levels`` different p per device and backlogs up to ``truncation`` (None: chosen from the rates).
    Decisions use the true p of the round. The plan assumes that W stays as it is and that buffers have no limit.
    """

    levels: int = 4
    truncation: int | None = None

    name = "dp"
    needs = frozenset({"channel", "backlog", "rates", "planning"})
    formula = "the set with the largest expected saving"
    small_only = True

    def __post_init__(self) -> None:
        set_int(self, "levels", 1)
        if self.truncation is not None:
            set_int(self, "truncation", 1)

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        devices = seen.success.shape[1]
        if not 0 < seen.slots < devices:
            return np.zeros(seen.success.shape)  # nothing to decide
        plan = ExactPlan(self.name, int(self.levels), self.truncation)
        (table,) = plan.tables(seen.planning, seen.slots, seen.rates[None])
        return best_set(table.decision_gains(seen.success, seen.waiting), seen, draws)


@dataclass(frozen=True)
class DpTs(Balsa):
    """`dp` on rates drawn from the posterior (Thompson sampling in stages); for networks of a few devices.

    Every draw needs a plan, so plans are coarser: fewer ``levels``, ``steps`` steps from an empty to a full device,
    and rates rounded to 3 %.
    """

    stage_rule: str = "max1"
    levels: int = 2
    steps: int = 24

    name = "dp-ts"
    needs = frozenset({"channel", "backlog", "planning"})
    formula = "the same, for theta_k"
    small_only = True

    def __post_init__(self) -> None:
        super().__post_init__()
        set_int(self, "levels", 1)
        set_int(self, "steps", 1)

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        devices = seen.success.shape[1]
        if not 0 < seen.slots < devices:
            return np.zeros(seen.success.shape)  # nothing to decide
        plan = ExactPlan(self.name, int(self.levels), steps=int(self.steps), rare=1e-2, tolerance=1e-4)
        logs = np.log(np.maximum(state["theta"], _LEAST_RATE))
        rounded = np.exp(np.round(logs * _PER_E) / _PER_E)  # nearly equal rates share a plan
        rates, which = np.unique(rounded, axis=0, return_inverse=True)
        solved = plan.tables(seen.planning, seen.slots, rates)
        gains = interpolated_gains([solved[k] for k in which.reshape(-1)], seen.waiting)
        return best_set(decision_gains(seen.success, gains, seen.slots), seen, draws)


def best_set(gains: FloatArray, seen: Observation, draws: Draws) -> FloatArray:
    """1 for the devices of the best decision, 0 for others; ``gains`` is ``[I, A]``, ties are broken at random."""
    devices = seen.success.shape[1]
    sets = decisions(devices, seen.slots)
    best = gains.max(axis=1, keepdims=True)
    equal = gains >= best - _TIE * np.abs(best)
    chosen = equal.argmax(axis=1)
    tied = np.flatnonzero(equal.sum(axis=1) > 1)
    if tied.size:
        # One number per device, not per set: the result does not depend on the order of the devices.
        drawn = draws.uniform(devices, tied) @ sets.T
        chosen[tied] = np.where(equal[tied], drawn, -1.0).argmax(axis=1)
    out: FloatArray = sets[chosen].astype(np.float64)
    return out
