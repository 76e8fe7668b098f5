"""BALSA and BALSA-PO: greedy on rates drawn from the posterior (Thompson sampling in stages)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np

from fedwave.errors import FedwaveError, did_you_mean
from fedwave.rng import Draws
from fedwave.schedulers import stages
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.posterior import Posterior, posterior_for
from fedwave.schedulers.priors import Jeffreys, Prior
from fedwave.types import BoolArray, Decision, FloatArray, IntArray, Observation, Problem, State


@dataclass(frozen=True)
class BayesianScheduler(Scheduler):
    """Base of learning schedulers: a posterior that is updated every round, and rates ``theta`` drawn every stage.

    ``posterior`` None: the one that fits the distribution of the arrivals.
    """

    random = True  # rates are drawn from the posterior

    prior: Prior = field(default_factory=Jeffreys)
    stage_rule: str = "literal"
    posterior: Posterior | None = None

    def __post_init__(self) -> None:
        for what, kind, optional in (("prior", Prior, False), ("posterior", Posterior, True)):
            value = getattr(self, what)
            if not (isinstance(value, kind) or (optional and value is None)):
                raise FedwaveError(f"{what} is {value!r}, must be a {kind.__name__} object.")
        if self.stage_rule not in stages.STAGE_RULES:
            raise FedwaveError(
                f"stage_rule is {self.stage_rule!r}; {did_you_mean(self.stage_rule, stages.STAGE_RULES)}"
            )

    def start(self, problem: Problem) -> State:
        shape = (problem.instances, problem.devices)
        return {
            "theta": np.ones(shape),
            "load_before": np.zeros(shape, dtype=np.int64),
            **self._posterior(problem).start(problem),
            **stages.start(self.stage_rule, problem),
        }

    def learn(self, state: State, seen: Observation, draws: Draws) -> State:
        posterior = self._posterior(seen.problem)
        if seen.round > 1:
            state = posterior.update(state, *self.evidence(state, seen))
        new = stages.ended(self.stage_rule, state, seen.round)
        if not new.any():
            return state
        rows = np.flatnonzero(new)
        theta = posterior.sample(state, rows, draws)
        if rows.size < new.size:
            sampled, theta = theta, state["theta"].copy()
            theta[rows] = sampled
        return {**stages.begin(self.stage_rule, state, new, seen.round), "theta": theta}

    def remember(self, state: State, seen: Observation, decision: Decision) -> State:
        load = self.load(seen)
        state = stages.visit(self.stage_rule, state, seen, load, decision.transmits)
        return {**state, "load_before": load}

    def beliefs(self, state: State) -> State:
        return {name: state[name] for name in ("theta", "counted", "covered", "stage_start")}

    @abstractmethod
    def load(self, seen: Observation) -> IntArray:
        """The load of each device: the backlog n, or the delay d if n is hidden."""

    @abstractmethod
    def evidence(self, state: State, seen: Observation) -> tuple[IntArray, IntArray | int, BoolArray]:
        """(shards, the rounds that they cover, where known) as observed in the last round."""

    def _posterior(self, problem: Problem) -> Posterior:
        return self.posterior or posterior_for(problem.arrival_distribution, self.prior)


@dataclass(frozen=True)
class Balsa(BayesianScheduler):
    """Greedy on sampled rates. It observes every backlog and learns every arrival by subtraction."""

    name = "balsa"
    needs = frozenset({"channel", "backlog"})
    formula = "p (n + theta_k)"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return seen.success * (seen.waiting + state["theta"])

    def load(self, seen: Observation) -> IntArray:
        return seen.waiting

    def evidence(self, state: State, seen: Observation) -> tuple[IntArray, IntArray | int, BoolArray]:
        held_at_the_end = seen.reported + seen.waiting  # delivered or waiting: one of them is 0
        everywhere = np.ones(seen.delivered.shape, dtype=np.bool_)
        return held_at_the_end - state["load_before"], 1, everywhere


@dataclass(frozen=True)
class BalsaPo(BayesianScheduler):
    """Greedy on the backlog expected from sampled rates: (d - 1) theta_k waiting, theta_k arriving.

    It learns only from uploads that arrive: n + m shards over the d rounds since the last one. (The paper's printed
    posterior counts all t - 1 rounds, also those that were not observed; that starves devices.)
    """

    name = "balsa-po"
    needs = frozenset({"channel"})
    formula = "p d theta_k"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return seen.success * seen.delay * state["theta"]

    def load(self, seen: Observation) -> IntArray:
        return seen.delay

    def evidence(self, state: State, seen: Observation) -> tuple[IntArray, IntArray | int, BoolArray]:
        return seen.reported, state["load_before"], seen.delivered
