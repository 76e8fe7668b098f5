"""Index schedulers for the delivered mass, which plan for the rounds to come.

`mass-index` ranks devices by p (R(d) - h(d+1)): the mass of an upload now, less what waiting would have brought, at
the price at which all devices together use exactly the available slots (planning/mass_device.py). It knows the rates,
the channels and the delays; nothing here observes x.

`mass-index-bayes` and `mass-index-po` learn the rates as BALSA and BALSA-PO do; the former uses the backlogs only for
that. A new stage draws new rates and so needs a new price; both are looked up in tables (planning/mass_tables.py).

Planning assumes channels that are independent from round to round; the schedulers also run on other networks. If W
changes from round to round, the price is that of its mean so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.planning.mass_device import MEDIUM, MassSolutions
from fedwave.planning.mass_price import best_mass_price
from fedwave.planning.mass_reward import Reward
from fedwave.planning.mass_tables import mass_tables
from fedwave.planning.outlook import Outlook, outlook
from fedwave.planning.price import MANY_KINDS
from fedwave.rng import Draws
from fedwave.schedulers import mean_slots
from fedwave.schedulers.balsa import Balsa, BalsaPo
from fedwave.schedulers.mass import ForRule, hopeful, shared_mass
from fedwave.types import FloatArray, IntArray, Observation, Problem, State


@dataclass(frozen=True)
class _Indexed(ForRule):
    """Schedulers with a price: they count the slots."""

    def check_reward(self, reward: Reward) -> None:
        if reward.nothing_is_lost:
            raise FedwaveError(
                "with beta = 1 and a constant rate all policies that keep backlogs finite deliver the same mass, and "
                "the index vanishes: use `lagrangian`, which keeps delays short."
            )
        if reward.has_no_bound:
            raise FedwaveError(
                "with beta = 1 and a growing rate waiting always brings more mass, so there is no index: use beta < 1, "
                "or a rule with a constant rate."
            )

    def start(self, problem: Problem) -> State:
        return {**super().start(problem), **mean_slots.start(problem)}

    def learn(self, state: State, seen: Observation, draws: Draws) -> State:
        return mean_slots.count(super().learn(state, seen, draws), seen)

    def looked_up(self, theta: FloatArray, state: State, seen: Observation) -> FloatArray:
        """The index at these rates, ``[I, U]``, from the tables."""
        view = outlook(seen.planning)
        made, k = mass_tables(view, self.reward), theta * theta
        row = made.row[view.channel]
        price = made.price(row, k, mean_slots.mean(state, seen))
        return seen.success * made.worth_at(row, k, price, seen.delay)


@dataclass(frozen=True)
class MassIndex(_Indexed):
    """The mass of an upload now, less what waiting would bring, at the best price of a transmission."""

    name = "mass-index"
    needs = frozenset({"channel", "rates", "statistics"})
    formula = "p (R(d) - value of waiting)"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        view = outlook(seen.planning)
        slots = float(mean_slots.mean(state, seen)[0])  # the same in all instances
        kind, solutions = _at_best_price(view, view.devices(seen.rates), slots, self.reward)
        if solutions is None:
            theta = np.broadcast_to(seen.rates, seen.delay.shape)
            return np.where(theta > 0, self.looked_up(theta, state, seen), 0.0)
        worth = shared_mass(seen.rates) * solutions.worth_at(np.maximum(kind, 0), seen.delay)
        return seen.success * np.where(kind >= 0, worth, 0.0)


@lru_cache(maxsize=32)
def _at_best_price(
    view: Outlook, devices: bytes, slots: float, reward: Reward
) -> tuple[IntArray, MassSolutions | None]:
    """The kind of each device, and the solutions of the kinds at the best price; None where tables are used."""
    kinds = view.kinds_of(devices)
    if not 0 < kinds.theta.size <= MANY_KINDS:
        return kinds.of, None
    kinds, levels = view.kinds(devices)
    return kinds.of, best_mass_price(kinds, slots, levels, reward, MEDIUM).solutions


@dataclass(frozen=True)
class MassIndexBayes(_Indexed, Balsa):
    """`mass-index` on rates drawn from the posterior; it observes every backlog."""

    name = "mass-index-bayes"
    needs = frozenset({"channel", "backlog", "statistics"})
    formula = "p (R_k(d) - value of waiting)"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return self.looked_up(state["theta"], state, seen)


@dataclass(frozen=True)
class MassIndexPo(_Indexed, BalsaPo):
    """`mass-index` on rates drawn from the posterior of what was delivered; it observes no backlog."""

    name = "mass-index-po"
    needs = frozenset({"channel", "statistics"})
    formula = "p (R_k(d) - value of waiting)"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return self.looked_up(hopeful(state), state, seen)
