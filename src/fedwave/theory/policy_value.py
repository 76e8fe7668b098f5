"""The exact optimum of a network of a few devices, and the exact mean backlog of any policy in p and n."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.planning.exact_model import Devices, ExactRound, along, decisions, incidence, products
from fedwave.planning.exact_solver import DecisionTable, solve_networks
from fedwave.schedulers.base import Scheduler
from fedwave.theory.exact_problem import SOLVER_ARRAYS, ExactProblem
from fedwave.types import BoolArray, FloatArray, IntArray, Observation, Problem

# Priorities [rows, U] from p and n, both [rows, U].
Priority = Callable[[FloatArray, IntArray], FloatArray]
# From p [U] to the share of every decision in every state, [A, 1, N_1 + 1, ..., N_U + 1].
Shares = Callable[[FloatArray], FloatArray]

_NAME = "value iteration"
_TARGET = 1e-6  # relative change of the backlog by a truncation that was chosen automatically
_CAUTION = 1.5  # the cost of lost shards comes from the truncated network, which misses up to 5 %
_GROWTH, _LEAP, _MOST_GROWTH = 1.5, 3.0, 10.0
_MUCH = 0.01  # share of lost shards from which on the truncation grows by _LEAP
_TIE = 1e-9  # relative difference of gains, and of priorities, up to which they count as equal
_ROOM, _MOST_HELD, _STEPS = 20_000_000, 400, 3000
_SHARPER = 1e-3  # GMRES bounds the mean error over states; the tolerance is for the largest


@dataclass(frozen=True, eq=False)
class Optimum:
    """The least mean backlog that any decisions reach, and these decisions.

    ``backlog`` is the least mean backlog of the truncated network, which is never above the true one; ``error``
    estimates how far the true one may lie above it.
    """

    problem: ExactProblem
    backlog: float
    error: float
    truncation: tuple[int, ...]
    table: DecisionTable  # the best decision has the largest DecisionTable.decision_gains(p, n)

    @property
    def decisions(self) -> BoolArray:
        """The devices that transmit in each possible decision, ``[A, U]``."""
        return decisions(self.problem.size, self.problem.slots)

    @property
    def bias(self) -> FloatArray:
        """h(n): the additional total cost of starting with n, ``[N_1 + 1, ..., N_U + 1]``."""
        return self.table.bias

    def score(self, gamma: float = 0.01) -> float:
        """The largest mean score: total rate - gamma * backlog."""
        return float(self.problem.theta.sum()) - gamma * self.backlog


def value_iteration(problem: ExactProblem, tolerance: float = 1e-9) -> Optimum:
    """Solves an exact problem by relative value iteration.

    >>> import fedwave as fw
    >>> optimum = fw.theory.value_iteration(fw.theory.ExactProblem([1, 5], [[0.7], [0.7]], slots=1))
    >>> round(optimum.backlog, 3), round(optimum.score(gamma=0.01), 3)
    (5.708, 5.943)
    """

    def attempt(round_: ExactRound, cuts: IntArray) -> tuple[FixedPolicy, DecisionTable]:
        table = solve_networks(round_, np.ones((1, problem.size)), tolerance, _NAME)[0]
        return FixedPolicy.of(round_, _best_shares(round_, table.gains)), table

    table, error, cuts = _solved(problem, attempt)
    return Optimum(problem, table.average, error, cuts, table)


def mean_backlog(problem: ExactProblem, policy: Scheduler | Priority | Optimum, tolerance: float = 1e-9) -> float:
    """The exact mean backlog of a policy that depends only on p and n.

    ``policy`` is a function of p and n, both ``[rows, U]``, that returns priorities of the same shape (the W largest
    transmit, ties are broken at random); a Scheduler whose priorities are such a function; or an Optimum, which may
    belong to another problem. Priorities of a function that differ only by rounding are a tie, such as 0.3 * 3 and
    0.9. Priorities of a Scheduler are compared bit by bit, as in a simulation.

    >>> import fedwave as fw
    >>> greedy = lambda p, n: p * (n + [1, 5])
    >>> problem = fw.theory.ExactProblem([1, 5], [[0.7], [0.7]], slots=1)
    >>> round(fw.theory.mean_backlog(problem, greedy), 3)
    6.215
    """
    if isinstance(policy, Optimum) and policy.problem.slots != problem.slots:
        raise FedwaveError(
            f"the optimum is for {policy.problem.slots} slots but the problem has {problem.slots}: "
            "solve a problem with the same number of slots."
        )

    def attempt(round_: ExactRound, cuts: IntArray) -> tuple[FixedPolicy, _Average]:
        if isinstance(policy, Optimum):
            shares = _best_shares(round_, policy.table.at(_backlogs(cuts)).T.reshape(-1, *(cuts + 1)))
        else:
            tie = 0.0 if isinstance(policy, Scheduler) else _TIE
            shares = _priority_shares(round_, cuts, _as_priority(problem, policy), tie)
        fixed = FixedPolicy.of(round_, shares)
        return fixed, fixed.average(tolerance)

    return _solved(problem, attempt)[0].average


class _Average(NamedTuple):
    """The mean backlog g of a policy, its uncertainty, and h."""

    average: float
    spread: float
    bias: FloatArray


_Found = TypeVar("_Found", DecisionTable, _Average)


def _solved(
    problem: ExactProblem, attempt: Callable[[ExactRound, IntArray], tuple[FixedPolicy, _Found]]
) -> tuple[_Found, float, tuple[int, ...]]:
    """The result, its error and its truncation: the given one, or one that grows until the result hardly changes."""
    first = cuts = problem.cuts()
    while True:
        fixed, found = attempt(problem.round_(cuts), cuts)
        lost = fixed.lost(problem)
        # The largest cost of one more shard; at the truncation it is too small, as shards are lost.
        steepest = [np.diff(found.bias, axis=u).max(initial=0.0) for u in range(problem.size)]
        cost = lost * (1 + np.array(steepest))
        error = _CAUTION * float(cost.sum()) + found.spread
        short = cost > _TARGET * max(1.0, found.average) / problem.size
        if problem.truncation is not None or not short.any():
            return found, error, tuple(cuts.tolist())
        more = np.where(lost > _MUCH * problem.theta, _LEAP, _GROWTH) * cuts
        starved = (lost > 0.99 * problem.theta) & (cuts > first)
        for u in np.flatnonzero(short & (starved | (more > _MOST_GROWTH * first))):
            raise FedwaveError(
                f"device {u + 1} is hardly served: with backlogs cut at {cuts[u]} it loses {lost[u]:.3g} of its "
                f"{problem.theta[u]:g} shards per round, so its mean backlog may be infinite: set truncation=... for "
                "the mean backlog with a limited buffer."
            )
        cuts = np.where(short, np.ceil(more).astype(np.int64), cuts)


def _best_shares(round_: ExactRound, gains: FloatArray) -> Shares:
    """The best decision; equally good ones have equal shares. ``gains`` are those of a DecisionTable."""
    inside = incidence(round_.devices, round_.slots)

    def shares(p: FloatArray) -> FloatArray:
        weights = products(p, round_.slots)
        value = np.stack([np.tensordot(weights[within], gains[within], 1) for within in inside])
        best = value.max(axis=0)
        return _equally(value >= best - _TIE * np.abs(best))[:, None]

    return shares


def _priority_shares(round_: ExactRound, cuts: IntArray, priority: Priority, tie: float) -> Shares:
    """The W largest priorities; decisions with equal priorities, up to a share ``tie``, have equal shares."""
    waiting, chosen = _backlogs(cuts), decisions(round_.devices, round_.slots)

    def shares(p: FloatArray) -> FloatArray:
        values = np.asarray(priority(np.broadcast_to(p, waiting.shape), waiting), dtype=np.float64)
        if values.shape != waiting.shape or np.isnan(values).any():
            raise FedwaveError(
                f"the policy returned priorities of shape {values.shape}, or NaN, for {waiting.shape[0]} states of "
                f"{waiting.shape[1]} devices: return one number for every p."
            )
        cut = np.sort(values, axis=1)[:, -round_.slots, None]
        near = tie * np.where(np.isfinite(cut), np.abs(cut), 0.0)
        above, level = values > cut + near, values >= cut - near
        possible = [((above & ~a) | (a & ~level)).sum(axis=1) == 0 for a in chosen]
        return _equally(np.array(possible)).reshape(len(chosen), 1, *(cuts + 1))

    return shares


def _backlogs(cuts: IntArray) -> IntArray:
    """Every backlog up to ``cuts``, a row each, ``[states, U]``."""
    return np.indices(tuple(cuts + 1)).reshape(cuts.size, -1).T


def _equally(possible: BoolArray) -> FloatArray:
    """Equal shares of the decisions (first axis) that are possible; they add up to 1."""
    out: FloatArray = possible / possible.sum(axis=0)
    return out


def _as_priority(exact: ExactProblem, policy: Scheduler | Priority) -> Priority:
    """The priorities of a scheduler as a function of p and n; raises FedwaveError if they depend on more."""
    if not isinstance(policy, Scheduler):
        return policy

    def priority(p: FloatArray, waiting: IntArray) -> FloatArray:
        problem = Problem(p.shape[0], exact.size, "poisson", (np.nan, np.nan, np.nan))
        known = {"success": p, "waiting": waiting, "rates": exact.theta}
        seen = Observation(problem=problem, round=1, slots=exact.slots, **known)
        try:
            if policy.ideal or type(policy).decide is not Scheduler.decide or policy.start(problem):
                raise AttributeError("it has a state, or its own decision rule")
            return policy.priority({}, seen, None)  # type: ignore[arg-type]
        except AttributeError as error:  # delays, gains and random numbers do not exist here
            raise FedwaveError(
                f"scheduler {policy.name!r} does not decide by p and n alone: simulate it instead."
            ) from error

    return priority


@dataclass(frozen=True, eq=False)
class FixedPolicy:
    """A policy as the probability, in every state, that exactly the devices in D deliver."""

    round: ExactRound
    probabilities: dict[Devices, FloatArray]  # D to [1, N_1 + 1, ..., N_U + 1]

    @classmethod
    def of(cls, round_: ExactRound, shares: Shares) -> FixedPolicy:
        """From the share of each decision, given p."""
        sets = decisions(round_.devices, round_.slots)
        chosen = [tuple(np.flatnonzero(members).tolist()) for members in sets]
        total: dict[Devices, FloatArray] = {}
        for p, probability in round_.channels:
            for who, share in zip(chosen, shares(p), strict=True):
                for k in range(len(who) + 1):
                    for delivered in combinations(who, k):
                        arrive = [p[u] if u in delivered else 1 - p[u] for u in who]
                        part = probability * float(np.prod(arrive)) * share
                        total[delivered] = total.get(delivered, 0.0) + part
        return cls(round_, total)

    def average(self, tolerance: float) -> _Average:
        """From g + h = E[B' + h(n')]."""
        cost = self._before(self.round.backlog)
        # The unknown is x = g + h. Since h is 0 where nothing waits, x - E[x(n')] + x(0) = E[B'].
        x = self._solve(lambda h: h - self._before(h) + h.flat[0], cost, _SHARPER * tolerance)
        bias = x - x.flat[0]
        added = cost + self._before(bias) - bias  # g lies between its minimum and its maximum
        low, high = float(added.min()), float(added.max())
        return _Average((low + high) / 2, high - low, bias[0])

    def occupation(self) -> FloatArray:
        """The stationary distribution: the share of time spent in every state."""
        empty = np.zeros(self.round.backlog.shape)
        empty.flat[0] = 1.0
        # The transpose of the equations above; its solution adds up to 1.
        return self._solve(lambda x: x - self._after(x) + empty * x.sum(), empty, 1e-10)

    def _solve(self, left: Callable[[FloatArray], FloatArray], right: FloatArray, tolerance: float) -> FloatArray:
        # GMRES, since iterating over rounds would take as many steps as the mixing time of the network.
        from scipy.sparse.linalg import LinearOperator, gmres

        shape, size = right.shape, right.size
        operator = LinearOperator((size, size), lambda x: left(x.reshape(shape)).reshape(-1), dtype=np.float64)
        # With more arrays in memory it takes fewer steps.
        held = int(np.clip(_ROOM // size, SOLVER_ARRAYS, _MOST_HELD))
        found, failed = gmres(
            operator, right.reshape(-1), rtol=tolerance, atol=0.0, restart=held, maxiter=_STEPS // held
        )
        if failed:
            raise FedwaveError(
                "the mean backlog of this policy was not found within the allowed steps: it may never serve some "
                "device; give every device a chance to transmit."
            )
        return np.asarray(found).reshape(shape)

    def _before(self, value: FloatArray) -> FloatArray:
        """From a value after the round to its expectation before the round."""
        values = self.round.deliveries(value)
        total = np.zeros(value.shape)
        for delivered, probability in self.probabilities.items():
            total += probability * values[delivered]
        return total

    def lost(self, problem: ExactProblem) -> FloatArray:
        """Shards per round that exceed the truncation, ``[U]``."""
        share = np.maximum(self.occupation(), 0.0)
        out = np.zeros(self.round.devices)
        for u in range(out.size):
            kept = sum(share * p for delivered, p in self.probabilities.items() if u not in delivered)
            others = tuple(v for v in range(share.ndim) if v != u + 1)
            of_backlog = np.asarray(kept).sum(axis=others)
            out[u] = of_backlog @ _overshoot(problem, u, of_backlog.size - 1)
        return out

    def _after(self, share: FloatArray) -> FloatArray:
        """The shares one round later: the transpose of ``_before``."""
        parts = {delivered: p * share for delivered, p in self.probabilities.items()}
        for u in range(self.round.devices):
            joined: dict[Devices, FloatArray] = {}
            for delivered, part in parts.items():
                if u in delivered:
                    moved = np.zeros_like(part)
                    np.moveaxis(moved, u + 1, 0)[0] = part.sum(axis=u + 1)
                else:
                    moved = along(self.round.arrivals[u].transpose(0, 2, 1), part, u)
                rest = tuple(v for v in delivered if v != u)
                joined[rest] = joined[rest] + moved if rest in joined else moved
            parts = joined
        return parts[()]


def _overshoot(problem: ExactProblem, device: int, most: int) -> FloatArray:
    """E[(n + m - N)^+] for n = 0, ..., N: the shards that exceed the truncation N."""
    chances, counts = problem.chances(device, most), np.arange(most + 1)
    room = most - counts
    unused = np.maximum(room[:, None] - counts, 0) @ chances  # E[(N - n - m)^+]
    out: FloatArray = np.maximum(problem.theta[device] - room + unused, 0.0)
    return out
