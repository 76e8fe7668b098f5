"""How far a backlog moves in a round, as chances on an evenly spaced lattice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedwave.types import FloatArray, IntArray

# P[m = 0], ..., P[m = most] at these rates: Planning.arrival_chances. None: exactly theta shards a round.
ArrivalChances = Callable[[FloatArray, int], FloatArray]

_MOST = 1 << 17  # shards of one round that are told apart; what is beyond counts as so many


@dataclass(frozen=True, eq=False)
class Steps:
    """P[the backlog grows by j units], j from 0: ``[M + 1, B]``, one column per problem."""

    chance: FloatArray
    unit: FloatArray  # [B] shards

    @property
    def mean(self) -> FloatArray:
        """In shards, ``[B]``."""
        out: FloatArray = np.arange(self.chance.shape[0]) @ self.chance * self.unit
        return out


def reach(chances: ArrivalChances | None, theta: FloatArray, tail: float) -> IntArray:
    """Shards that one round brings at most, but for a chance of ``tail``: ``[B]``."""
    if chances is None:
        return np.ceil(theta).astype(np.int64)
    rates, which = np.unique(theta, return_inverse=True)
    out = np.zeros(rates.size, dtype=np.int64)
    for k, rate in enumerate(rates):
        most = int(2 * rate + 16)
        while True:
            below = np.cumsum(chances(rates[k : k + 1], most)[0])
            enough = int(np.searchsorted(below, 1 - tail))
            if enough <= most or most >= _MOST:
                break
            most = min(4 * most, _MOST)
        out[k] = max(min(enough, most), 1)
    return out[which.reshape(-1)]


def steps(
    chances: ArrivalChances | None, theta: FloatArray, unit: FloatArray, most: IntArray
) -> Steps:
    """Arrivals at rates ``theta`` on lattices of these units (whole numbers), up to ``most`` shards.

    A count between two lattice points is shared between them with its mean kept. What an upload saves is
    concave in the backlog, so this too makes the cost too low, never too high.
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
    single[-1] += max(0.0, 1 - single.sum())  # the tail: too few shards, so again too low a cost
    if size == 1:
        return single
    below, over = np.divmod(np.arange(count + 1), size)
    length = int(below[-1]) + 2
    lower = np.bincount(below, single * (1 - over / size), length).astype(np.float64)
    return lower + np.bincount(below + 1, single * (over / size), length)
