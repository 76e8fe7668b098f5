"""Whittle's index: the price at which a device with this backlog and channel would just as well not transmit.

It solves p C(n; price) = price. price / C(n; price) rises with the price wherever we looked, so there is one
solution; it is found here for every n and for p in steps, and read off between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedwave.planning.grids import Axis, cell_of, read
from fedwave.planning.index_tables import (
    LOADS,
    PRICES,
    RATES,
    beyond_last,
    scale_of,
    solved,
    tables,
)
from fedwave.planning.lattice import MEDIUM
from fedwave.planning.outlook import Outlook
from fedwave.types import Array, FloatArray, IntArray

_CHANCES = 17  # steps of p, from 0 to 1
_FEW, _MANY = (
    64,
    2000,
)  # kinds of devices: fewer get finer tables, more are read from tables for any rates
_FINE_PRICES = Axis(scale=1.0, ratio=2**0.25, count=81)
_FINE_LOADS = Axis(scale=1.0, ratio=1.1, count=95)


@dataclass(frozen=True, eq=False)
class WhittleTables:
    """log of index / (p k), over [row, rates, p, loads]; without rates where each row has its own."""

    log_index: FloatArray
    loads: Axis

    def index_at(
        self, row: IntArray, theta: FloatArray, success: FloatArray, backlog: Array
    ) -> FloatArray:
        """The index of each device, ``[I, U]``; ``row`` is ``[U]``."""
        scale = scale_of(theta)
        load = backlog / scale
        places = [cell_of(success * (_CHANCES - 1), _CHANCES), self.loads.place(load)]
        if self.log_index.ndim == 4:
            places.insert(0, RATES.place(theta))
        logs = read(self.log_index, np.broadcast_to(row, success.shape), *places)
        return success * np.exp(logs) * scale * beyond_last(load, self.loads)


@lru_cache(maxsize=8)
def learnt_tables(view: Outlook) -> WhittleTables:
    """For any rates; a device's row is that of ``tables``."""
    return WhittleTables(index_of(tables(view).worth, PRICES), LOADS)


@lru_cache(maxsize=8)
def known_tables(view: Outlook, devices: bytes) -> tuple[IntArray, WhittleTables]:
    """Each device's row, -1 where nothing ever arrives, and tables with each kind of device solved by itself."""
    kinds, levels = view.kinds(devices)
    if not kinds.theta.size:
        return kinds.of, WhittleTables(np.zeros((1, _CHANCES, LOADS.count)), LOADS)
    if kinds.theta.size > _MANY:
        row = tables(view).row[view.channel_of(devices)]
        return np.where(kinds.of >= 0, row, -1), learnt_tables(view)
    if kinds.theta.size > _FEW:
        worth, _ = solved(levels, kinds.row, kinds.theta, view.chances)
        return kinds.of, WhittleTables(index_of(worth, PRICES), LOADS)
    worth, _ = solved(
        levels, kinds.row, kinds.theta, view.chances, MEDIUM, _FINE_PRICES, _FINE_LOADS
    )
    return kinds.of, WhittleTables(index_of(worth, _FINE_PRICES), _FINE_LOADS)


def index_of(log_worth: FloatArray, prices: Axis) -> FloatArray:
    """From log C over [..., prices, loads] to log(index / p) over [..., p, loads]."""
    price = prices.points[:, None]
    ratio = price / np.exp(log_worth)  # rises from 0 with the price
    out = []
    for chance in np.arange(_CHANCES) / (_CHANCES - 1):
        below = np.count_nonzero(ratio <= chance, axis=-2, keepdims=True) - 1
        cell = np.minimum(below, prices.count - 2)
        low, high = (np.take_along_axis(ratio, cell + k, axis=-2) for k in (0, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            # Both are close to powers of the price, but for the first, which is 0.
            even = np.log(chance / low) / np.log(high / low)
        part = np.where(cell == 0, (chance - low) / (high - low), even)
        low_log, high_log = (np.take_along_axis(log_worth, cell + k, axis=-2) for k in (0, 1))
        inside = low_log + np.clip(part, 0.0, 1.0) * (high_log - low_log)
        # Beyond the last price the index grows with the square of what the upload is worth.
        with np.errstate(divide="ignore"):
            beyond = high_log + np.log(chance / high)
        out.append(np.where(below > cell, beyond, inside))
    return np.concatenate(out, axis=-2)
