"""The price of a transmission at which all devices together want just the slots there are.

The devices are tied together only by the slots. With a price instead, each device solves its own problem, and
sum of g(price) - price * slots is at most the mean backlog of any policy that uses no more slots on average. It
is concave in the price, with slope sum of service rates - slots; the largest is the best bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedwave.planning.arrival_steps import ArrivalChances
from fedwave.planning.channel_levels import Levels
from fedwave.planning.device_curves import Curves
from fedwave.planning.lattice import FINE, Effort
from fedwave.planning.single_device import solve
from fedwave.types import FloatArray, IntArray

_CLOSE = 1e-6  # the share of the bound that the price found may cost against the best one
_MOST_STEPS = 60
LEAST_RATE = 1e-9  # smaller ones count as this, so that P[m = 0] is not 1 in float64
_SAMPLE = 400  # of many kinds of devices so many find the price, nearly


@dataclass(frozen=True, eq=False)
class Kinds:
    """The different devices of a network: those of one mean SNR and one rate are solved once."""

    mean_snr: FloatArray  # [S] different channels
    row: IntArray  # [D] which channel
    theta: FloatArray  # [D] > 0
    count: IntArray  # [D] how many devices are of this kind
    of: IntArray  # [U] each device's kind; -1 where nothing ever arrives

    @classmethod
    def among(cls, mean_snr: FloatArray, rates: FloatArray) -> Kinds:
        busy = rates > 0
        pairs = np.stack([mean_snr[busy], rates[busy]])
        different, which, count = np.unique(pairs, axis=1, return_inverse=True, return_counts=True)
        channels, row = np.unique(different[0], return_inverse=True)
        of = np.full(rates.size, -1)
        of[busy] = which.reshape(-1)
        theta = np.maximum(different[1], LEAST_RATE)
        return cls(channels, row.reshape(-1), theta, count, of)

    def solve(
        self, levels: Levels, price: float, chances: ArrivalChances | None, effort: Effort = FINE
    ) -> Curves:
        """Each kind's problem at one price."""
        return solve(levels, self.row, self.theta, np.full(self.row.size, price), chances, effort)

    def thinned(self, size: int) -> Kinds:
        """About ``size`` of the kinds, standing for all of them."""
        step = -(-self.theta.size // size)
        some = slice(step // 2, None, step)
        return Kinds(
            self.mean_snr, self.row[some], self.theta[some], self.count[some] * step, self.of
        )

    def spread_out(self, values: FloatArray) -> FloatArray:
        """A value per kind as a value per device; 0 where nothing ever arrives."""
        return np.append(values, 0.0)[self.of]


@dataclass(frozen=True, eq=False)
class Priced:
    """The devices at one price."""

    price: float
    value: float  # sum of g - price * slots: a lower bound on the mean backlog
    slope: float  # transmissions wanted a round, less the slots
    curves: Curves


def best_price(
    kinds: Kinds, slots: float, levels: Levels,
    chances: ArrivalChances | None, effort: Effort = FINE,
) -> Priced:  # fmt: skip
    """The price with the largest bound, to within a millionth of it."""

    def at(price: float) -> Priced:
        curves = kinds.solve(levels, price, chances, effort)
        cost, service = float(kinds.count @ curves.cost), float(kinds.count @ curves.service)
        return Priced(price, cost - price * slots, service - slots, curves)

    if kinds.theta.size > 2 * _SAMPLE:
        few = best_price(kinds.thinned(_SAMPLE), slots, levels, chances, effort)
        low, high = _bracket(at, few.price, 1.02)
    else:  # where arrivals and uploads are certain, the best price is this one
        low, high = _bracket(at, float((kinds.count @ np.sqrt(kinds.theta)) / slots) ** 2 / 2, 2.0)
    if low is high:
        return low
    best = max(low, high, key=lambda one: one.value)
    for _ in range(_MOST_STEPS):
        # Two tangents of a concave function: it lies below where they meet, and most likely peaks near there.
        price = (high.value - low.value + low.slope * low.price - high.slope * high.price) / (
            low.slope - high.slope
        )
        ceiling = low.value + low.slope * (price - low.price)
        if ceiling - best.value <= _CLOSE * best.value or not low.price < price < high.price:
            break
        new = at(price)
        best = max(best, new, key=lambda one: one.value)
        low, high = (new, high) if new.slope > 0 else (low, new)
    return best


def _bracket(at: Callable[[float], Priced], guess: float, factor: float) -> tuple[Priced, Priced]:
    """Prices below and above the best one; the same one twice if it is exactly the best."""
    one = at(guess)
    if one.slope > 0:
        while (other := at(factor * one.price)).slope > 0:
            one, factor = other, factor * factor
        return one, other
    other = at(guess / factor)
    if other.slope > 0:
        return other, one
    free = at(0.0)
    # Perhaps they do not want all the slots even for nothing.
    return (free, other) if free.slope > 0 else (free, free)
