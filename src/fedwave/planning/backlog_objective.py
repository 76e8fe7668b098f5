"""The objective backlog: a device pays for waiting shards and for every transmission. When should it transmit?

    g + v(n) = C(n) - E_p[(p C(n) - price)^+],   C(n) = n + theta + E_m v(n + m),   v(0) = 0.

g is the least mean cost per round: backlog, and the price of transmissions. C(n) is what a successful upload
saves: all future waiting of these n + m shards. The device transmits where p C(n) > price (docs/theory.md).

A backlog only grows until an upload succeeds, which makes it 0. The cost of a given policy therefore follows from
one sweep from the largest n down to 0. The policy may have any form. Many problems are swept together.

v is concave: under a fixed plan the cost of waiting shards is linear in their number, and v is the minimum over all
plans. Its slope falls to (1 - p) / p, with p the mean success probability: the slope for a device that always
transmits, whose shards wait another 1 / p - 1 rounds. Beyond the last lattice point v continues with that slope. This
makes v and g too low, never too high.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.memory import check_memory
from fedwave.planning.channel_levels import Levels
from fedwave.planning.interpolation import divide_counts
from fedwave.planning.price_search import ArrivalChances, DeviceClasses, Objective, best_price
from fedwave.planning.renewal_solver import Fields, Solutions, iterate_policy, solve_in_batches
from fedwave.types import Array, BoolArray, FloatArray, IntArray

_LARGEST = 1 << 16  # lattice points
_MOST_ARRIVALS = 1 << 17  # per round; larger counts are replaced by this one
_AT_ONCE = 1 << 21  # numbers held for a batch, small enough for the caches
_FEW = 1 << 16  # below this, it is fastest to solve problems of different sizes together
_SAMPLE = 400  # with many classes of devices, about this many give a first estimate of the price


@dataclass(frozen=True)
class BacklogEffort:
    """How accurately a problem is solved."""

    tail: float  # probability of more arrivals in a round than are modelled
    points: int  # lattice points; if more were needed, the unit of the backlog grows instead
    error: float  # relative error of g from cutting n off; above it, the lattice is doubled
    saving: float  # relative saving in C below which policy iteration stops


FINE_BACKLOG = BacklogEffort(tail=1e-12, points=2048, error=1e-7, saving=1e-12)
MEDIUM_BACKLOG = BacklogEffort(tail=1e-8, points=256, error=1e-3, saving=1e-8)
COARSE_BACKLOG = BacklogEffort(tail=1e-5, points=96, error=np.inf, saving=1e-3)


@dataclass(frozen=True, eq=False)
class BacklogSolutions(Solutions):
    """``cost`` is at most ``error`` too low; ``worth`` is C at points ``unit`` shards apart, linear between them."""

    unit: FloatArray  # [B]
    slope: FloatArray  # [B] of C beyond the last point

    def worth_at(self, which: IntArray, state: Array) -> FloatArray:
        """C of problems ``which`` at these backlogs; the two are broadcast."""
        place = state / self.unit[which]
        last = self.length[which] - 1
        point = np.minimum(place.astype(np.int64), last)
        rest = place - point
        at = self.start[which] + point
        low = self.worth[at]
        end = point == last
        rise = np.where(end, self.slope[which] * self.unit[which], self.worth[at + ~end] - low)
        return low + rise * rest


@dataclass(frozen=True)
class BacklogObjective(Objective[BacklogSolutions]):
    """The mean backlog, to be minimised.

    ``hidden``: exactly theta shards arrive in every round. That is the mean backlog that an access point computes when
    it cannot observe the backlog.
    """

    hidden: bool = False
    effort: BacklogEffort = FINE_BACKLOG

    def solve_classes(self, classes: DeviceClasses, levels: Levels, price: float) -> BacklogSolutions:
        prices = np.full(classes.row.size, price)
        chances = None if self.hidden else classes.chances
        return solve_backlog(levels, classes.row, classes.theta, prices, chances, self.effort)

    def first_guess(self, classes: DeviceClasses, slots: float, levels: Levels) -> tuple[float, float]:
        if classes.theta.size > 2 * _SAMPLE:
            return best_price(self, classes.thinned(_SAMPLE), slots, levels).price, 1.02
        return even_price(classes, slots), 2.0


def even_price(classes: DeviceClasses, slots: float) -> float:
    """The best price where arrivals are constant and uploads never fail: (sum of sqrt(theta) / W)^2 / 2."""
    return float((classes.count @ np.sqrt(classes.theta)) / slots) ** 2 / 2


def solve_backlog(
    levels: Levels,
    row: IntArray,
    theta: FloatArray,
    price: FloatArray,
    chances: ArrivalChances | None,
    effort: BacklogEffort = FINE_BACKLOG,
) -> BacklogSolutions:
    """Solve problems with channels ``row``, rates ``theta`` > 0 and prices, each ``[B]``.

    With ``chances`` None exactly theta shards arrive in every round.
    """
    most = arrivals_at_most(chances, theta, effort.tail)
    unit, points = _lattice(levels.mean[row], theta, price, most, chances is None, effort)

    def cut(which: IntArray, size: IntArray) -> list[IntArray]:
        return _batches_by_size(which, size, most / unit)

    def improve(batch: IntArray, size: int) -> tuple[Fields, BoolArray]:
        steps = _arrival_steps(chances, theta[batch], unit[batch], most[batch])
        found = _on_lattice(levels, row[batch], theta[batch], price[batch], steps, unit[batch], size, effort.saving)
        return found, found["error"] > effort.error * np.maximum(found["cost"], 1e-9)

    return BacklogSolutions(**solve_in_batches(points, cut, improve, 2, _LARGEST))


def _lattice(
    mean: FloatArray, theta: FloatArray, price: FloatArray, most: IntArray, steady: bool, effort: BacklogEffort
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


def _batches_by_size(which: IntArray, points: IntArray, span: FloatArray) -> list[IntArray]:
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


def _on_lattice(
    levels: Levels,
    row: IntArray,
    theta: FloatArray,
    price: FloatArray,
    steps: FloatArray,
    unit: FloatArray,
    size: int,
    saving: float,
) -> Fields:
    """Policy iteration on ``size + 1`` points, from a policy that transmits at about the right backlog."""
    held = np.arange(size + 1)[:, None] * unit + theta  # n + theta
    mean = levels.mean[row]
    slope = (1 - mean) / mean
    found = iterate_policy(
        levels,
        row,
        price,
        1.5 * price / mean * held / (theta + np.sqrt(2 * theta * price)),
        evaluate=lambda share, gain: _sums_to_next_upload(share, gain, held, slope, steps, unit),
        worth_after=lambda value: held + _after_arrivals(value, steps, size),
        saving=lambda worth: saving * worth,
    )
    # v is concave, so beyond the last n its slope is at most the slope at size / 4, which the cut-off hardly changes.
    early = size // 4
    steepest = (found.value[early] - found.value[early - 1]) / unit - slope
    error = found.left + np.maximum(steepest, 0.0) * found.sums[0, 3] / found.sums[0, 2]
    return {
        "service": found.sums[0, 1] / found.sums[0, 2],
        "error": np.where(found.stuck, np.inf, error),
        "worth": found.worth,
        "cost": found.cost - found.left,
        "unit": unit,
        "slope": 1 / mean,
    }


def _sums_to_next_upload(
    share: FloatArray, gain: FloatArray, held: FloatArray, slope: FloatArray, steps: FloatArray, unit: FloatArray
) -> FloatArray:
    """Expected sums from backlog n to the next successful upload, under a policy: ``[N + M + 1, 4, B]``.

    The four sums are over the backlog, transmissions, rounds, and shards beyond the last n. The fourth gives the
    cost of a steeper continuation.
    """
    last, span = share.shape[0] - 1, steps.shape[0] - 1
    mean = np.arange(span + 1) @ steps * unit  # arrivals in a round, in shards
    keep = 1 - gain
    base = np.stack([keep * held, share, np.ones(share.shape), np.zeros(share.shape)], axis=1)
    out = np.empty((last + span + 1, *base.shape[1:]))
    out[last:] = base[last]
    # Beyond the last n all sums are linear; the first and the fourth rise.
    out[last:, 0] += keep[last] * slope * mean
    out[last:, 3] += keep[last] * mean
    out[last:] /= 1 - keep[last] * steps.sum(axis=0)
    beyond = np.arange(span + 1)[:, None] * unit
    out[last:, 0] += slope * beyond
    out[last:, 3] += beyond
    # A round without arrivals and without a successful upload leaves n unchanged.
    once = 1 / (1 - keep * steps[0])
    grows = steps[1:]
    for n in range(last - 1, -1, -1):
        ahead = np.einsum("mkb,mb->kb", out[n + 1 : n + 1 + span], grows)
        out[n] = (base[n] + keep[n] * ahead) * once[n]
    return out


def _after_arrivals(value: FloatArray, probability: FloatArray, last: int) -> FloatArray:
    """E_m v(n + m) for n up to ``last``: ``[N + 1, B]``."""
    out = np.zeros((last + 1, value.shape[1]))
    for m, weight in enumerate(probability):
        out += weight * value[m : m + last + 1]
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


def _arrival_steps(chances: ArrivalChances | None, theta: FloatArray, unit: FloatArray, most: IntArray) -> FloatArray:
    """P[the backlog grows by j units in a round], j from 0: ``[M + 1, B]``, one column per problem.

    Units are whole numbers, and at most ``most`` shards arrive. A count between two lattice points is divided between
    them, and its mean is kept. v is concave in the backlog, so this too makes the cost too low, never too high.
    """
    if chances is None:
        one = np.minimum(theta / unit, 1.0)
        return np.stack([1 - one, one])
    different, which = np.unique(np.stack([theta, unit, most]), axis=1, return_inverse=True)
    columns = []
    for rate, shards, count in different.T.tolist():
        single = chances(np.array([rate]), int(count))[0]
        single[-1] += max(0.0, 1 - single.sum())  # the tail: fewer shards, so again too low a cost
        columns.append(single if shards == 1 else divide_counts(single, shards))
    table = np.zeros((max(column.size for column in columns), len(columns)))
    for k, column in enumerate(columns):
        table[: column.size, k] = column
    return table[:, which.reshape(-1)]
