"""A stand-in for a scheduler under test: it passes every call on, and checks what goes in and comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedwave.checks.shared import Broken, Trial, contents, differences, raised
from fedwave.errors import FedwaveError, HiddenInformation, writes_into_input
from fedwave.network.network import NetworkPlanning
from fedwave.rng import Draws
from fedwave.schedulers.base import Scheduler
from fedwave.types import Decision, FloatArray, IntArray, Observation, Problem, State, checked_state


@dataclass(eq=False)
class Witness(Scheduler):
    """Raises Broken in the round in which the scheduler breaks its contract."""

    name = "witness"
    inner: Scheduler
    trial: Trial = field(repr=False)

    def __post_init__(self) -> None:
        # The class variables of the wrapped scheduler, which the round loop reads.
        for what in ("name", "needs", "ideal"):
            setattr(self, what, getattr(self.inner, what))

    def start(self, problem: Problem) -> State:
        self.where = f"a network of {problem.devices} devices"
        return self.inner.start(problem)

    def learn(self, state: State, seen: Observation, draws: Draws) -> State:
        return self.inner.learn(state, seen, draws)

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        found = self.inner.priority(state, seen, draws)
        shape, wanted = np.shape(found), seen.delay.shape
        if shape != wanted:
            why = f"priorities have shape {shape}, must be one per instance and device: {wanted}."
            raise Broken("priorities", why)
        if np.isnan(np.asarray(found, dtype=np.float64)).any():
            raise Broken(
                "priorities",
                f"a priority is NaN in round {seen.round} on {self.where}: every device needs a number, one without "
                "data too.",
            )
        return found

    def remember(self, state: State, seen: Observation, decision: Decision) -> State:
        return self.inner.remember(state, seen, decision)

    def decide(self, state: State, seen: Observation, draws: Draws) -> tuple[Decision, State]:
        before = _given(state, seen)
        # Step by step if the scheduler uses the base class's decide: then its priorities are seen.
        by_steps = type(self.inner).decide is Scheduler.decide
        try:
            decision, after = super().decide(state, seen, draws) if by_steps else self.inner.decide(state, seen, draws)
        except Broken:
            raise
        except HiddenInformation as error:
            raise Broken("information", str(error)) from None
        except Exception as error:
            if writes_into_input(error):
                why = f"it writes into an array that it was given in round {seen.round}: change a copy instead."
                raise Broken("inputs", why) from error
            why = f"round {seen.round} on {self.where} failed: {raised(error)}"
            raise Broken("completion", why) from error
        self.trial.altered += differences(before, _given(state, seen))
        self._check_decision(decision, seen)
        try:
            checked_state("state", after, len(seen.delay))
        except FedwaveError as error:
            raise Broken("state", str(error)) from None
        self.trial.notes.append((seen, decision.transmits))
        return decision, after

    def _check_decision(self, decision: Any, seen: Observation) -> None:
        if not isinstance(decision, Decision):
            raise Broken("decision", f"the decision is of type {type(decision).__name__}, must be a Decision.")
        picked, shape = decision.transmits, seen.delay.shape
        if not (isinstance(picked, np.ndarray) and picked.dtype == np.bool_ and picked.shape == shape):
            kind = getattr(picked, "dtype", type(picked).__name__)
            raise Broken(
                "decision",
                f"the decision's `transmits` is of type {kind} and shape {np.shape(picked)}, must be a bool array of "
                f"shape {shape}.",
            )
        wanted = shape[1] if self.inner.ideal else seen.slots
        for count in np.count_nonzero(picked, axis=1):
            if count != wanted:
                why = f"it picks {count} of {shape[1]} devices in round {seen.round}, must pick exactly {wanted}."
                raise Broken("slots", why)


def _given(state: Any, seen: Observation) -> dict[str, Any]:
    fields = {f"seen.{name}": value for name, value in vars(seen).items()}
    states = state.items() if isinstance(state, Mapping) else [("", state)]
    return {name: contents(value) for name, value in (fields | {f"state[{n!r}]": v for n, v in states}).items()}


def reordered(seen: Observation, order: IntArray) -> Observation:
    """The same situation with the devices in another order."""
    fields = dict(vars(seen))
    for name, value in vars(seen).items():
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
