"""The index schedulers for the delivered mass, which plan for the rounds to come: mass-index.

`mass-index` ranks devices by p (R(d) - h(d+1)): the mass of an upload now, less what waiting would have brought, at
the price at which all devices together use exactly the available slots (planning/mass_objective.py; spec.md, section
9). None of these schedulers observes x; `mass-index-bayes` uses the backlogs only to learn the rates.

Planning assumes channels that are independent from round to round; the schedulers also run on other networks.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedwave.aggregation import Aggregation
from fedwave.errors import FedwaveError
from fedwave.planning.channel_statistics import channel_statistics
from fedwave.planning.mass_objective import MassEffort, MassObjective
from fedwave.planning.mass_tables import mass_tables, tabulated_mass
from fedwave.schedulers.mass import ExpectedMass
from fedwave.schedulers.priced import PricedIndex, priority_from_tables
from fedwave.schedulers.rates import KnownRates, RatesFromBacklogs, RatesFromDeliveries
from fedwave.types import FloatArray, IntArray, Observation, State


class PlannedMass(PricedIndex, ExpectedMass):
    """p (R(d) - h(d + 1)): the mass of an upload now, less what waiting would have brought."""

    many_classes = tabulated_mass

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

    @property
    def objective(self) -> MassObjective:
        return MassObjective(self.reward, MassEffort.MEDIUM)

    def device_state(self, seen: Observation) -> IntArray:
        return seen.delay

    def priority(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        tables = mass_tables(channel_statistics(seen.planning), self.reward)
        return priority_from_tables(tables, rates, state, seen, seen.delay)


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
