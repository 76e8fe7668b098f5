"""The price of a transmission at which devices that deliver mass use exactly the available slots.

sum of g(price) + price * slots is at least the mean delivered mass of any policy that uses no more slots on average
(mass weighted by v, arrivals unseen). The expression is convex in the price, with slope slots - sum of service rates.
Its minimum is the best bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.planning.channel_levels import Levels
from fedwave.planning.mass_device import FINE, MassEffort, MassSolutions, solve
from fedwave.planning.mass_reward import Reward
from fedwave.planning.price import Kinds, highest
from fedwave.types import FloatArray


@dataclass(frozen=True, eq=False)
class MassPriced:
    """The devices at one price. ``value`` and ``slope`` are those of the negative bound, which is concave."""

    price: float
    value: float
    slope: float  # transmissions per round, less the slots
    mass: FloatArray  # [D] g of each kind
    solutions: MassSolutions  # of the kinds, for k = 1


def mass_of_one(kinds: Kinds) -> FloatArray:
    """k = v theta of each kind, ``[D]``: what a delivery brings where rho is 1."""
    out: FloatArray = kinds.theta**2 / (kinds.count @ kinds.theta)
    return out


def at_mass_price(
    kinds: Kinds, slots: float, levels: Levels, reward: Reward, price: float, effort: MassEffort = FINE
) -> MassPriced:
    """The problem of each kind at one price."""
    k = mass_of_one(kinds)
    solutions = solve(levels, kinds.row, price / k, reward, effort)
    mass = k * solutions.mass
    bound = float(kinds.count @ mass) + price * slots
    service = float(kinds.count @ solutions.service)
    return MassPriced(price, -bound, service - slots, mass, solutions)


def best_mass_price(
    kinds: Kinds, slots: float, levels: Levels, reward: Reward, effort: MassEffort = FINE
) -> MassPriced:
    """The price with the smallest bound, to a relative loss of 1e-6."""
    # The first guess: as many devices as there are slots deliver fresh shards.
    order = np.argsort(-kinds.theta)
    among = np.searchsorted(np.cumsum(kinds.count[order]), slots)
    guess = float(mass_of_one(kinds)[order][min(int(among), order.size - 1)])
    return highest(lambda price: at_mass_price(kinds, slots, levels, reward, price, effort), guess, 2.0)
