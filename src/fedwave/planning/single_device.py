"""One device that pays a price for every transmission: when is it worth while?

    g + v(n) = C(n) - E_p[(p C(n) - price)^+],   C(n) = n + theta + E_m v(n + m),   v(0) = 0.

g is the least mean cost a round (backlog, and the price of what is sent). C(n) is what an upload that arrives
saves: all the waiting of these n + m shards that is still to come. The device transmits where p C(n) > price.

A backlog only grows until an upload arrives, and then it is 0. So the cost of a given policy follows from one
sweep from the largest n down to 0, and better policies are found in a few such sweeps (policy iteration; no
form of the policy is assumed). Many problems are swept side by side.

v is concave: whatever is planned, shards that wait now cost in proportion to their number, and v is the least
over all plans. Its slope falls to (1 - p) / p with p the mean chance, that of a device that always transmits: a
shard then waits 1 / p - 1 rounds after this one. Continuing v with that slope beyond the last n that is solved
makes it too low, never too high, and so is g.
"""

from __future__ import annotations

import numpy as np

from fedwave.planning.arrival_steps import ArrivalChances, Steps, reach, steps
from fedwave.planning.channel_levels import Levels
from fedwave.planning.device_curves import Curves, joined
from fedwave.planning.lattice import FINE, Effort, batches, lattice
from fedwave.types import BoolArray, FloatArray, IntArray

_MOST_SWEEPS = 60  # a handful suffices; more only where rounding turns a tie to and fro
_LARGEST = 1 << 16  # lattice points


def solve(
    levels: Levels, row: IntArray, theta: FloatArray, price: FloatArray,
    chances: ArrivalChances | None, effort: Effort = FINE,
) -> Curves:  # fmt: skip
    """Solve problems of channels ``row``, rates ``theta`` > 0 and prices, each ``[B]``.

    ``chances`` None lets exactly theta shards arrive in every round; that is what a backlog looks like, on
    average, to an access point that cannot see it.
    """
    most = reach(chances, theta, effort.tail)
    unit, points = lattice(levels.mean[row], theta, price, most, chances is None, effort)
    out: list[tuple[IntArray, Curves]] = []
    waiting = np.arange(theta.size)
    while waiting.size:
        again = []
        for batch in batches(waiting, points, most / unit):
            size = int(points[batch].max())
            moves = steps(chances, theta[batch], unit[batch], most[batch])
            found = _improve(
                levels, row[batch], theta[batch], price[batch], moves, size, effort.saving
            )
            enough = effort.doubt * np.maximum(found.cost, 1e-9)
            poor = (found.doubt > enough) & (2 * size <= _LARGEST)
            out.append((batch[~poor], found.select(~poor)))
            again.append(batch[poor])
            points[batch[poor]] = 2 * size
        waiting = np.concatenate(again)
    return joined(out)


def _improve(
    levels: Levels, row: IntArray, theta: FloatArray, price: FloatArray,
    moves: Steps, size: int, saving: float,
) -> Curves:  # fmt: skip
    """Policy iteration, from a policy that serves a backlog of about the right size."""
    backlog = np.arange(size + 1)[:, None] * moves.unit
    mean = levels.mean[row]
    worth = 1.5 * price / mean * (backlog + theta) / (theta + np.sqrt(2 * theta * price))
    share, gain, stuck = _policy(levels, row, price, worth)
    for _ in range(_MOST_SWEEPS):
        parts = _evaluate(share, gain, backlog + theta, (1 - mean) / mean, moves)
        cost = (parts[0, 0] + price * parts[0, 1]) / parts[0, 2]
        value = parts[:, 0] + price * parts[:, 1] - cost * parts[:, 2]
        worth = backlog + theta + _expected(value, moves.chance, size)
        share_before, gain_before = share, gain
        share, gain, stuck = _policy(levels, row, price, worth)
        saved = (gain - gain_before) * worth - price * (share - share_before)
        if np.all(saved <= saving * worth):
            break
    # What another sweep could still save lowers g by no more than its largest saving in any state.
    left = np.maximum(saved, 0.0).max(axis=0)
    # Beyond the last n the slope is at most what it was a quarter of the way, where the cut is hardly felt.
    early = size // 4
    steepest = (value[early] - value[early - 1]) / moves.unit - (1 - mean) / mean
    doubt = left + np.maximum(steepest, 0.0) * parts[0, 3] / parts[0, 2]
    return Curves(
        cost=cost - left, service=parts[0, 1] / parts[0, 2], doubt=np.where(stuck, np.inf, doubt),
        unit=moves.unit, slope=1 / mean, last=np.full(theta.size, size),
        start=np.arange(theta.size) * (size + 1),
        worth=worth.T.ravel(), value=value[: size + 1].T.ravel(),
    )  # fmt: skip


def _policy(
    levels: Levels, row: IntArray, price: FloatArray, worth: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """(share, gain) of the levels at which each backlog is sent, ``[N + 1, B]``; and who is stuck.

    Stuck is who would not even send the largest backlog: it is made to, and its lattice is too short.
    """
    share, gain = levels.above(row, price, worth)
    stuck: BoolArray = gain[-1] <= 0
    always = levels.above(row, np.zeros(row.size), np.ones(row.size))
    share[-1] = np.where(stuck, always[0], share[-1])
    gain[-1] = np.where(stuck, always[1], gain[-1])
    return share, gain, stuck


def _evaluate(
    share: FloatArray, gain: FloatArray, held: FloatArray, slope: FloatArray, moves: Steps
) -> FloatArray:
    """What follows from backlog n until the next upload arrives, under a policy: ``[N + M + 1, 4, B]``.

    Expected sums over the rounds until then: of the backlog, of transmissions, of rounds; and, fourth, of the
    shards beyond the last n, which tells what a steeper continuation would cost.
    """
    last, span = share.shape[0] - 1, moves.chance.shape[0] - 1
    keep = 1 - gain
    base = np.stack([keep * held, share, np.ones(share.shape), np.zeros(share.shape)], axis=1)
    out = np.empty((last + span + 1, *base.shape[1:]))
    out[last:] = base[last]
    # Beyond the last n everything continues in straight lines: the first and the fourth part rise.
    out[last:, 0] += keep[last] * slope * moves.mean
    out[last:, 3] += keep[last] * moves.mean
    out[last:] /= 1 - keep[last] * moves.chance.sum(axis=0)
    beyond = np.arange(span + 1)[:, None] * moves.unit
    out[last:, 0] += slope * beyond
    out[last:, 3] += beyond
    # Rounds in which nothing arrives and nothing gets through leave n as it is.
    once = 1 / (1 - keep * moves.chance[0])
    grows = moves.chance[1:]
    for n in range(last - 1, -1, -1):
        ahead = np.einsum("mkb,mb->kb", out[n + 1 : n + 1 + span], grows)
        out[n] = (base[n] + keep[n] * ahead) * once[n]
    return out


def _expected(value: FloatArray, chance: FloatArray, last: int) -> FloatArray:
    """E_m v(n + m) for n up to ``last``: ``[N + 1, B]``."""
    out = np.zeros((last + 1, value.shape[1]))
    for m, weight in enumerate(chance):
        out += weight * value[m : m + last + 1]
    return out
