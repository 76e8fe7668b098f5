"""Where Theorem 3 is put to the test: networks so small that the Bellman optimum is known, rates drawn from the prior.

Every instance has rates of its own, drawn from the prior that the learning schedulers are given: the regret of the
theorem is a mean over that prior. Each device's gain takes a few equally likely levels, new in every round, so
that the optimum sees exactly the p that the simulation draws. Backlogs are cut at ``truncation`` for planning
and for counting states; Optimum.error says what that changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator

from fedwave.errors import FedwaveError, is_number, whole
from fedwave.network.arrivals import Poisson
from fedwave.network.devices import DeviceTable
from fedwave.network.fading import Fading
from fedwave.network.network import Network
from fedwave.network.success import Soft
from fedwave.rng import Block, Draws
from fedwave.schedulers.greedy import AlsaPi
from fedwave.schedulers.posterior import ConjugatePosterior
from fedwave.schedulers.priors import Truncated
from fedwave.theory.exact_problem import SmallProblem
from fedwave.types import FloatArray, IntArray, Observation, State


@dataclass(frozen=True)
class LevelFading(Fading):
    """Gains that take the given levels, equally likely and independent."""

    levels: tuple[float, ...]

    def sample(self, block: Block, carry: Any) -> tuple[FloatArray, Any]:
        return block.draw(self.fresh), None

    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        return rng.choice(np.array(self.levels), shape)

    def quartiles(self) -> tuple[float, float, float]:
        return self._three(np.quantile(self.levels, [0.25, 0.5, 0.75]))

    def sum_quantiles(self, tries: int, probability: FloatArray) -> FloatArray:
        if tries > 1:
            return super().sum_quantiles(tries, probability)
        rising = np.sort(self.levels)
        at = (np.asarray(probability) * rising.size).astype(np.int64)
        out: FloatArray = rising[np.minimum(at, rising.size - 1)]
        return out


@dataclass(frozen=True, eq=False)
class DrawnPoisson(Poisson):
    """Poisson arrivals with rates of each instance's own, ``[I, U]``; those of the device table do not matter."""

    theta: FloatArray

    def sample(self, block: Block, rates: FloatArray) -> IntArray:
        shape = (block.rounds, block.devices)
        pairs = zip(block.generators, self.theta[block.ids], strict=True)
        return np.stack([rng.poisson(theta, shape) for rng, theta in pairs], axis=1)


@dataclass(frozen=True, eq=False)
class InformedGreedy(AlsaPi):
    """ALSA-PI where every instance has rates of its own, and it knows them."""

    theta: FloatArray  # [I, U]

    needs = frozenset({"channel", "backlog"})

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        return seen.success * (seen.waiting + self.theta)


@dataclass(frozen=True)
class RegretSetting:
    """A small network, the prior of its rates, and how long to run."""

    distances: tuple[float, ...] = (300.0, 400.0)
    gains: tuple[float, ...] = (0.15, 1.85)
    slots: int = 1
    gamma: float = 0.01
    prior: Truncated = field(default_factory=lambda: Truncated(0.1, 4.0))
    truncation: int = 40
    rounds: int = 2000
    instances: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("slots", "truncation", "instances"):
            whole(f"RegretSetting {name}", getattr(self, name), 1)
        whole("RegretSetting rounds", self.rounds, 2)
        if not (is_number(self.gamma) and 0 < self.gamma < 1):
            raise FedwaveError(f"RegretSetting gamma is {self.gamma}, must lie between 0 and 1.")
        if not isinstance(self.prior, Truncated) or self.prior.low <= 0:
            raise FedwaveError(
                f"RegretSetting prior is {self.prior!r}, must be a Truncated with low > 0: rates come from it."
            )

    @classmethod
    def quick(cls) -> RegretSetting:
        """A few seconds."""
        return cls(rounds=400, instances=8)

    @cached_property
    def theta(self) -> FloatArray:
        """The rates of every instance, drawn from the prior: ``[I, U]``."""
        rows = np.arange(self.instances)
        nothing = np.zeros((self.instances, len(self.distances)), dtype=np.int64)
        # Round 0 comes before all rounds that are played: nobody else draws from it.
        draws = Draws(self.seed, rows).at(0)
        return ConjugatePosterior(self.prior).sample(
            {"counted": nothing, "covered": nothing}, rows, draws
        )

    @cached_property
    def network(self) -> Network:
        """One network for all instances; only their arrivals differ."""
        middle = np.full(len(self.distances), (self.prior.low + self.prior.high) / 2)
        table = DeviceTable(rate=middle, distance_m=np.array(self.distances))
        return Network(
            table, self.slots, self.gamma, LevelFading(self.gains), Soft(), DrawnPoisson(self.theta)
        )

    def problem(self, instance: int) -> SmallProblem:
        """What one instance looks like to who knows its rates."""
        planning = self.network.planning
        levels = planning.success_levels(planning.mean_snr, len(self.gains))
        return SmallProblem(self.theta[instance], levels, self.slots, truncation=self.truncation)

    @property
    def states(self) -> int:
        """S: channel levels and backlogs of all devices."""
        return int((len(self.gains) * (self.truncation + 1)) ** len(self.distances))

    @property
    def scale(self) -> float:
        """The largest less the least score that a state and a decision can promise: rewards are divided by it."""
        most = self.truncation + self.prior.high
        return (self.slots + self.gamma * len(self.distances)) * most
