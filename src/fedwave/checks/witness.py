"""Recording a scheduler: every call is written down for the checks.

The scheduler runs in the ordinary round loop. An exception ends the run but is kept beside what
happened before it, so that each check can look for its own fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedwave.checks.common import attributes, contents, differences
from fedwave.network.network import NetworkPlanning
from fedwave.rng import Draws
from fedwave.schedulers.base import Scheduler
from fedwave.types import Decision, FloatArray, IntArray, Observation, Problem, State


@dataclass
class Call:
    """One round's decision; what was not reached before an exception stays None."""

    seen: Observation
    changed: list[str] = field(default_factory=list)  # inputs that the call altered
    priority: Any = None
    decision: Any = None
    state: Any = None  # returned


@dataclass
class Run:
    """What a scheduler did on one network."""

    problem: Problem
    calls: list[Call] = field(default_factory=list)
    start: Any = None  # the state before round 1
    error: Exception | None = None
    altered: list[str] = field(default_factory=list)  # attributes of the object that it changed


def watch(scheduler: Scheduler, problem: Problem, play: Callable[[Scheduler], object]) -> Run:
    """Let ``play`` run a stand-in for the scheduler, and write down what the scheduler did."""
    run = Run(problem)
    before = attributes(scheduler)
    try:
        play(_Witness(scheduler, run))
    except Exception as error:
        run.error = error
    after = attributes(scheduler)
    run.altered = differences(before, after)
    return run


@dataclass(eq=False)
class _Witness(Scheduler):
    """Passes every call on to the scheduler under test."""

    name = "witness"
    inner: Scheduler
    run: Run = field(repr=False)

    def __post_init__(self) -> None:
        # The class variables of the wrapped scheduler, which the round loop reads.
        for what in ("name", "needs", "ideal"):
            setattr(self, what, getattr(self.inner, what))

    def start(self, problem: Problem) -> State:
        self.run.start = self.inner.start(problem)
        out: State = self.run.start
        return out

    def learn(self, state: State, seen: Observation, draws: Draws) -> State:
        return self.inner.learn(state, seen, draws)

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        out = self.inner.priority(state, seen, draws)
        self.run.calls[-1].priority = out
        return out

    def remember(self, state: State, seen: Observation, decision: Decision) -> State:
        return self.inner.remember(state, seen, decision)

    def decide(self, state: State, seen: Observation, draws: Draws) -> tuple[Decision, State]:
        call = Call(seen)
        self.run.calls.append(call)
        before = _inputs(state, seen)
        # Step by step if the scheduler uses the base class's decide: then its priorities are recorded.
        by_steps = type(self.inner).decide is Scheduler.decide
        decide = super().decide if by_steps else self.inner.decide
        decision, new_state = decide(state, seen, draws)
        after = _inputs(state, seen)
        call.changed = differences(before, after)
        call.decision, call.state = decision, new_state
        return decision, new_state


def _inputs(state: Any, seen: Observation) -> dict[str, Any]:
    states = state.items() if isinstance(state, Mapping) else [("", state)]
    fields = {f"seen.{name}": getattr(seen, name) for name in visible_fields(seen)}
    named = fields | {f"state[{name!r}]": value for name, value in states}
    return {name: contents(value) for name, value in named.items()}


def visible_fields(seen: Observation) -> list[str]:
    """The fields that an Observation holds."""
    return list(vars(seen))


def reordered(seen: Observation, order: IntArray) -> Observation:
    """The same situation with the devices in another order."""
    fields = {name: getattr(seen, name) for name in visible_fields(seen)}
    for name, value in fields.items():
        if isinstance(value, np.ndarray):
            # The last axis is that of the devices, except for counts by class.
            fields[name] = np.take(value, order, axis=1 if name == "label_counts" else -1)
        elif isinstance(value, NetworkPlanning):
            fields[name] = replace(value, mean_snr=value.mean_snr[order])
    return Observation(**fields)


class ReorderedDraws(Draws):
    """Draws that follow the devices into another order: each device keeps its own random numbers."""

    def __init__(self, draws: Draws, order: IntArray) -> None:
        self._draws, self._order, self._back = draws, order, np.argsort(order)
        self.raw = False  # did the scheduler take a generator, whose numbers belong to no device?

    def at(self, round_: int) -> ReorderedDraws:
        self._draws.at(round_)
        return self

    def generator(self, row: int) -> np.random.Generator:
        self.raw = True
        return self._draws.generator(row)

    def uniform(self, devices: int, rows: Sequence[int] | IntArray | None = None) -> FloatArray:
        numbers = self._draws.uniform(devices, rows)
        return np.take(numbers, self._order, axis=1) if devices == self._order.size else numbers

    def standard_gamma(self, shape: FloatArray, rows: Sequence[int] | IntArray) -> FloatArray:
        numbers = self._draws.standard_gamma(np.take(shape, self._back, axis=1), rows)
        return np.take(numbers, self._order, axis=1)
