"""Picks the W largest priorities of each instance, exactly equal ones in a drawn order."""

from __future__ import annotations

import numpy as np

from fedwave.rng import Draws
from fedwave.types import BoolArray, FloatArray, IntArray

_SAMPLE = 10_000  # values that are looked at first
_MANY = 5 * _SAMPLE  # devices from which on that is faster than a partition of all


def pick_largest(priority: FloatArray, slots: int, draws: Draws) -> BoolArray:
    """The ``slots`` largest priorities of each row; equal ones are ordered by fresh uniform draws.

    Minus infinity is never picked.

    Ties are common: p is exactly 1 above some SNR and backlogs are whole numbers. A fixed order (by device
    number, for example) would always favour the same devices.
    """
    devices = priority.shape[1]
    if slots == 0:
        return np.zeros(priority.shape, dtype=np.bool_)
    cut = _at_rank(priority, devices - slots)[:, None]  # the smallest priority that can win
    above, level = priority > cut, (priority == cut) & (cut > -np.inf)
    missing = slots - above.sum(axis=1)  # winners to take among the equal ones
    equal = level.sum(axis=1)
    picked: BoolArray = above | level
    crowded = np.flatnonzero(equal > missing)
    if crowded.size:
        drawn, level = draws.uniform(devices, crowded), level[crowded]
        last = _last_winner(drawn, level, equal[crowded], missing[crowded] - 1)
        picked[crowded] = above[crowded] | (level & (drawn <= last))
    return picked


def _last_winner(drawn: FloatArray, level: BoolArray, equal: IntArray, at: IntArray) -> FloatArray:
    """The number at place ``at`` of each row's sorted ``drawn``, of the ``equal`` ones marked ``level`` only."""
    few = np.full((at.size, equal.max()), 2.0)  # sorts behind every draw
    few[np.arange(few.shape[1]) < equal[:, None]] = drawn[level]
    return np.take_along_axis(np.partition(few, np.unique(at), axis=1), at[:, None], axis=1)


def _at_rank(values: FloatArray, at: int) -> FloatArray:
    """The value at place ``at`` of each sorted row."""
    if values.shape[1] < _MANY:
        return np.partition(values, at, axis=1)[:, at]
    return np.array([_at_rank_of_many(row, at) for row in values])


def _at_rank_of_many(row: FloatArray, at: int) -> float:
    """The same for one long row, exactly, and 10 times as fast where many values are equal.

    Two values of a sorted sample enclose the wanted one. It is one of the two, if many are equal to it, or lies
    among the few between them.
    """
    sample = np.sort(row[:: row.size // _SAMPLE])
    middle, margin = at * sample.size // row.size, 3 * int(np.sqrt(sample.size))
    low = sample[middle - margin] if middle >= margin else -np.inf
    high = sample[middle + margin] if middle + margin < sample.size else np.inf
    for value in (low, high):
        if np.count_nonzero(row < value) <= at < np.count_nonzero(row <= value):
            return float(value)
    between = row[(row > low) & (row < high)]
    place = at - int(np.count_nonzero(row <= low))
    if not 0 <= place < between.size:  # the sample is not like the rest
        between, place = row, at
    return float(np.partition(between, place)[place])
