"""The price of a transmission at which all devices together use exactly the available slots.

Only the slots couple the devices. With a price in their place, each device solves its own problem, and
sum of g(price) - price * slots is at most the mean backlog of any policy that uses no more slots on average. The
expression is concave in the price, with slope sum of service rates - slots. Its maximum is the best bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from fedwave.planning.channel_levels import Levels
from fedwave.planning.lattice import FINE, Effort
from fedwave.planning.single_device import ArrivalChances, DeviceSolutions, solve
from fedwave.types import FloatArray, IntArray

_CLOSE = 1e-6  # relative loss in the bound at which the search for the price stops
_MOST_STEPS = 60
LEAST_RATE = 1e-9  # smaller rates are raised to it, so that P[m = 0] < 1 in float64
MANY_KINDS = 2000  # more kinds of devices are read from the tables for any rates
_SAMPLE = 400  # with many kinds of devices, about this many give a first estimate of the price


@dataclass(frozen=True, eq=False)
class Kinds:
    """The different devices of a network: devices with the same mean SNR and rate are solved once."""

    mean_snr: FloatArray  # [S] different channels
    row: IntArray  # [D] channel of each kind
    theta: FloatArray  # [D] > 0
    count: IntArray  # [D] number of devices of each kind
    of: IntArray  # [U] kind of each device; -1 for a device without arrivals

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
    ) -> DeviceSolutions:
        """The problem of each kind at one price."""
        return solve(levels, self.row, self.theta, np.full(self.row.size, price), chances, effort)

    def thinned(self, size: int) -> Kinds:
        """About ``size`` of the kinds, weighted to represent all of them."""
        step = -(-self.theta.size // size)
        some = slice(step // 2, None, step)
        return Kinds(self.mean_snr, self.row[some], self.theta[some], self.count[some] * step, self.of)

    def even_price(self, slots: float) -> float:
        """The best price where arrivals are constant and uploads never fail."""
        return float((self.count @ np.sqrt(self.theta)) / slots) ** 2 / 2

    def per_device(self, values: FloatArray) -> FloatArray:
        """A value per kind as a value per device; 0 for a device without arrivals."""
        return np.append(values, 0.0)[self.of]


@dataclass(frozen=True, eq=False)
class Priced:
    """The devices at one price."""

    price: float
    value: float  # sum of g - price * slots: a lower bound on the mean backlog
    slope: float  # transmissions per round, less the slots
    solutions: DeviceSolutions


class AtPrice(Protocol):
    """A point of a concave function of the price."""

    @property
    def price(self) -> float: ...
    @property
    def value(self) -> float: ...
    @property
    def slope(self) -> float: ...


P = TypeVar("P", bound=AtPrice)


def best_price(
    kinds: Kinds, slots: float, levels: Levels, chances: ArrivalChances | None, effort: Effort = FINE
) -> Priced:
    """The price with the largest bound, to a relative loss of 1e-6."""

    def at(price: float) -> Priced:
        solutions = kinds.solve(levels, price, chances, effort)
        cost, service = float(kinds.count @ solutions.cost), float(kinds.count @ solutions.service)
        return Priced(price, cost - price * slots, service - slots, solutions)

    if kinds.theta.size > 2 * _SAMPLE:
        few = best_price(kinds.thinned(_SAMPLE), slots, levels, chances, effort)
        return highest(at, few.price, 1.02)
    return highest(at, kinds.even_price(slots), 2.0)


def highest(at: Callable[[float], P], guess: float, factor: float) -> P:
    """The price at which a concave value is largest, to a relative loss of 1e-6; ``factor`` widens the search."""
    low, high = _bracket(at, guess, factor)
    if low is high:
        return low
    best = max(low, high, key=lambda one: one.value)
    for _ in range(_MOST_STEPS):
        # A concave function lies below its tangents, so their intersection bounds it and is close to its maximum.
        price = (high.value - low.value + low.slope * low.price - high.slope * high.price) / (low.slope - high.slope)
        ceiling = low.value + low.slope * (price - low.price)
        if ceiling - best.value <= _CLOSE * abs(best.value) or not low.price < price < high.price:
            break
        new = at(price)
        best = max(best, new, key=lambda one: one.value)
        low, high = (new, high) if new.slope > 0 else (low, new)
    return best


def _bracket(at: Callable[[float], P], guess: float, factor: float) -> tuple[P, P]:
    """Prices below and above the best one; twice the same object if it is the best price itself."""
    one = at(guess)
    if one.slope > 0:
        while (other := at(factor * one.price)).slope > 0:
            one, factor = other, factor * factor
        return one, other
    other = at(guess / factor)
    if other.slope > 0:
        return other, one
    free = at(0.0)
    # At price 0 the devices may still use fewer slots than available.
    return (free, other) if free.slope > 0 else (free, free)
