"""The price of a transmission at which all devices together use exactly the available slots.

Only the slots couple the devices. With a price in their place, each device solves its own problem (an ``Objective``),
and sum of g(price) - price * slots bounds what any policy can reach that uses no more slots on average (docs/theory.md,
section 6). g is the least mean cost of a device; an objective that is maximised counts as a negative cost. The
expression is concave in the price, with slope sum of service rates - slots. Its maximum is the best bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic

import numpy as np

from fedwave.planning.channel_levels import Levels
from fedwave.planning.renewal_solver import SolutionsT
from fedwave.types import FloatArray, IntArray

_CLOSE = 1e-6  # relative loss in the bound at which the search for the price stops
_MOST_STEPS = 60
LEAST_RATE = 1e-9  # smaller rates are raised to it, so that P[m = 0] < 1 in float64
MANY_CLASSES = 2000  # more classes of devices are read from tables that hold any rates, if there are some

# P[m = 0], ..., P[m = most] at rates [R]: [R, most + 1], as Planning.arrival_chances.
ArrivalChances = Callable[[FloatArray, int], FloatArray]


@dataclass(frozen=True, eq=False)
class DeviceClasses:
    """The different devices of a network: devices with the same mean SNR and rate are solved once."""

    mean_snr: FloatArray  # [S] different channels
    row: IntArray  # [D] channel of each class
    theta: FloatArray  # [D] > 0
    count: IntArray  # [D] number of devices in each class
    of_device: IntArray  # [U] class of each device; -1 for a device without arrivals
    chances: ArrivalChances

    @classmethod
    def among(cls, mean_snr: FloatArray, rates: FloatArray, chances: ArrivalChances) -> DeviceClasses:
        """The classes of devices with these mean SNRs and rates, ``[U]`` each."""
        busy = rates > 0
        pairs = np.stack([mean_snr[busy], rates[busy]])
        different, which, count = np.unique(pairs, axis=1, return_inverse=True, return_counts=True)
        channels, row = np.unique(different[0], return_inverse=True)
        of_device = np.full(rates.size, -1)
        of_device[busy] = which.reshape(-1)
        theta = np.maximum(different[1], LEAST_RATE)
        return cls(channels, row.reshape(-1), theta, count, of_device, chances)

    def thinned(self, size: int) -> DeviceClasses:
        """About ``size`` of the classes, weighted to represent all of them."""
        step = -(-self.theta.size // size)
        some = slice(step // 2, None, step)
        return replace(self, row=self.row[some], theta=self.theta[some], count=self.count[some] * step)

    def per_device(self, values: FloatArray) -> FloatArray:
        """Values per class, ``[D]``, as values per device, ``[U]``; 0 for a device without arrivals."""
        return np.append(values, 0.0)[self.of_device]


class Objective(ABC, Generic[SolutionsT]):
    """The cost of a device beside its transmissions; docs/architecture.md explains how to add one.

    Derive a frozen dataclass: solutions are cached by the objective.
    """

    @abstractmethod
    def solve_classes(self, classes: DeviceClasses, levels: Levels, price: float) -> SolutionsT:
        """The problem of each class at one price; ``levels`` are those of ``classes.mean_snr``."""

    def cost(self, classes: DeviceClasses, solutions: SolutionsT) -> FloatArray:
        """g of each class, ``[D]``: its least mean cost per round, transmissions included."""
        return solutions.cost

    def first_guess(self, classes: DeviceClasses, slots: float, levels: Levels) -> tuple[float, float]:
        """About the best price, and the factor by which the search widens around it."""
        return 1.0, 4.0


@dataclass(frozen=True, eq=False)
class PricedDevices(Generic[SolutionsT]):
    """All devices at one price."""

    price: float
    value: float  # sum of g - price * slots: a bound
    slope: float  # transmissions per round, less the slots
    cost: FloatArray  # [D] g of each class
    solutions: SolutionsT


def at_price(
    objective: Objective[SolutionsT], classes: DeviceClasses, slots: float, levels: Levels, price: float
) -> PricedDevices[SolutionsT]:
    """Solve the problem of every device at one price."""
    solutions = objective.solve_classes(classes, levels, price)
    cost = objective.cost(classes, solutions)
    service = float(classes.count @ solutions.service)
    return PricedDevices(price, float(classes.count @ cost) - price * slots, service - slots, cost, solutions)


def best_price(
    objective: Objective[SolutionsT], classes: DeviceClasses, slots: float, levels: Levels
) -> PricedDevices[SolutionsT]:
    """The devices at the price with the largest bound, to a relative loss of 1e-6."""

    def at(price: float) -> PricedDevices[SolutionsT]:
        return at_price(objective, classes, slots, levels, price)

    low, high = _bracket(at, *objective.first_guess(classes, slots, levels))
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


def _bracket(
    at: Callable[[float], PricedDevices[SolutionsT]], guess: float, factor: float
) -> tuple[PricedDevices[SolutionsT], PricedDevices[SolutionsT]]:
    """Prices below and above the best one; the same object twice if a price of 0 is best."""
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
