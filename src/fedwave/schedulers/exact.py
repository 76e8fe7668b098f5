"""The paper's schedulers by dynamic programming: the optimum, for networks small enough to be solved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.errors import whole
from fedwave.planning.exact_model import decisions
from fedwave.planning.exact_plans import Plan
from fedwave.planning.exact_solver import decision_gains, gains_at
from fedwave.rng import Draws
from fedwave.schedulers.balsa import Balsa
from fedwave.schedulers.base import Scheduler
from fedwave.types import FloatArray, Observation, State

_TIE = 1e-9  # gains closer than this, relatively, differ by rounding only
_LEAST_RATE = 0.01
_PER_E = 32  # rates, on a logarithmic scale, that a learning scheduler tells apart: 3 % from one to the next


@dataclass(frozen=True)
class Dp(Scheduler):
    """The least mean backlog, by value iteration; known rates, small networks only.

    The plan is made for ``levels`` different p per device and backlogs up to ``truncation`` (None: what the rates
    ask for); decisions then use the true p of the round. A W that changes is planned for as if it stayed, and
    buffer limits are not known to it.
    """

    levels: int = 4
    truncation: int | None = None

    name = "dp"
    needs = frozenset({"channel", "backlog", "rates", "statistics"})
    formula = "the set with the largest expected saving"
    small_only = True

    def __post_init__(self) -> None:
        whole("dp levels", self.levels, 1)
        if self.truncation is not None:
            whole("dp truncation", self.truncation, 1)

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        devices = seen.success.shape[1]
        if not 0 < seen.slots < devices:
            return np.zeros(seen.success.shape)  # nothing to decide
        plan = Plan(self.name, int(self.levels), self.truncation)
        (table,) = plan.tables(seen.planning, seen.slots, seen.rates[None])
        return best_set(table.decision_gains(seen.success, seen.waiting), seen, draws)


@dataclass(frozen=True)
class DpTs(Balsa):
    """The same with rates drawn from the posterior (Thompson sampling in stages); small networks only.

    A plan is made for every draw, so it is coarser: fewer ``levels``, ``steps`` from an empty to a full device, and
    rates to 3 %.
    """

    stage_rule: str = "max1"
    levels: int = 2
    steps: int = 24

    name = "dp-ts"
    needs = frozenset({"channel", "backlog", "statistics"})
    formula = "the same, for theta_k"
    small_only = True

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("dp-ts levels", self.levels, 1)
        whole("dp-ts steps", self.steps, 1)

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        devices = seen.success.shape[1]
        if not 0 < seen.slots < devices:
            return np.zeros(seen.success.shape)  # nothing to decide
        plan = Plan(self.name, int(self.levels), steps=int(self.steps), rare=1e-2, tolerance=1e-4)
        rates, which = np.unique(_rounded(state["theta"]), axis=0, return_inverse=True)
        solved = plan.tables(seen.planning, seen.slots, rates)
        gains = gains_at([solved[k] for k in which.reshape(-1)], seen.waiting)
        return best_set(decision_gains(seen.success, gains, seen.slots), seen, draws)


def best_set(gains: FloatArray, seen: Observation, draws: Draws) -> FloatArray:
    """1 for the devices of the decision that gains most, ``gains`` being ``[I, A]``; equal ones are drawn among."""
    devices = seen.success.shape[1]
    sets = decisions(devices, seen.slots)
    best = gains.max(axis=1, keepdims=True)
    equal = gains >= best - _TIE * np.abs(best)
    chosen = equal.argmax(axis=1)
    tied = np.flatnonzero(equal.sum(axis=1) > 1)
    if tied.size:
        # One number per device and not per set: it stays with the device in whatever order they are listed.
        luck = draws.uniform(devices, tied) @ sets.T
        chosen[tied] = np.where(equal[tied], luck, -1.0).argmax(axis=1)
    out: FloatArray = sets[chosen].astype(np.float64)
    return out


def _rounded(theta: FloatArray) -> FloatArray:
    """Rates that differ by less than the posterior can tell share a plan."""
    logs = np.log(np.maximum(theta, _LEAST_RATE))
    out: FloatArray = np.exp(np.round(logs * _PER_E) / _PER_E)
    return out
