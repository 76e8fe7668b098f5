"""The success probability p of an upload as a few levels: all that planning needs of a channel.

A planner uses p only in E[(p C - price)^+], which is convex in p. ``spread_levels`` moves each p to the two levels
beside it and keeps its mean. This can only make the expectation larger, so the cost comes out too low, never too high.
``merge_levels`` replaces all p between two levels by their mean and errs the other way. Both errors fall with the
square of the number of levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Levels:
    """Levels of p, rising, one row per channel, with sums over each level and those above it."""

    value: FloatArray  # [S, L]
    share: FloatArray  # [S, L + 1] probability that p is at this level or above
    gain: FloatArray  # [S, L + 1] sum of p over that share: probability of such a level and a success
    top: FloatArray  # [S] the largest p
    cells: int

    @property
    def mean(self) -> FloatArray:
        """Mean p of each channel, ``[S]``."""
        return self.gain[:, 0]

    def select(self, rows: IntArray) -> Levels:
        """The channels ``rows``, in this order."""
        return Levels(self.value[rows], self.share[rows], self.gain[rows], self.top[rows], self.cells)

    def above(self, row: IntArray, price: FloatArray, worth: FloatArray) -> tuple[FloatArray, ...]:
        """P[p worth > price] and E[p; p worth > price] of channels ``row``: the transmissions, and those that succeed.

        ``row`` and ``price`` are ``[B]``, ``worth`` is ``[..., B]``, and so are both results.
        """
        # A worth of 0 pays at no level. The ratio may overflow where the worth is far below the price.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            least = np.where(worth > 0, price / worth, np.inf)
        cell = (np.sqrt(np.minimum(least / self.top[row], 1.0)) * self.cells).astype(np.int64)
        cell = np.minimum(cell, self.value.shape[1] - 1)
        cell += self.value[row, cell] <= least
        return self.share[row, cell], self.gain[row, cell]


def stack_levels(parts: list[Levels]) -> Levels:
    """The channels of all parts, one after the other; all parts have the same number of cells."""

    def rows(name: str) -> FloatArray:
        return np.concatenate([getattr(part, name) for part in parts])

    return Levels(rows("value"), rows("share"), rows("gain"), rows("top"), parts[0].cells)


def spread_levels(success: FloatArray, cells: int, weights: FloatArray | None = None) -> Levels:
    """Each p (``[S, K]``, with ``weights``) divided between the two levels beside it; its mean is kept."""
    top, edges, cell, weights = _cells(success, cells, weights)
    low = np.take_along_axis(edges, cell, axis=1)
    high = np.take_along_axis(edges, cell + 1, axis=1)
    upper = np.clip((success - low) / (high - low), 0.0, 1.0)
    share = _sums_by_cell(cell, weights * (1 - upper), cells + 1)
    share += _sums_by_cell(cell + 1, weights * upper, cells + 1)
    return _levels(edges, share, top, cells)


def merge_levels(success: FloatArray, cells: int, weights: FloatArray | None = None) -> Levels:
    """All p (``[S, K]``) between two neighbouring levels replaced by their mean."""
    top, edges, cell, weights = _cells(success, cells, weights)
    share = _sums_by_cell(cell, weights, cells)
    total = _sums_by_cell(cell, weights * success, cells)
    mean = np.where(share > 0, total / np.where(share > 0, share, 1.0), edges[:, :-1])
    return _levels(mean, share, top, cells)


def upper_success(success: FloatArray, slip: int = 0) -> tuple[FloatArray, FloatArray]:
    """p ``[S, K + 1]`` that are at least the true p, and their weights; ``success`` ``[S, K]`` is p amid equal ranges.

    p rises with the gain. Between two middles it is at most p at the upper one; beyond the last middle it is at
    most 1. ``slip`` is the number of places by which the ranges themselves may be wrong.
    """
    certain = np.ones((success.shape[0], slip + 1))
    return np.concatenate([success[:, slip:], certain], axis=1), _half_ends(success.shape[1])


def lower_success(success: FloatArray, slip: int = 0) -> tuple[FloatArray, FloatArray]:
    """p ``[S, K + 1]`` that are at most the true p, and their weights: the counterpart of ``upper_success``."""
    none = np.zeros((success.shape[0], slip + 1))
    kept = success[:, : success.shape[1] - slip]
    return np.concatenate([none, kept], axis=1), _half_ends(success.shape[1])


def _half_ends(count: int) -> FloatArray:
    weights = np.full(count + 1, 1 / count)
    weights[[0, -1]] /= 2
    return weights


def _cells(
    success: FloatArray, cells: int, weights: FloatArray | None
) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
    """The largest p; edges at top * (j / cells)^2, closer where p is small; the cell and weight of each p."""
    largest = success[:, -1]
    top = np.where(largest > 0, largest, 1.0)
    edges = top[:, None] * (np.arange(cells + 1) / cells) ** 2
    cell = (np.sqrt(success / top[:, None]) * cells).astype(np.int64)
    if weights is None:
        weights = np.full(success.shape[1], 1 / success.shape[1])
    return top, edges, np.minimum(cell, cells - 1), np.broadcast_to(weights, success.shape)


def _sums_by_cell(cell: IntArray, values: FloatArray, count: int) -> FloatArray:
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
