"""Decisions by p and n alone, written as how often each possible decision is taken in every state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.network.arrivals import Arrivals
from fedwave.planning.exact_model import SmallRound, decisions, incidence, products
from fedwave.schedulers.base import Scheduler
from fedwave.theory.exact_problem import SmallProblem
from fedwave.types import BoolArray, FloatArray, IntArray, Observation, Problem

# Priorities [rows, U] from p and n, both [rows, U].
Priority = Callable[[FloatArray, IntArray], FloatArray]
# From p [U] to the share of every decision in every state, [A, 1, N_1 + 1, ..., N_U + 1].
Shares = Callable[[FloatArray], FloatArray]

_TIE = 1e-9  # gains closer than this, relatively, differ by rounding only


def best_shares(round_: SmallRound, gains: FloatArray) -> Shares:
    """The best decision; equally good ones share. ``gains`` is a Table's."""
    inside = incidence(round_.devices, round_.slots)

    def shares(p: FloatArray) -> FloatArray:
        weights = products(p, round_.slots)
        value = np.stack([np.tensordot(weights[within], gains[within], 1) for within in inside])
        best = value.max(axis=0)
        return _equally(value >= best - _TIE * np.abs(best))[:, None]

    return shares


def priority_shares(round_: SmallRound, cuts: IntArray, priority: Priority) -> Shares:
    """The W largest priorities; among equal ones chance decides."""
    shape = tuple(int(n) + 1 for n in cuts)
    waiting = np.indices(shape).reshape(len(shape), -1).T
    chosen = decisions(round_.devices, round_.slots)

    def shares(p: FloatArray) -> FloatArray:
        values = np.asarray(priority(np.broadcast_to(p, waiting.shape), waiting), dtype=np.float64)
        if values.shape != waiting.shape or np.isnan(values).any():
            raise FedwaveError(
                f"the policy returned priorities of shape {values.shape}, or NaN, for {waiting.shape[0]} states of "
                f"{waiting.shape[1]} devices: return one number for every p it is given."
            )
        cut = np.sort(values, axis=1)[:, -round_.slots, None]
        above, level = values > cut, values >= cut
        possible = [((above & ~a) | (a & ~level)).sum(axis=1) == 0 for a in chosen]
        return _equally(np.array(possible)).reshape(len(chosen), 1, *shape)

    return shares


def priority_of(problem: SmallProblem, policy: Scheduler | Priority) -> Priority:
    """The priorities of a scheduler as a function of p and n, if they are one."""
    if not isinstance(policy, Scheduler):
        return policy

    def priority(p: FloatArray, waiting: IntArray) -> FloatArray:
        told = Problem(p.shape[0], problem.size, _family(problem), (np.nan, np.nan, np.nan))
        fields: dict[str, dict[str, Any]] = {
            "channel": {"success": p},
            "backlog": {"waiting": waiting},
            "rates": {"rates": problem.theta},
            "statistics": {"planning": _Planning(problem)},
        }
        visible = {k: v for need in policy.needs for k, v in fields.get(need, {}).items()}
        seen = Observation(problem=told, round=1, slots=problem.slots, **visible)
        try:
            if policy.ideal or type(policy).decide is not Scheduler.decide or policy.start(told):
                raise AttributeError("it has a state, or a rule of its own")
            return policy.priority({}, seen, None)  # type: ignore[arg-type]
        except AttributeError as error:  # delays, gains and random numbers are not to be had here
            raise FedwaveError(
                f"scheduler {policy.name!r} does not decide by p and n alone: simulate it instead."
            ) from error

    return priority


class _Planning:
    """Planning (types.py) of a small problem, which knows no SNR: a device's number stands for it."""

    independent = True

    def __init__(self, problem: SmallProblem) -> None:
        self._problem = problem
        self.mean_snr: FloatArray = np.arange(1.0, problem.size + 1)

    def success_levels(self, mean_snr: FloatArray, count: int) -> FloatArray:
        levels = self._problem.levels
        middle = ((np.arange(count) + 0.5) / count * levels.shape[1]).astype(np.int64)
        device = np.asarray(mean_snr).astype(np.int64) - 1
        out: FloatArray = levels[device[..., None], middle]
        return out

    def arrival_chances(self, rates: FloatArray, most: int) -> FloatArray:
        arrivals = self._problem.arrivals
        if isinstance(arrivals, Arrivals):
            return arrivals.chances(np.asarray(rates, dtype=np.float64), most)
        raise FedwaveError(
            "arrivals given as chances say nothing of other rates: give the policy as a function of p and n."
        )


def _family(problem: SmallProblem) -> str:
    return problem.arrivals.family if isinstance(problem.arrivals, Arrivals) else "poisson"


def _equally(possible: BoolArray) -> FloatArray:
    """One, shared among the decisions (first axis) that are possible."""
    out: FloatArray = possible / possible.sum(axis=0)
    return out
