"""Index schedulers by composition: an index ranks the devices by their arrival rates, a source provides the rates.

A scheduler is one of three sources with an index: `KnownRates` reads the true rates, `RatesFromBacklogs` and
`RatesFromDeliveries` learn them (BALSA and BALSA-PO). Any index works with any source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np

from fedwave.aggregation import Aggregation
from fedwave.errors import FedwaveError, did_you_mean
from fedwave.parts import registry
from fedwave.rng import Draws
from fedwave.schedulers import stages
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.posterior import ConjugatePosterior, GridPosterior, Posterior
from fedwave.schedulers.priors import Jeffreys, Prior
from fedwave.types import BoolArray, Decision, FloatArray, IntArray, Observation, Problem, State, checked

SchedulerT = TypeVar("SchedulerT", bound="IndexScheduler")


@dataclass(frozen=True)
class Index(ABC):
    """A number for each device that follows from its arrival rate; with a source of rates it makes a scheduler.

    ``rates`` is ``[U]`` if the rates are known and ``[I, U]`` if they are sampled. ``needs`` names what the formula
    reads beside the channel and the rates. Parameters are fields of the index and, under the same names, of the
    schedulers that have them. An index with a memory keeps it in the scheduler's state.

    >>> import fedwave as fw
    >>> class Urgency(fw.rates.Index):
    ...     def priority(self, rates, state, seen):
    ...         return seen.success * rates * seen.delay**2
    >>> class UrgencyKnown(fw.rates.KnownRates):
    ...     name, index = "urgency", Urgency
    >>> class UrgencyBayes(fw.rates.RatesFromBacklogs):
    ...     name, index = "urgency-bayes", Urgency
    >>> class UrgencyPo(fw.rates.RatesFromDeliveries):
    ...     name, index = "urgency-po", Urgency
    >>> UrgencyPo(stage_rule="max1")
    UrgencyPo(prior=Jeffreys(), stage_rule='max1', posterior=None)
    >>> sorted(UrgencyBayes.needs)
    ['backlog', 'channel']
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    optimistic: ClassVar[bool] = False  # a device that was never heard counts as the fastest one

    @abstractmethod
    def priority(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        """One number per device, ``[I, U]``; the largest transmit."""

    def priority_known(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        """The same at the true rates, which stay as they are and can be planned for."""
        return self.priority(rates, state, seen)

    def priority_hidden(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        """The same without the backlogs: an index that reads them replaces this."""
        return self.priority(rates, state, seen)

    def start(self, problem: Problem) -> State:
        """The memory before round 1."""
        return {}

    def learn(self, state: State, seen: Observation) -> State:
        """Update the memory before the decision."""
        return state

    def remember(self, rates: FloatArray, state: State, seen: Observation) -> State:
        """Update the memory after the decision."""
        return state


@dataclass(frozen=True)
class IndexScheduler(Scheduler):
    """A source of rates with an index: what the three sources share."""

    index: ClassVar[type[Index]]
    hides: ClassVar[frozenset[str]] = frozenset()  # what the source does not observe, although the index could read it

    def __init_subclass__(cls) -> None:
        if "index" in cls.__dict__ and "needs" not in cls.__dict__:
            cls.needs = frozenset((cls.needs | cls.index.needs) - cls.hides)

    @classmethod
    def check_declaration(cls) -> None:
        super().check_declaration()
        if not issubclass(getattr(cls, "index", object), Index):
            raise FedwaveError(f"scheduler {cls.name!r} has no index: add index = ..., a class derived from Index.")
        registry.check_fields(cls.index, f"the index of scheduler {cls.name!r}")

    def __post_init__(self) -> None:
        _ = self.own_index  # built at once, so that bad parameters are refused here

    @cached_property
    def own_index(self) -> Index:
        """The index with the parameters of this scheduler."""
        shared = {one.name: getattr(self, one.name) for one in fields(self.index) if hasattr(self, one.name)}
        try:
            return self.index(**shared)
        except FedwaveError as error:
            raise FedwaveError(f"scheduler {self.name!r}: {error}") from None

    @abstractmethod
    def rates(self, state: State, seen: Observation) -> FloatArray:
        """The arrival rates, ``[U]`` or ``[I, U]``."""

    def with_aggregation(self: SchedulerT, rule: Aggregation) -> SchedulerT:
        if getattr(self, "aggregation", rule) is not None:  # it was given, or is no parameter of this scheduler
            return self
        follows = {"aggregation": rule}
        return replace(self, **follows)

    def start(self, problem: Problem) -> State:
        return self.own_index.start(problem)

    def learn(self, state: State, seen: Observation, draws: Draws) -> State:
        return self.own_index.learn(state, seen)

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return self.own_index.priority(self.rates(state, seen), state, seen)

    def remember(self, state: State, seen: Observation, decision: Decision) -> State:
        if type(self.own_index).remember is Index.remember:  # most indices: the rates need not be made again
            return state
        return self.own_index.remember(self.rates(state, seen), state, seen)


class KnownRates(IndexScheduler):
    """An index at the true rates."""

    needs = frozenset({"channel", "rates"})

    def rates(self, state: State, seen: Observation) -> FloatArray:
        return seen.rates

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return self.own_index.priority_known(self.rates(state, seen), state, seen)


@dataclass(frozen=True)
class LearnedRates(IndexScheduler):
    """An index at rates ``theta`` that are drawn from a posterior in stages (Thompson sampling).

    The posterior is updated every round; stages.py says when new rates are drawn. ``posterior`` None is the one that
    fits the distribution of the arrivals.
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
        super().__post_init__()

    def start(self, problem: Problem) -> State:
        shape = (problem.instances, problem.devices)
        away: State = {}
        if (
            problem.arrivals_while_away
        ):  # who was there in the last round, and the rounds whose arrivals are not counted yet
            away = {"there": np.ones(shape, dtype=np.bool_), "uncounted": np.zeros(shape, dtype=np.int64)}
        return {
            **away,
            "theta": np.ones(shape),
            "load_before": np.zeros(shape, dtype=np.int64),
            **self._posterior(problem).start(problem),
            **stages.initial_stages(self.stage_rule, problem),
            **super().start(problem),
        }

    def learn(self, state: State, seen: Observation, draws: Draws) -> State:
        state = super().learn(state, seen, draws)
        posterior = self._posterior(seen.problem)
        if seen.round > 1:
            shards, rounds, known = self.evidence(state, seen)
            if seen.problem.arrivals_while_away:
                rounds = state["uncounted"]
                state = {**state, "uncounted": np.where(known, 0, rounds)}
            state = {**state, **posterior.update(state, shards, rounds, known)}
        new = stages.stage_ends(self.stage_rule, state, seen.round)
        if not new.any():
            return state
        rows = np.flatnonzero(new)
        shape = (rows.size, seen.problem.devices)
        theta = checked(posterior, "rates", posterior.sample(state, rows, draws), shape)
        if rows.size < new.size:
            sampled, theta = theta, state["theta"].copy()
            theta[rows] = sampled
        return {**stages.begin_stage(self.stage_rule, state, new, seen.round), "theta": theta}

    def remember(self, state: State, seen: Observation, decision: Decision) -> State:
        load = self.load(seen)
        state = stages.count_visit(
            self.stage_rule, super().remember(state, seen, decision), seen, load, decision.transmits
        )
        if seen.problem.arrivals_while_away:
            passed = 1 if seen.problem.arrivals_while_away == "kept" else seen.available
            state = {**state, "there": np.array(seen.available), "uncounted": state["uncounted"] + passed}
        return {**state, "load_before": load}

    def beliefs(self, state: State) -> State:
        return {name: state[name] for name in ("theta", "counted", "covered", "stage_start")}

    def rates(self, state: State, seen: Observation) -> FloatArray:
        return state["theta"]

    @abstractmethod
    def load(self, seen: Observation) -> IntArray:
        """The load of each device: the backlog n, or the delay d if n is hidden."""

    @abstractmethod
    def evidence(self, state: State, seen: Observation) -> tuple[IntArray, IntArray | int, BoolArray]:
        """(shards, the rounds that they cover, where known) as observed in the last round.

        Where devices can be away, the rounds are counted for every source alike.
        """

    def _posterior(self, problem: Problem) -> Posterior:
        return self.posterior or posterior_for(problem.arrival_distribution, self.prior)


class RatesFromBacklogs(LearnedRates):
    """Observes every backlog and so learns every arrival, by subtraction."""

    needs = frozenset({"channel", "backlog"})

    def load(self, seen: Observation) -> IntArray:
        return seen.waiting

    def evidence(self, state: State, seen: Observation) -> tuple[IntArray, IntArray | int, BoolArray]:
        shards = arrivals_of_last_round(state, seen)
        if not seen.problem.arrivals_while_away:
            return shards, 1, np.ones(shards.shape, dtype=np.bool_)
        # A real device that was silent reports with its first backlog what arrived meanwhile.
        return shards, 1, state["there"] | (shards > 0)


class RatesFromDeliveries(LearnedRates):
    """Observes no backlog and learns only from uploads that arrive: n + m shards over the d rounds since the last one.

    (The paper's printed posterior counts all t - 1 rounds, also those that were not observed; that starves devices.)
    """

    needs, hides = frozenset({"channel"}), frozenset({"backlog"})

    @classmethod
    def check_declaration(cls) -> None:
        super().check_declaration()
        if "backlog" in cls.index.needs and cls.index.priority_hidden is Index.priority_hidden:
            raise FedwaveError(
                f"scheduler {cls.name!r} hides the backlogs that {cls.index.__name__} reads: give {cls.index.__name__} "
                "a priority_hidden, which decides without them."
            )

    def rates(self, state: State, seen: Observation) -> FloatArray:
        theta = state["theta"]
        if not self.index.optimistic:
            return theta
        # Greedy on the delay alone would hear everybody in the end. Greedy on the mass would not: a device that is
        # wrongly believed to be slow could stay unheard, and so unknown, forever.
        return np.where(state["covered"] == 0, theta.max(axis=1, keepdims=True), theta)

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return self.own_index.priority_hidden(self.rates(state, seen), state, seen)

    def load(self, seen: Observation) -> IntArray:
        return seen.delay

    def evidence(self, state: State, seen: Observation) -> tuple[IntArray, IntArray | int, BoolArray]:
        return seen.reported, state["load_before"], seen.delivered


def posterior_for(distribution: str, prior: Prior) -> Posterior:
    """The posterior that fits a distribution of arrivals."""
    if distribution == "poisson":
        return ConjugatePosterior(prior)
    return GridPosterior(distribution=distribution, prior=prior)


def arrivals_of_last_round(state: State, seen: Observation) -> IntArray:
    """m of the round before, where backlogs are observed: a device has delivered n + m or still holds it.

    A real device that was restarted may hold less than before; then nothing has arrived.
    """
    held_at_the_end = seen.reported + seen.waiting  # one of them is 0
    arrived: IntArray = np.maximum(held_at_the_end - state["load_before"], 0)
    return arrived
