"""The exact optimum of small networks, and the exact mean backlog of any decisions by p and n."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.planning.exact_model import SmallRound
from fedwave.planning.exact_solver import Table, best_tables
from fedwave.schedulers.base import Scheduler
from fedwave.theory.exact_policies import Priority, best_shares, priority_of, priority_shares
from fedwave.theory.exact_problem import SmallProblem
from fedwave.theory.fixed_policy import FixedPolicy
from fedwave.types import FloatArray, IntArray

_NAME = "value iteration"
_TARGET = 1e-6  # what a truncation of our own choice may change, as a share of the backlog
_CAUTION = 1.5  # prices come from the truncated network itself; measured, up to 5 % is missing
_GROWTH, _LEAP, _MOST_GROWTH = 1.5, 3.0, 10.0
_MUCH = 0.01  # share of the shards that find no room, from which on a truncation is far off


@dataclass(frozen=True, eq=False)
class Optimum:
    """The least mean backlog that any decisions reach, and the decisions.

    ``backlog`` is that of the truncated network, never above the true one; ``error`` estimates how far the true
    one may lie above it.
    """

    problem: SmallProblem
    backlog: float
    error: float
    truncation: tuple[int, ...]
    table: Table  # the decisions: the largest of Table.decision_gains(p, n)

    @property
    def bias(self) -> FloatArray:
        """h(n): what it costs in all to start with n instead of nothing, ``[N_1 + 1, ..., N_U + 1]``."""
        return self.table.bias

    def score(self, gamma: float = 0.01) -> float:
        """The largest mean score: all arrivals, less what waiting costs."""
        return float(self.problem.theta.sum()) - gamma * self.backlog


def value_iteration(problem: SmallProblem, tolerance: float = 1e-9) -> Optimum:
    """Solve a small problem by relative value iteration.

    >>> optimum = value_iteration(SmallProblem([1, 5], [[0.7], [0.7]], slots=1))
    >>> round(optimum.backlog, 3), round(optimum.score(gamma=0.01), 3)
    (5.708, 5.943)
    """

    def attempt(round_: SmallRound, cuts: IntArray) -> _Attempt:
        table = best_tables(round_, np.ones((1, problem.size)), tolerance, _NAME)[0]
        fixed = FixedPolicy.of(round_, best_shares(round_, table.gains))
        return _Attempt(fixed, table.average, table.spread, table.bias, table)

    found, error, cuts = _solved(problem, attempt)
    assert found.table is not None
    return Optimum(problem, found.average, error, cuts, found.table)


def average_of(
    problem: SmallProblem, policy: Scheduler | Priority | Optimum, tolerance: float = 1e-9
) -> float:
    """The exact mean backlog of decisions that depend on p and n alone.

    ``policy`` is a function of p and n, both ``[rows, U]``, that returns priorities of the same shape (the W largest
    transmit, equal ones share); a Scheduler whose priorities are such a function; or an Optimum, which decides
    in another problem as in its own. Equal means equal in float64, as in a simulation: 0.3 * 3 is not 0.9.

    >>> greedy = lambda p, n: p * (n + [1, 5])
    >>> round(average_of(SmallProblem([1, 5], [[0.7], [0.7]], slots=1), greedy), 3)
    6.215
    """
    if isinstance(policy, Optimum) and policy.problem.slots != problem.slots:
        raise FedwaveError(
            f"the optimum is for {policy.problem.slots} slots but the problem has {problem.slots}: "
            "solve it for as many."
        )

    def attempt(round_: SmallRound, cuts: IntArray) -> _Attempt:
        if isinstance(policy, Optimum):
            shape = tuple(int(n) + 1 for n in cuts)
            waiting = np.indices(shape).reshape(len(shape), -1).T
            shares = best_shares(round_, policy.table.at(waiting).T.reshape(-1, *shape))
        else:
            shares = priority_shares(round_, cuts, priority_of(problem, policy))
        fixed = FixedPolicy.of(round_, shares)
        return _Attempt(fixed, *fixed.average(tolerance))

    return _solved(problem, attempt)[0].average


@dataclass(frozen=True, eq=False)
class _Attempt:
    """The answer with one truncation."""

    fixed: FixedPolicy
    average: float
    spread: float
    bias: FloatArray
    table: Table | None = None


def _solved(
    problem: SmallProblem, attempt: Callable[[SmallRound, IntArray], _Attempt]
) -> tuple[_Attempt, float, tuple[int, ...]]:
    """The answer, its error and its truncation: the one asked for, or one raised until it does not matter."""
    first = cuts = problem.cuts()
    while True:
        found = attempt(problem.round_(cuts), cuts)
        lost = found.fixed.lost(problem)
        cost = lost * np.array([1 + _steepest(found.bias, u) for u in range(problem.size)])
        error = _CAUTION * float(cost.sum()) + found.spread
        short = cost > _TARGET * max(1.0, found.average) / problem.size
        if problem.truncation is not None or not short.any():
            return found, error, tuple(cuts.tolist())
        more = np.where(lost > _MUCH * problem.theta, _LEAP, _GROWTH) * cuts
        starved = (lost > 0.99 * problem.theta) & (cuts > first)
        for u in np.flatnonzero(short & (starved | (more > _MOST_GROWTH * first))):
            raise FedwaveError(
                f"device {u + 1} is hardly served: its backlog keeps reaching {cuts[u]}, where {lost[u]:.3g} of its "
                f"{problem.theta[u]:g} shards per round find no room; its mean backlog may have no end "
                "(truncation=... gives that of a limited buffer)."
            )
        cuts = np.where(short, np.ceil(more).astype(np.int64), cuts)


def _steepest(bias: FloatArray, device: int) -> float:
    """The most that one more shard costs; not only at the truncation, where later ones are lost for it."""
    return float(np.diff(bias, axis=device).max(initial=0.0))
