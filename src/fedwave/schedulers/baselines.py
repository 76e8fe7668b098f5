"""Baselines: schedulers that do not use the data, and the ideal without scheduling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.errors import check_number
from fedwave.rng import Draws
from fedwave.schedulers.base import Scheduler
from fedwave.types import Decision, FloatArray, IntArray, Observation, Problem, State


@dataclass(frozen=True)
class Bench(Scheduler):
    """All devices transmit in every round and no upload fails: the ideal."""

    name = "bench"
    formula = "all devices, no failures"
    ideal = True

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return np.zeros(seen.delay.shape)

    def decide(self, state: State, seen: Observation, draws: Draws) -> tuple[Decision, State]:
        return Decision(np.array(seen.available)), state


@dataclass(frozen=True)
class RoundRobin(Scheduler):
    """The next W in turn, advancing whether or not uploads arrive."""

    name = "round-robin"
    formula = "next W in turn"
    symmetric = False

    def start(self, problem: Problem) -> State:
        return {"next": np.zeros(problem.instances, dtype=np.int64)}

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        devices = seen.delay.shape[1]
        turns_to_wait: IntArray = (np.arange(devices) - state["next"][:, None]) % devices
        return -turns_to_wait.astype(np.float64)

    def remember(self, state: State, seen: Observation, decision: Decision) -> State:
        return {"next": (state["next"] + seen.slots) % seen.delay.shape[1]}


@dataclass(frozen=True)
class WMax(Scheduler):
    """The W strongest channels."""

    name = "w-max"
    needs = frozenset({"channel"})
    formula = "SNR"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return seen.snr


@dataclass(frozen=True)
class Random(Scheduler):
    """W devices drawn at random."""

    name = "random"
    formula = "uniform"
    random = True

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return draws.uniform(seen.delay.shape[1])


@dataclass(frozen=True)
class ProportionalFair(Scheduler):
    """Rate now over rate granted so far: R <- (1 - memory) R + memory * a * log2(1 + SNR), R_0 = 1e-6."""

    memory: float = 0.01

    name = "proportional-fair"
    needs = frozenset({"channel"})
    formula = "log2(1 + SNR) / R"

    def __post_init__(self) -> None:
        check_number("proportional-fair memory", self.memory, "> 0", "< 1")

    def start(self, problem: Problem) -> State:
        return {"granted": np.full((problem.instances, problem.devices), 1e-6)}

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        # The granted rate of a device that is not scheduled for long underflows to 0.
        granted = np.maximum(state["granted"], 1e-300)
        return np.log2(1 + seen.snr) / granted

    def remember(self, state: State, seen: Observation, decision: Decision) -> State:
        got = np.where(decision.transmits, np.log2(1 + seen.snr), 0.0)
        return {"granted": (1 - self.memory) * state["granted"] + self.memory * got}
