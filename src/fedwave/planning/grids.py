"""Grids for tables whose axes reach from 0 over many orders of magnitude, and reading between their points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.types import Array, FloatArray, IntArray

# Where a value lies on an axis: the grid point below it, and how far it is on the way to the next.
Place = tuple[IntArray, FloatArray]


@dataclass(frozen=True)
class Axis:
    """Points scale * (ratio^j - 1), j = 0, ..., count - 1: even near 0, even in the logarithm far out."""

    scale: float
    ratio: float
    count: int

    @property
    def points(self) -> FloatArray:
        return self.scale * (self.ratio ** np.arange(self.count, dtype=np.float64) - 1)

    @property
    def last(self) -> float:
        return self.at(self.count - 1)

    def at(self, coordinate: float) -> float:
        """The value at a coordinate, also between points."""
        return float(self.scale * (self.ratio**coordinate - 1))

    def place(self, value: Array) -> Place:
        """A value beyond the last point is taken to lie there."""
        coordinate = np.log1p(value / self.scale) / np.log(self.ratio)
        return cell_of(np.minimum(coordinate, self.count - 1), self.count)


def cell_of(coordinate: FloatArray, count: int) -> Place:
    """Split a coordinate between 0 and count - 1."""
    cell = np.minimum(coordinate.astype(np.int64), max(count - 2, 0))
    return cell, coordinate - cell


def read(table: FloatArray, row: IntArray, *places: Place) -> FloatArray:
    """A table ``[R, ...]`` at the given rows and places, straight in each axis between grid points."""
    at, weights = row, []
    for (cell, part), size in zip(places, table.shape[1:], strict=True):
        at = at * size + cell
        weights.append(part)
    flat, steps = table.ravel(), np.cumprod((1, *table.shape[:1:-1]))[::-1]
    return _between(flat, at, list(zip(weights, steps.tolist(), strict=True)))


def _between(flat: FloatArray, at: IntArray, axes: list[tuple[FloatArray, int]]) -> FloatArray:
    if not axes:
        return flat.take(at)
    (part, step), rest = axes[0], axes[1:]
    low = _between(flat, at, rest)
    high = _between(flat, at + step, rest)
    high -= low
    high *= part
    high += low
    return high
