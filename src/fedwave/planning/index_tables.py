"""Indices read from tables, so that new rates or a new price cost a look-up and not a new solution.

Large backlogs scale: with k = sqrt(1 + theta^2), C / k hardly depends on theta once it is written as a function of
price / k and n / k. So one table over (channel, theta, price / k, n / k) serves all devices. It holds logarithms,
since C and the service rates are close to powers of all of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedwave.planning.arrival_steps import ArrivalChances
from fedwave.planning.channel_levels import Levels
from fedwave.planning.grids import Axis, cell_of, read
from fedwave.planning.lattice import COARSE, Effort
from fedwave.planning.outlook import Outlook
from fedwave.planning.single_device import solve
from fedwave.types import Array, FloatArray, IntArray

RATES = Axis(scale=0.05, ratio=1.6, count=16)  # up to 58: beyond, everything scales
PRICES = Axis(scale=1.0, ratio=1.6, count=30)  # up to 830,000: one transmission in 1,300 rounds
LOADS = Axis(scale=1.0, ratio=2 ** (1 / 3), count=40)  # up to 8,191; beyond, in proportion
_CHANNELS = 16  # solved for; between them, interpolated once
_BINS = 256  # channels told apart in a table
TINY = 1e-4  # stands for a rate of 0, where nothing would ever happen


@dataclass(frozen=True, eq=False)
class Tables:
    """Interpolated solutions at any rates."""

    row: IntArray  # [S] of each channel
    worth: FloatArray  # [R, rates, prices, loads] log of C / k
    service: (
        FloatArray  # [R * rates, prices] transmissions a round at prices PRICES (not divided by k)
    )

    def worth_at(
        self, row: IntArray, theta: FloatArray, price: FloatArray, load: Array
    ) -> FloatArray:
        """C of devices in these rows, ``[U]``, at rates ``[I, U]``, prices ``[I]`` and n / k = ``load``."""
        scale = scale_of(theta)
        logs = read(
            self.worth,
            np.broadcast_to(row, theta.shape),
            RATES.place(theta),
            PRICES.place(price[:, None] / scale),
            LOADS.place(load),
        )
        return np.exp(logs) * scale * beyond_last(load, LOADS)

    def price(self, row: IntArray, theta: FloatArray, slots: FloatArray) -> FloatArray:
        """At which the devices want so many slots a round; ``theta`` ``[I, U]``, the result ``[I]``."""
        cell, part = RATES.place(theta)
        at = row * RATES.count + cell
        size = self.service.shape[0]
        out = np.empty(theta.shape[0])
        for i in range(out.size):  # one at a time: the sums must not depend on who else is there
            weight = np.bincount(at[i], 1 - part[i], size) + np.bincount(at[i] + 1, part[i], size)
            out[i] = _crossing(weight @ self.service, slots[i])
        return out


def scale_of(theta: Array) -> FloatArray:
    """k: near 1 for small rates, where backlogs are small whole numbers, and near theta for large ones."""
    out: FloatArray = np.sqrt(1 + theta * theta)
    return out


def beyond_last(load: Array, loads: Axis) -> FloatArray:
    """C grows in proportion to backlogs beyond the tables: by which factor, 1 within them."""
    out: FloatArray = np.maximum(load / loads.last, 1.0)
    return out


def _crossing(wanted: FloatArray, slots: float) -> float:
    """The price at which the falling curve ``wanted`` over PRICES passes ``slots``."""
    below = int(np.argmax(wanted <= slots)) if wanted[-1] <= slots else wanted.size - 1
    if below == 0:
        return 0.0
    high, low = wanted[below - 1], wanted[below]
    part = min(1.0, np.log(high / slots) / np.log(high / low)) if 0 < low < high else 1.0
    return PRICES.at(below - 1 + part)


@lru_cache(maxsize=8)
def tables(view: Outlook, hidden: bool = False) -> Tables:
    """For devices whose backlogs are seen, or, ``hidden``, grow by theta a round as far as one knows."""
    nodes, row, mix = _channel_nodes(view.mean_snr)
    theta = np.maximum(RATES.points, TINY)
    which = np.repeat(nodes, theta.size)
    chances = None if hidden else view.chances
    worth, service = solved(view.levels, which, np.tile(theta, nodes.size), chances)
    shape = (nodes.size, theta.size)
    worth = np.tensordot(mix, worth.reshape(*shape, *worth.shape[1:]), axes=1)
    service = np.tensordot(mix, service.reshape(*shape, -1), axes=1)
    return Tables(row, worth, _at_common_prices(service, theta))


def solved(
    levels: Levels, channel: IntArray, theta: FloatArray, chances: ArrivalChances | None,
    effort: Effort = COARSE, prices: Axis = PRICES, loads: Axis = LOADS,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Logarithms of C / k, ``[B, prices, loads]``, and of the service rates, ``[B, prices]``."""
    shape = (theta.size, prices.count)
    scale = scale_of(theta)
    price = (scale[:, None] * prices.points).ravel()
    curves = solve(
        levels, np.repeat(channel, prices.count), np.repeat(theta, prices.count), price, chances, effort
    )  # fmt: skip
    load = np.repeat(scale, prices.count)[:, None] * loads.points
    worth = curves.worth_at(np.arange(price.size)[:, None], load)
    worth = worth.reshape(*shape, -1) / scale[:, None, None]
    service = np.maximum(curves.service.reshape(shape), 1e-12)
    return np.log(worth), np.log(service)


def _at_common_prices(service: FloatArray, theta: FloatArray) -> FloatArray:
    """Service rates at prices PRICES instead of k * PRICES, all rows one after the other."""
    cell, part = PRICES.place(PRICES.points / scale_of(theta)[:, None])
    low = np.take_along_axis(service, cell[None], axis=2)
    high = np.take_along_axis(service, cell[None] + 1, axis=2)
    return np.exp(low + (high - low) * part).reshape(-1, PRICES.count)


def _channel_nodes(mean_snr: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Channels to solve for; each channel's row in the tables; how rows are mixed from those solved for.

    Few different channels are all solved for. Of many, some of them, evenly spaced in number; the rest is
    interpolated in the logarithm of the mean SNR.
    """
    many = mean_snr.size
    if many <= _CHANNELS:
        return np.arange(many), np.arange(many), np.eye(many)
    nodes = np.linspace(0, many - 1, _CHANNELS).astype(np.int64)
    middle = np.linspace(0, many - 1, min(many, _BINS)).astype(np.int64)
    log_snr = np.log(mean_snr)
    nearest = np.searchsorted((log_snr[middle][1:] + log_snr[middle][:-1]) / 2, log_snr)
    place = np.interp(log_snr[middle], log_snr[nodes], np.arange(nodes.size))
    cell, part = cell_of(place, nodes.size)
    mix = np.zeros((middle.size, nodes.size))
    mix[np.arange(middle.size), cell] = 1 - part
    mix[np.arange(middle.size), cell + 1] += part
    return nodes, nearest, mix
