"""Grids: lattices of backlogs for solving, and axes of tables that are read by interpolation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.types import Array, FloatArray, IntArray

_AT_ONCE = 1 << 21  # numbers held for a batch, small enough for the caches
_FEW = 1 << 16  # below this, it is fastest to solve problems of different sizes together

# The place of a value on an axis: the grid point below it, and its fraction of the way to the next one.
Place = tuple[IntArray, FloatArray]


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


@dataclass(frozen=True)
class Axis:
    """Points scale * (ratio^j - 1), j = 0, ..., count - 1: linear near 0 and logarithmic far out."""

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
        """The value at a coordinate, which may lie between points."""
        return float(self.scale * (self.ratio**coordinate - 1))

    def place(self, value: Array) -> Place:
        """Values beyond the last point are moved to it."""
        coordinate = np.log1p(value / self.scale) / np.log(self.ratio)
        return cell_of(np.minimum(coordinate, self.count - 1), self.count)


def cell_of(coordinate: FloatArray, count: int) -> Place:
    """Split a coordinate between 0 and count - 1."""
    cell = np.minimum(coordinate.astype(np.int64), max(count - 2, 0))
    return cell, coordinate - cell


def read(table: FloatArray, row: IntArray, *places: Place) -> FloatArray:
    """A table ``[R, ...]`` at the given rows and places, by linear interpolation along every axis."""
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
