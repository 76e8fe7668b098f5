"""Schedulers of the delivered mass: `mass` ranks by the mass that is expected to arrive now, `mass-index` plans ahead.

The delivered mass of an upload is c r(d) x (aggregation.py). `mass` ranks by p v r(d) E[x], with v = theta / sum of
theta in place of c: after a delivery N_u holds everything that has arrived at device u, so c_u is close to theta_u
over a total that all devices share. Beta and r are those of the aggregation rule, which is a parameter:
``mass:aggregation=constant:beta=0.5``. In an experiment with a task the rule is that of the task if it is not given;
elsewhere it is then `lee`. A cap is ignored.

`mass-bayes` observes every backlog and knows x up to the arrivals of the round. `mass-po` observes none and expects x
from the delay. It counts a device that was never heard as the fastest one.

`mass-index` ranks devices by p (R(d) - h(d+1)): the mass of an upload now, less what waiting would have brought, at
the price at which all devices together use exactly the available slots (planning/mass_objective.py; docs/theory.md).
It does not observe x; `mass-index-bayes` uses the backlogs only to learn the rates. Planning assumes channels that
are independent from round to round; the schedulers also run on other networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedwave.aggregation import Aggregation, Lee, after_delivery
from fedwave.errors import FedwaveError
from fedwave.planning.channel_statistics import channel_statistics
from fedwave.planning.mass_objective import MEDIUM_MASS, MassObjective, Reward, long_run_shares, shared_mass
from fedwave.planning.mass_tables import mass_tables, tabulated_mass
from fedwave.schedulers.priced import PricedIndex, priority_from_tables
from fedwave.schedulers.rates import Index, KnownRates, RatesFromBacklogs, RatesFromDeliveries, arrivals_of_last_round
from fedwave.types import FloatArray, IntArray, Observation, Problem, State


@dataclass(frozen=True)
class ExpectedMass(Index):
    """p R(d): the mass that an upload is expected to deliver now, under an aggregation rule; None: `lee`."""

    aggregation: Aggregation | None = None

    optimistic = True

    def __post_init__(self) -> None:
        if not (self.aggregation is None or isinstance(self.aggregation, Aggregation)):
            raise FedwaveError(f"aggregation is {self.aggregation!r}, must be an Aggregation object.")
        _ = self.reward  # refuses a rule that cannot be planned for

    @cached_property
    def reward(self) -> Reward:
        """rho of the rule."""
        return Reward(self.aggregation or Lee())

    def priority(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        return seen.success * shared_mass(rates) * self.reward.at(seen.delay)


class ObservedMass(ExpectedMass):
    """p v r(d) (theta + beta x): the same, where x is known because every arrival is observed."""

    def start(self, problem: Problem) -> State:
        return {"mass": np.zeros((problem.instances, problem.devices))}

    def learn(self, state: State, seen: Observation) -> State:
        if seen.round == 1:
            return state
        mass = self.reward.rule.age(state["mass"], arrivals_of_last_round(state, seen))
        return {**state, "mass": after_delivery(mass, seen.delivered)}

    def priority(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        mass = self.reward.rule.age(state["mass"], rates)  # with the arrivals that are expected
        return seen.success * long_run_shares(rates) * self.reward.rate(seen.delay) * mass


@dataclass(frozen=True)
class MassScheduler(KnownRates):
    """The delivered mass expected from an upload now, with known rates."""

    aggregation: Aggregation | None = None

    name = "mass"
    formula = "p R(d)"
    index = ExpectedMass


@dataclass(frozen=True)
class MassBayes(RatesFromBacklogs):
    """`mass` on rates drawn from the posterior; it observes every backlog, and so every arrival."""

    aggregation: Aggregation | None = None

    name = "mass-bayes"
    formula = "p v_k r(d) (theta_k + beta x)"
    index = ObservedMass


@dataclass(frozen=True)
class MassPo(RatesFromDeliveries):
    """`mass` on rates drawn from the posterior of what was delivered; it observes no backlog."""

    aggregation: Aggregation | None = None

    name = "mass-po"
    formula = "p R_k(d)"
    index = ExpectedMass


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
        return MassObjective(self.reward, MEDIUM_MASS)

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
