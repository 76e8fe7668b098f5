"""Tables of the mass index: with new rates or a new price an index is looked up, not solved for again.

All devices have the same problem up to the factor k = v theta (mass_objective.py), so the tables have three axes: the
channel, price / k and the delay. v = theta / sum of theta has a total that all devices share. Dividing prices by it
leaves the ranking as it is, so here k = theta^2.

Prices and k lie on logarithmic axes with the same ratio. The service rate of a device with k at place i, at a price at
place j, is therefore an entry of one table, at place j - i.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from fedwave.planning.channel_statistics import ChannelStatistics
from fedwave.planning.interpolation import WorthTables, channel_nodes, device_weights, interpolate, split_coordinate
from fedwave.planning.mass_objective import COARSE_MASS, MassObjective, Reward, solve_mass
from fedwave.planning.price_search import DeviceClasses
from fedwave.types import Array, FloatArray, IntArray

_RATIO = 1.125
_LEAST_K, _MOST_K = 1e-8, 1e8  # rates from 1e-4 to 1e4
_LAST_DELAY = 4096
_KS = int(np.ceil(np.log(_MOST_K / _LEAST_K) / np.log(_RATIO))) + 1
_DELAYS = np.unique(np.concatenate([np.arange(1, 17), np.round(np.geomspace(16, _LAST_DELAY, 48))])).astype(np.int64)


@dataclass(frozen=True, eq=False)
class MassTables(WorthTables):
    """rho(d) - h(d + 1) and service rates at any rates; the last axis is the delay."""

    row: IntArray  # [S]
    worth: FloatArray  # [R, prices, delays] rho(d) - h(d + 1)
    service: FloatArray  # [R, prices] transmissions per round
    least: float  # the smallest price / k; the others are _RATIO apart

    def worth_at(self, row: IntArray, theta: FloatArray, price: FloatArray, place: Array) -> FloatArray:
        """k (rho(d) - h(d + 1)) of devices in these rows, ``[U]``, at rates ``[I, U]``, prices ``[I]``, delays."""
        k = np.clip(theta * theta, _LEAST_K, None)
        with np.errstate(divide="ignore"):
            at = np.log(price[:, None] / k / self.least) / np.log(_RATIO)
        count = self.service.shape[1]
        prices = split_coordinate(np.clip(at, 0, count - 1), count)
        delays = split_coordinate(np.interp(place, _DELAYS, np.arange(_DELAYS.size)), _DELAYS.size)
        return k * interpolate(self.worth, np.broadcast_to(row, k.shape), prices, delays)

    def price(self, row: IntArray, theta: FloatArray, slots: FloatArray) -> FloatArray:
        k = theta * theta
        place = np.log(np.clip(k, _LEAST_K, _MOST_K) / _LEAST_K) / np.log(_RATIO)
        weight = device_weights(row, self.service.shape[0], split_coordinate(place, _KS), _KS)
        # Prices are tried by bisection: they lie at places 0 to last, the service falls along them.
        low = np.full(theta.shape[0], -1)
        high = np.full(theta.shape[0], self.service.shape[1] + _KS)
        while np.any(high - low > 1):
            middle = (low + high) // 2
            more = self._wanted(weight, middle) > slots
            low, high = np.where(more, middle, low), np.where(more, high, middle)
        above, below = self._wanted(weight, low), self._wanted(weight, high)
        part = np.where(above > below, (above - slots) / np.where(above > below, above - below, 1), 1)
        found = self.least * _LEAST_K * np.exp((low + np.clip(part, 0, 1)) * np.log(_RATIO))
        # Where even free transmissions leave slots unused, they are free.
        return np.where(low < 0, 0.0, found)

    def _wanted(self, weight: FloatArray, place: IntArray) -> FloatArray:
        """Transmissions per round at prices at these places, ``[I]``."""
        count = self.service.shape[1]
        cell = np.clip(place[:, None] - np.arange(_KS), 0, count - 1)  # [I, k]
        service = self.service[:, cell].transpose(1, 0, 2)  # [I, R, k]
        out: FloatArray = (weight * service.reshape(weight.shape)).sum(axis=1)
        return out


def tabulated_mass(
    objective: MassObjective, statistics: ChannelStatistics, classes: DeviceClasses, rates: FloatArray, slots: float
) -> Callable[[IntArray], FloatArray]:
    """k (rho(d) - h(d + 1)) at delays ``[I, U]`` and the price at which the devices use the slots."""
    tables = mass_tables(statistics, objective.reward)
    row = tables.row[statistics.channel]
    return partial(tables.worth_at, row, rates[None], tables.price(row, rates[None], np.array([slots])))


@lru_cache(maxsize=8)
def mass_tables(statistics: ChannelStatistics, reward: Reward) -> MassTables:
    """Tables for the known channels."""
    nodes, row, mix = channel_nodes(statistics.mean_snr)
    # From a price that hardly matters to one that no delay is worth.
    least = 0.01 * max(1 - reward.rule.decay, 1e-4)
    most = 4 * float(reward.at(np.array([_LAST_DELAY]))[0])
    count = max(int(np.ceil(np.log(most / least) / np.log(_RATIO))), 1) + 1
    price = least * _RATIO ** np.arange(count)
    which = np.repeat(np.arange(nodes.size), count)
    found = solve_mass(statistics.channel_levels(nodes), which, np.tile(price, nodes.size), reward, COARSE_MASS)
    worth = found.worth_at(np.arange(found.cost.size)[:, None], _DELAYS)
    worth = np.tensordot(mix, worth.reshape(nodes.size, count, -1), axes=1)
    service = np.tensordot(mix, found.service.reshape(nodes.size, count), axes=1)
    return MassTables(row, np.ascontiguousarray(worth), np.ascontiguousarray(service), least)
