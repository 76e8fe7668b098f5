"""The chance p of an upload as a few levels: what planning needs of a channel.

A planner meets p only in E[(p C - price)^+], which is convex in p. So moving p onto fixed levels, half up
and half down with its mean kept (``spread``), can only make that term larger: the planner is told more than
there is to know, and its cost comes out too low, never too high. Putting a group of neighbouring p at its mean
(``merged``) errs the other way. Both errors fall with the square of the number of levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Levels:
    """Levels of p, rising, one row per channel: ``[S, L]``, and sums over the levels from each one on."""

    value: FloatArray  # [S, L]
    share: FloatArray  # [S, L + 1] how likely p is at this level or above
    gain: FloatArray  # [S, L + 1] p summed over that share: the chance to be there and get through
    top: FloatArray  # [S] the largest p
    cells: int

    @property
    def mean(self) -> FloatArray:
        return self.gain[:, 0]

    def select(self, rows: IntArray) -> Levels:
        """Some of the channels."""
        return Levels(
            self.value[rows], self.share[rows], self.gain[rows], self.top[rows], self.cells
        )

    def above(self, row: IntArray, price: FloatArray, worth: FloatArray) -> tuple[FloatArray, ...]:
        """(share, gain) of the levels whose p * worth exceeds the price; ``row`` are channels."""
        # A worth of 0 pays at no level; where it is far below the price the ratio may overflow.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            least = np.where(worth > 0, price / worth, np.inf)
        cell = (np.sqrt(np.minimum(least / self.top[row], 1.0)) * self.cells).astype(np.int64)
        cell = np.minimum(cell, self.value.shape[1] - 1)
        cell += self.value[row, cell] <= least
        return self.share[row, cell], self.gain[row, cell]


def stacked(parts: list[Levels]) -> Levels:
    """Channels one after the other; all parts have as many cells."""

    def rows(name: str) -> FloatArray:
        return np.concatenate([getattr(part, name) for part in parts])

    return Levels(rows("value"), rows("share"), rows("gain"), rows("top"), parts[0].cells)


def spread(chances: FloatArray, cells: int, weights: FloatArray | None = None) -> Levels:
    """Each p (``[S, K]``, of these ``weights``) shared between the two levels beside it, its mean kept."""
    top, edges, cell, weights = _cells(chances, cells, weights)
    low = np.take_along_axis(edges, cell, axis=1)
    high = np.take_along_axis(edges, cell + 1, axis=1)
    upper = np.clip((chances - low) / (high - low), 0.0, 1.0)
    share = _grouped(cell, weights * (1 - upper), cells + 1)
    share += _grouped(cell + 1, weights * upper, cells + 1)
    return _levels(edges, share, top, cells)


def merged(chances: FloatArray, cells: int, weights: FloatArray | None = None) -> Levels:
    """All p (``[S, K]``) between two neighbouring levels put at their mean."""
    top, edges, cell, weights = _cells(chances, cells, weights)
    share = _grouped(cell, weights, cells)
    total = _grouped(cell, weights * chances, cells)
    mean = np.where(share > 0, total / np.where(share > 0, share, 1.0), edges[:, :-1])
    return _levels(mean, share, top, cells)


def raised(chances: FloatArray, slip: int = 0) -> tuple[FloatArray, FloatArray]:
    """Levels and weights that no true p lies above; ``chances`` stand in the middle of equal ranges.

    p rises with the gain, so from one middle to the next it is at most its value at the second; beyond the
    last it is at most 1. ``slip``: the ranges themselves are uncertain by so many places.
    """
    certain = np.ones((chances.shape[0], slip + 1))
    return np.concatenate([chances[:, slip:], certain], axis=1), _half_ends(chances.shape[1])


def lowered(chances: FloatArray, slip: int = 0) -> tuple[FloatArray, FloatArray]:
    """The same from the other side: levels that no true p lies below."""
    none = np.zeros((chances.shape[0], slip + 1))
    kept = chances[:, : chances.shape[1] - slip]
    return np.concatenate([none, kept], axis=1), _half_ends(chances.shape[1])


def _half_ends(count: int) -> FloatArray:
    weights = np.full(count + 1, 1 / count)
    weights[[0, -1]] /= 2
    return weights


def _cells(
    chances: FloatArray, cells: int, weights: FloatArray | None
) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
    """Edges at top * (j / cells)^2, closer where p is small; which cell each p lies in; its weight."""
    largest = chances[:, -1]
    top = np.where(largest > 0, largest, 1.0)
    edges = top[:, None] * (np.arange(cells + 1) / cells) ** 2
    cell = (np.sqrt(chances / top[:, None]) * cells).astype(np.int64)
    if weights is None:
        weights = np.full(chances.shape[1], 1 / chances.shape[1])
    return top, edges, np.minimum(cell, cells - 1), np.broadcast_to(weights, chances.shape)


def _grouped(cell: IntArray, values: FloatArray, count: int) -> FloatArray:
    """Sums of ``values`` by cell, in each row: ``[S, count]``."""
    rows = cell.shape[0]
    flat = (np.arange(rows)[:, None] * count + cell).ravel()
    sums = np.bincount(flat, values.ravel(), rows * count).astype(np.float64)
    return sums.reshape(rows, count)


def _levels(value: FloatArray, share: FloatArray, top: FloatArray, cells: int) -> Levels:
    none = np.zeros((value.shape[0], 1))

    def from_here_on(amount: FloatArray) -> FloatArray:
        return np.concatenate([np.cumsum(amount[:, ::-1], axis=1)[:, ::-1], none], axis=1)

    return Levels(value, from_here_on(share), from_here_on(share * value), top, cells)
