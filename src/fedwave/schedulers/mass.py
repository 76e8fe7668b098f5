"""Schedulers that maximise the delivered mass greedily: the mass that is expected to arrive now.

The delivered mass of an upload is c r(d) x (aggregation.py). `mass` ranks by p v r(d) E[x], with v = theta / sum of
theta in place of c: after a delivery N_u holds everything that has arrived at device u, so c_u is close to theta_u
over a total that all devices share. Beta and r are those of the aggregation rule, which is a parameter:
``mass:aggregation=constant:beta=0.5``. In an experiment with a task the rule is that of the task if it is not given;
elsewhere it is then `lee`. A cap is ignored.

`mass-bayes` observes every backlog. It learns the rates as BALSA does and knows x up to the arrivals of the round.
`mass-po` observes neither; it learns from the uploads that arrive, as BALSA-PO does, and expects x from the delay. It
takes a device that was never heard for the fastest one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from fedwave.aggregation import Aggregation, Lee, after_delivery
from fedwave.errors import FedwaveError
from fedwave.planning.mass_reward import Reward
from fedwave.rng import Draws
from fedwave.schedulers.balsa import Balsa, BalsaPo
from fedwave.schedulers.base import Scheduler
from fedwave.types import FloatArray, Observation, Problem, State

M = TypeVar("M", bound="ForRule")


@dataclass(frozen=True)
class ForRule(Scheduler):
    """A scheduler that maximises the mass under an aggregation rule; None: that of the task, or `lee`."""

    aggregation: Aggregation | None = None

    def __post_init__(self) -> None:
        others: Any = super()
        if hasattr(others, "__post_init__"):  # of a learning scheduler
            others.__post_init__()
        if not (self.aggregation is None or isinstance(self.aggregation, Aggregation)):
            raise FedwaveError(f"{self.name} aggregation is {self.aggregation!r}, must be an Aggregation object.")
        try:
            self.check_reward(self.reward)
        except FedwaveError as error:
            raise FedwaveError(f"scheduler {self.name!r}: {error}") from None

    def check_reward(self, reward: Reward) -> None:
        """Refuse a rule that this scheduler cannot plan for."""

    @cached_property
    def reward(self) -> Reward:
        return Reward(self.aggregation or Lee())

    def with_aggregation(self: M, rule: Aggregation) -> M:
        return self if self.aggregation is not None else replace(self, aggregation=rule)


@dataclass(frozen=True)
class Mass(ForRule):
    """The delivered mass expected from an upload now, with known rates."""

    name = "mass"
    needs = frozenset({"channel", "rates"})
    formula = "p R(d)"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return seen.success * shared_mass(seen.rates) * self.reward.at(seen.delay)


@dataclass(frozen=True)
class MassBayes(ForRule, Balsa):
    """`mass` on rates drawn from the posterior; it observes every backlog, and so every arrival."""

    name = "mass-bayes"
    needs = frozenset({"channel", "backlog"})
    formula = "p v_k r(d) (theta_k + beta x)"

    def start(self, problem: Problem) -> State:
        return {**super().start(problem), "mass": np.zeros((problem.instances, problem.devices))}

    def learn(self, state: State, seen: Observation, draws: Draws) -> State:
        if seen.round > 1:
            arrived, _, _ = self.evidence(state, seen)
            mass = after_delivery(arrived + self.reward.decay * state["mass"], seen.delivered)
            state = {**state, "mass": mass}
        return super().learn(state, seen, draws)

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        theta = state["theta"]
        mass = theta + self.reward.decay * state["mass"]
        return seen.success * shares(theta) * self.reward.rate(seen.delay) * mass


@dataclass(frozen=True)
class MassPo(ForRule, BalsaPo):
    """`mass` on rates drawn from the posterior of what was delivered; it observes no backlog."""

    name = "mass-po"
    needs = frozenset({"channel"})
    formula = "p R_k(d)"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return seen.success * shared_mass(hopeful(state)) * self.reward.at(seen.delay)


def hopeful(state: State) -> FloatArray:
    """The sampled rates, where a device that was never heard counts as the fastest one.

    Greedy on the delay alone would hear everybody in the end. Greedy on the mass would not: a device that is taken
    for a slow one could stay unheard, and so unknown, forever.
    """
    theta, unheard = state["theta"], state["covered"] == 0
    out: FloatArray = np.where(unheard, theta.max(axis=1, keepdims=True), theta)
    return out


def shares(theta: FloatArray) -> FloatArray:
    """v: the long-run share of each device in all shards, over the last axis; 0 without any arrivals."""
    total = theta.sum(axis=-1, keepdims=True)
    out: FloatArray = theta / np.where(total > 0, total, 1.0)
    return out


def shared_mass(theta: FloatArray) -> FloatArray:
    """k = v theta: what a delivery of the shards of one round brings."""
    return shares(theta) * theta
