"""Tables that are read by interpolation: their axes, the channels they are solved for, and how they are read.

Also the inverse: amounts that lie between the points of a grid, divided between the two points beside them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from fedwave.types import Array, FloatArray, IntArray

_SOLVED_CHANNELS = 16  # of many channels; those between them are interpolated
_MOST_CHANNELS = 256  # rows of a table

# The place of a value on an axis: the grid point below it, and its fraction of the way to the next one.
Place = tuple[IntArray, FloatArray]


@dataclass(frozen=True)
class Axis:
    """Points scale * (ratio^j - 1), j = 0, ..., count - 1: linear near 0 and logarithmic far out."""

    scale: float
    ratio: float
    count: int

    @property
    def points(self) -> FloatArray:
        """All points, ``[count]``."""
        return self.scale * (self.ratio ** np.arange(self.count, dtype=np.float64) - 1)

    @property
    def last(self) -> float:
        """The largest point."""
        return self.at(self.count - 1)

    def at(self, coordinate: float) -> float:
        """The value at a coordinate, which may lie between points."""
        return float(self.scale * (self.ratio**coordinate - 1))

    def place(self, value: Array) -> Place:
        """The Place of each value; values beyond the last point are moved to it."""
        coordinate = np.log1p(value / self.scale) / np.log(self.ratio)
        return split_coordinate(np.minimum(coordinate, self.count - 1), self.count)


class WorthTables(ABC):
    """The worth of an upload at any rates and prices, and the price at which the devices use the slots."""

    row: IntArray  # [S] row of each channel in the tables

    @abstractmethod
    def price(self, row: IntArray, theta: FloatArray, slots: FloatArray) -> FloatArray:
        """The price at which devices in rows ``row`` ``[U]`` with rates ``[I, U]`` use ``slots`` ``[I]``: ``[I]``."""

    @abstractmethod
    def worth_at(self, row: IntArray, theta: FloatArray, price: FloatArray, place: Array) -> FloatArray:
        """The worth of an upload of these devices, ``[I, U]``, at prices ``[I]``; ``place`` is on the last axis."""


def split_coordinate(coordinate: FloatArray, count: int) -> Place:
    """The Place of a coordinate between 0 and count - 1 on an axis with ``count`` points."""
    cell = np.minimum(coordinate.astype(np.int64), max(count - 2, 0))
    return cell, coordinate - cell


def interpolate(table: FloatArray, row: IntArray, *places: Place) -> FloatArray:
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


def channel_nodes(mean_snr: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Channels to solve for; the row of each channel in the tables; the weights of the solved channels in each row.

    A few different channels are all solved for. Of many channels some are solved for, evenly spaced by their number;
    the others are interpolated in the logarithm of the mean SNR.
    """
    many = mean_snr.size
    if many <= _SOLVED_CHANNELS:
        return np.arange(many), np.arange(many), np.eye(many)
    nodes = np.linspace(0, many - 1, _SOLVED_CHANNELS).astype(np.int64)
    middle = np.linspace(0, many - 1, min(many, _MOST_CHANNELS)).astype(np.int64)
    log_snr = np.log(mean_snr)
    nearest = np.searchsorted((log_snr[middle][1:] + log_snr[middle][:-1]) / 2, log_snr)
    place = np.interp(log_snr[middle], log_snr[nodes], np.arange(nodes.size))
    cell, part = split_coordinate(place, nodes.size)
    mix = np.zeros((middle.size, nodes.size))
    mix[np.arange(middle.size), cell] = 1 - part
    mix[np.arange(middle.size), cell + 1] += part
    return nodes, nearest, mix


def device_weights(row: IntArray, rows: int, place: Place, count: int) -> FloatArray:
    """The number of devices at each point of a table ``[rows, count]``, flat: ``[I, rows * count]``.

    Devices are in rows ``row`` ``[U]`` and at places ``[I, U]`` of the other axis.
    """
    (cell, part), size = place, rows * count
    instances = cell.shape[0]
    # All instances are counted at once, each in bins of its own.
    at = (size * np.arange(instances)[:, None] + row * count + cell).ravel()
    bins = size * instances
    weight = np.bincount(at, (1 - part).ravel(), bins) + np.bincount(at + 1, part.ravel(), bins)
    return weight.astype(np.float64, copy=False).reshape(instances, size)


def divide_counts(chances: FloatArray, step: float, points: int = 0) -> FloatArray:
    """Probabilities of 0, 1, ... shards as probabilities of states that are ``step`` shards apart.

    A count between two states is divided between them, and its mean is kept. The result has at least ``points``
    entries.
    """
    place = np.arange(chances.size) / step
    low = place.astype(np.int64)
    share = place - low
    length = max(int(low[-1]) + 2, points)
    lower = np.bincount(low, chances * (1 - share), length).astype(np.float64)
    return lower + np.bincount(low + 1, chances * share, length)
