"""Index schedulers for the delivered mass, which plan for the rounds to come.

`mass-index` ranks devices by p (R(d) - h(d+1)): the mass of an upload now, less what waiting would have brought, at
the price at which all devices together use exactly the available slots (planning/mass_objective.py). None of these
schedulers observes x; `mass-index-bayes` uses the backlogs only to learn the rates.

With learned rates a new stage draws new rates and so needs a new price; both are looked up in tables
(planning/mass_tables.py). Planning assumes channels that are independent from round to round; the schedulers also run
on other networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedwave.aggregation import Aggregation
from fedwave.errors import FedwaveError
from fedwave.planning.channel_statistics import ChannelStatistics, channel_statistics
from fedwave.planning.mass_objective import MEDIUM, Mass, MassSolutions
from fedwave.planning.mass_reward import Reward
from fedwave.planning.mass_tables import mass_tables
from fedwave.planning.price_search import MANY_CLASSES, best_price
from fedwave.schedulers.mass import ExpectedMass, shared_mass
from fedwave.schedulers.priced import PricedIndex, mean_slots
from fedwave.schedulers.rates import KnownRates, RatesFromBacklogs, RatesFromDeliveries
from fedwave.types import FloatArray, IntArray, Observation, State


class PlannedMass(PricedIndex, ExpectedMass):
    """p (R(d) - value of waiting)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reward.nothing_is_lost:
            raise FedwaveError(
                "with beta = 1 and a constant rate all policies that keep backlogs finite deliver the same mass, and "
                "the index vanishes: use `lagrangian`, which keeps delays short."
            )
        if self.reward.has_no_bound:
            raise FedwaveError(
                "with beta = 1 and a growing rate waiting always brings more mass, so there is no index: use beta < 1, "
                "or a rule with a constant rate."
            )

    def priority(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        statistics = channel_statistics(seen.planning)
        made, k = mass_tables(statistics, self.reward), rates * rates
        row = made.row[statistics.channel]
        price = made.price(row, k, mean_slots(state, seen))
        return seen.success * made.worth_at(row, k, price, seen.delay)

    def priority_known(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        statistics = channel_statistics(seen.planning)
        slots = float(mean_slots(state, seen)[0])  # the same in all instances
        which, solutions = _at_best_price(statistics, statistics.devices(rates), slots, self.reward)
        if solutions is None:
            theta = np.broadcast_to(rates, seen.delay.shape)
            return np.where(theta > 0, self.priority(theta, state, seen), 0.0)
        worth = shared_mass(rates) * solutions.worth_at(np.maximum(which, 0), seen.delay)
        return seen.success * np.where(which >= 0, worth, 0.0)


@lru_cache(maxsize=32)
def _at_best_price(
    statistics: ChannelStatistics, devices: bytes, slots: float, reward: Reward
) -> tuple[IntArray, MassSolutions | None]:
    """The class of each device, and the solutions of the classes at the best price; None where tables are used."""
    classes = statistics.classes_of(devices)
    if not 0 < classes.theta.size <= MANY_CLASSES:
        return classes.of_device, None
    classes, levels = statistics.classes(devices)
    return classes.of_device, best_price(Mass(reward, MEDIUM), classes, slots, levels).solutions


@dataclass(frozen=True)
class MassIndex(KnownRates):
    """The mass of an upload now, less what waiting would bring, at the best price of a transmission."""

    aggregation: Aggregation | None = None

    name = "mass-index"
    formula = "p (R(d) - value of waiting)"
    index = PlannedMass


@dataclass(frozen=True)
class MassIndexBayes(RatesFromBacklogs):
    """`mass-index` on rates drawn from the posterior; it observes every backlog."""

    aggregation: Aggregation | None = None

    name = "mass-index-bayes"
    formula = "p (R_k(d) - value of waiting)"
    index = PlannedMass


@dataclass(frozen=True)
class MassIndexPo(RatesFromDeliveries):
    """`mass-index` on rates drawn from the posterior of what was delivered; it observes no backlog."""

    aggregation: Aggregation | None = None

    name = "mass-index-po"
    formula = "p (R_k(d) - value of waiting)"
    index = PlannedMass
