"""Poisson counts by inversion, for many devices that share a few rates.

NumPy multiplies uniform numbers until it has a count, 37 ns each: half of a round with a million devices. Here one
uniform number u gives one count, the smallest k with u < P[m <= k], in 8 ns by a table that is made once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.rng import Block
from fedwave.types import Array, FloatArray, IntArray

_CELLS = 4096  # cells of the unit interval; u is looked up by its cell
_MOST_RATES = 64  # different rates for which the table fits into a processor's cache
_LARGEST_RATE = 64.0  # for larger rates NumPy is as fast


@dataclass(frozen=True)
class _Table:
    """Counts by rate and cell of u."""

    rates: FloatArray  # [U], as given
    start: Array  # [U] index of the first cell of the device's rate
    counts: Array  # [distinct rates * cells] the count, or -1 where a cell holds several
    up_to: FloatArray  # [distinct rates, most + 1] P[m <= k]

    def look_up(self, u: FloatArray) -> IntArray:
        cell = (u * _CELLS).astype(np.int32)  # _CELLS is a power of two: the product is exact
        cell += self.start
        counts: IntArray = self.counts[cell].astype(np.int64)
        mixed = np.flatnonzero(counts < 0)
        values, rate = u.ravel()[mixed], cell.ravel()[mixed] // _CELLS
        counts.ravel()[mixed] = (values[:, None] >= self.up_to[rate]).sum(axis=1)
        return counts


_last: _Table | None = None  # a simulation asks for the same rates in every block


def poisson_counts(block: Block, rates: FloatArray) -> IntArray:
    """Poisson counts ``[B, I, U]`` with these means ``[U]``."""
    global _last
    table = _last
    if table is None or not np.array_equal(table.rates, rates):
        distinct = np.unique(rates)
        if distinct.size > _MOST_RATES or not distinct[-1] <= _LARGEST_RATE:
            return block.draw(lambda rng, shape: rng.poisson(rates, shape))
        table = _last = _table(rates, distinct)
    return table.look_up(block.draw(lambda rng, shape: rng.random(shape)))


def _table(rates: FloatArray, distinct: FloatArray) -> _Table:
    up_to = _distribution(distinct)
    edges = np.arange(_CELLS + 1) / _CELLS
    counts = np.empty((distinct.size, _CELLS), dtype=np.int32)
    for row, steps in zip(counts, up_to, strict=True):
        first = np.searchsorted(steps, edges[:-1], side="right")
        last = np.searchsorted(steps, edges[1:], side="left")  # u stays below the right edge
        row[:] = np.where(first == last, first, -1)
    start = (_CELLS * np.searchsorted(distinct, rates)).astype(np.int32)
    return _Table(rates.copy(), start, counts.ravel(), up_to)


def _distribution(rates: FloatArray) -> FloatArray:
    """P[m <= k] of each rate, up to a k that no uniform double exceeds."""
    chance, k = np.exp(-rates), 0
    up_to = [chance]
    while (up_to[-1] < 1).any():
        k += 1
        chance = chance * rates / k
        # Past the mean, terms too small to change the sum are dropped, or it would stay just below 1.
        over = (k > rates) & (chance < 2.0**-54)
        up_to.append(np.where(over, 1.0, np.minimum(up_to[-1] + chance, 1.0)))
    return np.stack(up_to, axis=1)
