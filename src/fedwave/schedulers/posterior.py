"""Beliefs about a device's rate, from counts whose sum over some rounds has been seen.

A Posterior holds hyper-parameters; the statistics live in the scheduler's State. Two kinds:

* ConjugatePosterior, for Poisson arrivals: Gamma(a0 + S, b0 + R), S shards counted over R rounds.
* GridPosterior (grid_posterior.py), for families without a conjugate prior.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from fedwave.errors import FedwaveError, is_number
from fedwave.rng import Draws
from fedwave.types import BoolArray, FloatArray, IntArray, Problem, State


class Posterior(ABC):
    """Statistics in ("counted" S, "covered" R, and what a kind adds), sampled rates out."""

    def start(self, problem: Problem) -> State:
        zero = np.zeros((problem.instances, problem.devices), dtype=np.int64)
        return {"counted": zero, "covered": zero}

    def update(
        self, state: State, total: IntArray, rounds: IntArray | int, known: BoolArray
    ) -> State:
        """Where ``known``, ``total`` shards arrived over ``rounds`` rounds; all ``[I, U]``."""
        return {
            **state,
            "counted": state["counted"] + np.where(known, total, 0),
            "covered": state["covered"] + np.where(known, rounds, 0),
        }

    @abstractmethod
    def sample(self, state: State, rows: IntArray, draws: Draws) -> FloatArray:
        """Rates drawn from the posterior for the given instances, ``[rows, U]``."""


class Prior(ABC):
    """A prior of a rate that Poisson counts keep within the Gamma family."""

    shape: float
    rate: float
    low: float = 0.0
    high: float = np.inf

    def log_density(self, theta: FloatArray) -> FloatArray:
        """Up to a constant; -inf outside [low, high]."""
        inside = (theta >= self.low) & (theta <= self.high)
        return np.where(inside, (self.shape - 1) * np.log(theta) - self.rate * theta, -np.inf)


@dataclass(frozen=True)
class Jeffreys(Prior):
    """theta^(-1/2), improper until something has been counted; until then the rate is taken as 1."""

    @property
    def shape(self) -> float:  # type: ignore[override]
        return 0.5

    @property
    def rate(self) -> float:  # type: ignore[override]
        return 0.0


@dataclass(frozen=True)
class GammaPrior(Prior):
    """Gamma(shape, rate): as if ``shape`` shards had been counted over ``rate`` rounds before."""

    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        for name in ("shape", "rate"):
            value = getattr(self, name)
            if not (is_number(value) and value > 0):
                raise FedwaveError(f"GammaPrior {name} is {value}, must be a number > 0.")


@dataclass(frozen=True)
class TruncatedPrior(Prior):
    """Another prior, restricted to rates between ``low`` and ``high``."""

    low: float = 0.1
    high: float = 20.0
    prior: Jeffreys | GammaPrior = field(default_factory=Jeffreys)

    def __post_init__(self) -> None:
        if not (is_number(self.low) and is_number(self.high) and 0 <= self.low < self.high):
            raise FedwaveError(
                f"TruncatedPrior has low {self.low} and high {self.high}, must be 0 <= low < high < inf."
            )

    @property
    def shape(self) -> float:  # type: ignore[override]
        return self.prior.shape

    @property
    def rate(self) -> float:  # type: ignore[override]
        return self.prior.rate


@dataclass(frozen=True)
class ConjugatePosterior(Posterior):
    """theta | S, R ~ Gamma(a0 + S, rate b0 + R), cut to the prior's interval if it has one."""

    prior: Prior = field(default_factory=Jeffreys)

    def sample(self, state: State, rows: IntArray, draws: Draws) -> FloatArray:
        shape = self.prior.shape + state["counted"][rows]
        rate = self.prior.rate + state["covered"][rows]
        if np.isfinite(self.prior.high):
            return self._sample_between(shape, rate, rows, draws)
        theta = draws.standard_gamma(shape, rows)
        np.divide(theta, rate, out=theta, where=rate > 0)
        theta[rate == 0] = 1.0  # nothing counted yet, and an improper prior
        return theta

    def _sample_between(
        self, shape: FloatArray, rate: FloatArray, rows: IntArray, draws: Draws
    ) -> FloatArray:
        """By inversion: rejection could wait for ever where the data lie outside the interval."""
        from scipy import special  # slow to import, and rarely needed

        low, high = self.prior.low, self.prior.high
        u = draws.uniform(shape.shape[1], rows)
        with np.errstate(all="ignore"):  # each formula is used only where it holds
            # Count from the nearer tail: on the other side of the bulk the numbers round to 1.
            right = special.gammainc(shape, rate * low) > 0.5

            def tail(x: FloatArray) -> FloatArray:
                out: FloatArray = np.where(
                    right, special.gammaincc(shape, x), special.gammainc(shape, x)
                )
                return out

            at_low, at_high = tail(rate * low), tail(rate * high)
            aim = at_low + u * (at_high - at_low)
            inverse = special.gammaincinv(shape, aim) / rate
            inverse = np.where(right, special.gammainccinv(shape, aim) / rate, inverse)
            # So far out that even the nearer tail underflows: an exponential fall from the nearer end.
            end = np.where(right, low, high)
            slope = (shape - 1) / end - rate
            beyond = end + np.log1p(-u) / slope
            # Nothing seen and Jeffreys: the density is theta^(shape - 1).
            prior_only = (low**shape + u * (high**shape - low**shape)) ** (1 / shape)
        far = np.maximum(at_low, at_high) < 1e-250
        theta = np.where(rate == 0, prior_only, np.where(far, beyond, inverse))
        return np.clip(theta, low, high)


def posterior_for(family: str, prior: Prior) -> Posterior:
    """The posterior that fits an arrival family."""
    if family == "poisson":
        return ConjugatePosterior(prior)
    from fedwave.schedulers.grid_posterior import GridPosterior

    return GridPosterior(family=family, prior=prior)
