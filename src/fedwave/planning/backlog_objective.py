"""The objective backlog: a device pays for waiting shards and for every transmission. When should it transmit?

    g + v(n) = C(n) - E_p[(p C(n) - price)^+],   C(n) = n + theta + E_m v(n + m),   v(0) = 0.

g is the least mean cost per round: backlog, and the price of transmissions. C(n) is what a successful upload
saves: all future waiting of these n + m shards. The device transmits where p C(n) > price.

A backlog only grows until an upload succeeds, which makes it 0. The cost of a given policy therefore follows from
one sweep from the largest n down to 0, and policy iteration needs a few such sweeps. The policy may have any form.
Many problems are swept together.

v is concave: under a fixed plan the cost of waiting shards is linear in their number, and v is the minimum over all
plans. Its slope falls to (1 - p) / p, with p the mean success probability: the slope for a device that always
transmits, whose shards wait another 1 / p - 1 rounds. Beyond the last lattice point v continues with that slope. This
makes v and g too low, never too high.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedwave.memory import check_memory
from fedwave.planning.channel_levels import Levels
from fedwave.planning.price_search import DeviceClasses, Objective, best_price
from fedwave.planning.renewal_solver import MOST_SWEEPS, Solutions, solve_in_batches
from fedwave.types import Array, BoolArray, FloatArray, IntArray

# P[m = 0], ..., P[m = most] at these rates: Planning.arrival_chances. None: exactly theta shards per round.
ArrivalChances = Callable[[FloatArray, int], FloatArray]

_LARGEST = 1 << 16  # lattice points
_MOST_ARRIVALS = 1 << 17  # per round; larger counts are replaced by this one
_AT_ONCE = 1 << 21  # numbers held for a batch, small enough for the caches
_FEW = 1 << 16  # below this, it is fastest to solve problems of different sizes together
_SAMPLE = 400  # with many classes of devices, about this many give a first estimate of the price


@dataclass(frozen=True)
class Effort:
    """How accurately a problem is solved."""

    tail: float  # probability of more arrivals in a round than are modelled
    points: int  # lattice points; if more were needed, the unit of the backlog grows instead
    error: float  # relative error of g from cutting n off; above it, the lattice is doubled
    saving: float  # relative saving in C below which policy iteration stops


FINE = Effort(tail=1e-12, points=2048, error=1e-7, saving=1e-12)
MEDIUM = Effort(tail=1e-8, points=256, error=1e-3, saving=1e-8)
COARSE = Effort(tail=1e-5, points=96, error=np.inf, saving=1e-3)


@dataclass(frozen=True, eq=False)
class BacklogSolutions(Solutions):
    """C and v at lattice points 0, 1, ..., ``unit`` shards apart, and linear between them."""

    over_states: ClassVar[tuple[str, ...]] = ("worth", "value")

    cost: FloatArray  # [B] g, at most ``error`` too low
    unit: FloatArray  # [B]
    slope: FloatArray  # [B] of C beyond the last point
    value: FloatArray  # v

    def worth_at(self, which: IntArray, backlog: Array) -> FloatArray:
        """C of problems ``which`` at these backlogs; the two are broadcast."""
        place = backlog / self.unit[which]
        last = self.length[which] - 1
        point = np.minimum(place.astype(np.int64), last)
        rest = place - point
        at = self.start[which] + point
        low = self.worth[at]
        end = point == last
        rise = np.where(end, self.slope[which] * self.unit[which], self.worth[at + ~end] - low)
        return low + rise * rest


@dataclass(frozen=True)
class Backlog(Objective[BacklogSolutions]):
    """The mean backlog, to be minimised."""

    chances: ArrivalChances | None
    effort: Effort = FINE

    def solve_classes(self, classes: DeviceClasses, levels: Levels, price: float) -> BacklogSolutions:
        prices = np.full(classes.row.size, price)
        return solve(levels, classes.row, classes.theta, prices, self.chances, self.effort)

    def cost(self, classes: DeviceClasses, solutions: BacklogSolutions) -> FloatArray:
        return solutions.cost

    def first_guess(self, classes: DeviceClasses, slots: float, levels: Levels) -> tuple[float, float]:
        if classes.theta.size > 2 * _SAMPLE:
            return best_price(self, classes.thinned(_SAMPLE), slots, levels).price, 1.02
        return even_price(classes, slots), 2.0


def even_price(classes: DeviceClasses, slots: float) -> float:
    """The best price where arrivals are constant and uploads never fail."""
    return float((classes.count @ np.sqrt(classes.theta)) / slots) ** 2 / 2


def solve(
    levels: Levels,
    row: IntArray,
    theta: FloatArray,
    price: FloatArray,
    chances: ArrivalChances | None,
    effort: Effort = FINE,
) -> BacklogSolutions:
    """Solve problems with channels ``row``, rates ``theta`` > 0 and prices, each ``[B]``.

    With ``chances`` None exactly theta shards arrive in every round: the mean backlog that an access point computes
    when it cannot observe the backlog.
    """
    most = arrivals_at_most(chances, theta, effort.tail)
    unit, points = lattice(levels.mean[row], theta, price, most, chances is None, effort)

    def improve(batch: IntArray, size: int) -> tuple[BacklogSolutions, BoolArray]:
        steps = arrival_steps(chances, theta[batch], unit[batch], most[batch])
        found = _improve(levels, row[batch], theta[batch], price[batch], steps, size, effort.saving)
        return found, found.error > effort.error * np.maximum(found.cost, 1e-9)

    return solve_in_batches(points, lambda which, size: batches(which, size, most / unit), improve, 2, _LARGEST)


def lattice(
    mean: FloatArray, theta: FloatArray, price: FloatArray, most: IntArray, steady: bool, effort: Effort
) -> tuple[FloatArray, IntArray]:
    """Unit and number of points of each lattice.

    A lattice reaches the backlog at which sending pays, and leaves room for failed uploads after that.
    """
    with np.errstate(divide="ignore"):
        failures = np.log(effort.tail) / np.log1p(-np.minimum(mean, 1.0))
    pays = np.sqrt(2 * theta * price)  # exact where arrivals are constant and uploads never fail
    shards = 1.25 * pays + theta * (2 + failures) + most / 8
    if steady:
        unit = np.maximum(theta, shards / effort.points)
    else:
        widest = np.maximum(shards, most) / effort.points
        unit = 2.0 ** np.ceil(np.log2(np.maximum(widest, 1.0)))
    points = np.maximum(np.ceil(shards / unit).astype(np.int64) + 8, 32)
    return unit, points


def batches(which: IntArray, points: IntArray, span: FloatArray) -> list[IntArray]:
    """Groups of problems to solve together: problems of similar size, or a few small ones of any size."""
    order = which[np.lexsort((span[which], points[which]))]
    out, start = [], 0
    while start < order.size:
        rest = order[start:]
        width = points[rest] + np.maximum.accumulate(span[rest]) + 2
        room = 4 * width * np.arange(1, rest.size + 1)
        fits = (room <= _FEW) | ((room <= _AT_ONCE) & (points[rest] <= 1.25 * points[rest[0]]))
        count = max(1, int(np.argmin(np.append(fits, False))))
        out.append(rest[:count])
        start += count
    return out


def _improve(
    levels: Levels, row: IntArray, theta: FloatArray, price: FloatArray, steps: Steps, size: int, saving: float
) -> BacklogSolutions:
    """Policy iteration from a policy that transmits at about the right backlog."""
    backlog = np.arange(size + 1)[:, None] * steps.unit
    mean = levels.mean[row]
    worth = 1.5 * price / mean * (backlog + theta) / (theta + np.sqrt(2 * theta * price))
    share, gain, stuck = _policy(levels, row, price, worth)
    for _ in range(MOST_SWEEPS):
        parts = _evaluate(share, gain, backlog + theta, (1 - mean) / mean, steps)
        cost = (parts[0, 0] + price * parts[0, 1]) / parts[0, 2]
        value = parts[:, 0] + price * parts[:, 1] - cost * parts[:, 2]
        worth = backlog + theta + _expected(value, steps.probability, size)
        share_before, gain_before = share, gain
        share, gain, stuck = _policy(levels, row, price, worth)
        saved = (gain - gain_before) * worth - price * (share - share_before)
        if np.all(saved <= saving * worth):
            break
    # A further sweep would lower g by at most its largest saving in any state.
    left = np.maximum(saved, 0.0).max(axis=0)
    # v is concave, so beyond the last n its slope is at most the slope at size / 4, which the cut-off hardly changes.
    early = size // 4
    steepest = (value[early] - value[early - 1]) / steps.unit - (1 - mean) / mean
    error = left + np.maximum(steepest, 0.0) * parts[0, 3] / parts[0, 2]
    return BacklogSolutions(
        service=parts[0, 1] / parts[0, 2],
        error=np.where(stuck, np.inf, error),
        length=np.full(theta.size, size + 1),
        start=np.arange(theta.size) * (size + 1),
        worth=worth.T.ravel(),
        cost=cost - left,
        unit=steps.unit,
        slope=1 / mean,
        value=value[: size + 1].T.ravel(),
    )


def _policy(
    levels: Levels, row: IntArray, price: FloatArray, worth: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """(share, gain) of the levels at which each backlog is sent, ``[N + 1, B]``; and the problems that are stuck.

    A problem is stuck if even its largest backlog is not sent. That backlog is then always sent, and the lattice is
    too short.
    """
    share, gain = levels.above(row, price, worth)
    stuck: BoolArray = gain[-1] <= 0
    always = levels.above(row, np.zeros(row.size), np.ones(row.size))
    share[-1] = np.where(stuck, always[0], share[-1])
    gain[-1] = np.where(stuck, always[1], gain[-1])
    return share, gain, stuck


def _evaluate(share: FloatArray, gain: FloatArray, held: FloatArray, slope: FloatArray, steps: Steps) -> FloatArray:
    """Expected sums from backlog n to the next successful upload, under a policy: ``[N + M + 1, 4, B]``.

    The four sums are over the backlog, transmissions, rounds, and shards beyond the last n. The fourth gives the
    cost of a steeper continuation.
    """
    last, span = share.shape[0] - 1, steps.probability.shape[0] - 1
    keep = 1 - gain
    base = np.stack([keep * held, share, np.ones(share.shape), np.zeros(share.shape)], axis=1)
    out = np.empty((last + span + 1, *base.shape[1:]))
    out[last:] = base[last]
    # Beyond the last n all sums are linear; the first and the fourth rise.
    out[last:, 0] += keep[last] * slope * steps.mean
    out[last:, 3] += keep[last] * steps.mean
    out[last:] /= 1 - keep[last] * steps.probability.sum(axis=0)
    beyond = np.arange(span + 1)[:, None] * steps.unit
    out[last:, 0] += slope * beyond
    out[last:, 3] += beyond
    # A round without arrivals and without a successful upload leaves n unchanged.
    once = 1 / (1 - keep * steps.probability[0])
    grows = steps.probability[1:]
    for n in range(last - 1, -1, -1):
        ahead = np.einsum("mkb,mb->kb", out[n + 1 : n + 1 + span], grows)
        out[n] = (base[n] + keep[n] * ahead) * once[n]
    return out


def _expected(value: FloatArray, probability: FloatArray, last: int) -> FloatArray:
    """E_m v(n + m) for n up to ``last``: ``[N + 1, B]``."""
    out = np.zeros((last + 1, value.shape[1]))
    for m, weight in enumerate(probability):
        out += weight * value[m : m + last + 1]
    return out


@dataclass(frozen=True, eq=False)
class Steps:
    """P[the backlog grows by j units in a round], j from 0: ``[M + 1, B]``, one column per problem."""

    probability: FloatArray
    unit: FloatArray  # [B] shards

    @property
    def mean(self) -> FloatArray:
        """In shards, ``[B]``."""
        out: FloatArray = np.arange(self.probability.shape[0]) @ self.probability * self.unit
        return out


def arrivals_at_most(chances: ArrivalChances | None, theta: FloatArray, tail: float) -> IntArray:
    """The number of shards that a round exceeds with probability at most ``tail``: ``[B]``."""
    if chances is None:
        return np.ceil(theta).astype(np.int64)
    rates, which = np.unique(theta, return_inverse=True)
    out = np.zeros(rates.size, dtype=np.int64)
    for k, rate in enumerate(rates):
        most = int(2 * rate + 16)
        check_memory(
            f"planning for {rate:.3g} shards a round",
            5 * 8.0 * most,
            "use larger shards, so that fewer arrive, or a scheduler that does not plan",
        )
        while True:
            below = np.cumsum(chances(rates[k : k + 1], most)[0])
            enough = int(np.searchsorted(below, 1 - tail))
            if enough <= most or most >= _MOST_ARRIVALS:
                break
            most = min(4 * most, _MOST_ARRIVALS)
        out[k] = max(min(enough, most), 1)
    return out[which.reshape(-1)]


def arrival_steps(chances: ArrivalChances | None, theta: FloatArray, unit: FloatArray, most: IntArray) -> Steps:
    """Arrivals at rates ``theta`` on lattices with these units (whole numbers), up to ``most`` shards.

    A count between two lattice points is divided between them, and its mean is kept. v is concave in the backlog, so
    this too makes the cost too low, never too high.
    """
    if chances is None:
        one = np.minimum(theta / unit, 1.0)
        return Steps(np.stack([1 - one, one]), unit)
    keys = np.stack([theta, unit, most])
    different, which = np.unique(keys, axis=1, return_inverse=True)
    columns = [_column(chances, *key) for key in different.T]
    longest = max(c.size for c in columns)
    table = np.zeros((longest, len(columns)))
    for k, column in enumerate(columns):
        table[: column.size, k] = column
    return Steps(table[:, which.reshape(-1)], unit)


def _column(chances: ArrivalChances, theta: float, unit: float, most: float) -> FloatArray:
    count, size = int(most), int(unit)
    single: FloatArray = chances(np.array([theta]), count)[0]
    single[-1] += max(0.0, 1 - single.sum())  # the tail: fewer shards, so again too low a cost
    if size == 1:
        return single
    below, over = np.divmod(np.arange(count + 1), size)
    length = int(below[-1]) + 2
    lower = np.bincount(below, single * (1 - over / size), length).astype(np.float64)
    return lower + np.bincount(below + 1, single * (over / size), length)
