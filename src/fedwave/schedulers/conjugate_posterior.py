"""The posterior of a device's rate: its contract, and the one for Poisson arrivals.

A Posterior holds hyper-parameters. The statistics, sums of counts over some rounds, are in the scheduler's State.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from fedwave.rng import Draws
from fedwave.schedulers.priors import Jeffreys, Prior
from fedwave.types import BoolArray, FloatArray, IntArray, Problem, State


class Posterior(ABC):
    """Samples the arrival rate of each device from what was observed: S shards counted over R rounds.

    S and R are "counted" and "covered" in the scheduler's state, ``[I, U]`` each; a posterior may add arrays.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> problem = fw.Problem(1, 2, "poisson", (0.3, 0.7, 1.4))  # one instance, two devices
    >>> posterior = fw.posterior.ConjugatePosterior()
    >>> state = posterior.start(problem)
    >>> state = posterior.update(state, np.array([[400, 0]]), 100, np.array([[True, False]]))
    >>> rates = posterior.sample(state, np.array([0]), fw.Draws(0, [0]).at(1))  # near 4; 1 while nothing is known
    >>> rates.round(1).tolist()
    [[3.9, 1.0]]
    """

    def start(self, problem: Problem) -> State:
        """The statistics before round 1."""
        zero = np.zeros((problem.instances, problem.devices), dtype=np.int64)
        return {"counted": zero, "covered": zero}

    def update(self, state: State, total: IntArray, rounds: IntArray | int, known: BoolArray) -> State:
        """Where ``known``, ``total`` shards arrived over ``rounds`` rounds; all ``[I, U]``."""
        return {**state, "counted": state["counted"] + known * total, "covered": state["covered"] + known * rounds}

    @abstractmethod
    def sample(self, state: State, rows: IntArray, draws: Draws) -> FloatArray:
        """Rates drawn from the posterior for the given instances, ``[rows, U]``."""


@dataclass(frozen=True)
class ConjugatePosterior(Posterior):
    """theta | S, R ~ Gamma(a0 + S, rate b0 + R), cut to the prior's interval if it has one.

    a0 and b0 are the prior's ``shape`` and ``rate``. A device with R = 0 has the rate 1 if the prior is improper.

    >>> import fedwave as fw
    >>> fw.posterior.ConjugatePosterior(fw.priors.Gamma(shape=6, rate=2))
    ConjugatePosterior(prior=Gamma(shape=6, rate=2))
    """

    prior: Prior = field(default_factory=Jeffreys)

    def sample(self, state: State, rows: IntArray, draws: Draws) -> FloatArray:
        shape = self.prior.shape + state["counted"][rows]
        rate = self.prior.rate + state["covered"][rows]
        if np.isfinite(self.prior.high):
            return self._sample_between(shape, rate, rows, draws)
        unseen = rate == 0  # nothing counted yet, and an improper prior
        theta: FloatArray = draws.standard_gamma(shape, rows) / (rate + unseen)
        theta[unseen] = 1.0
        return theta

    def _sample_between(self, shape: FloatArray, rate: FloatArray, rows: IntArray, draws: Draws) -> FloatArray:
        """By inversion: rejection could take forever if the data lie outside the interval."""
        from scipy import special  # slow to import, and rarely needed

        low, high = self.prior.low, self.prior.high
        u = draws.uniform(shape.shape[1], rows)
        with np.errstate(all="ignore"):  # each formula is used only where it holds
            # Use the nearer tail: on the other side the values round to 1.
            right = special.gammainc(shape, rate * low) > 0.5

            def tail(x: FloatArray) -> FloatArray:
                out: FloatArray = np.where(right, special.gammaincc(shape, x), special.gammainc(shape, x))
                return out

            at_low, at_high = tail(rate * low), tail(rate * high)
            aim = at_low + u * (at_high - at_low)
            inverse = special.gammaincinv(shape, aim) / rate
            inverse = np.where(right, special.gammainccinv(shape, aim) / rate, inverse)
            # If even the nearer tail underflows: an exponential from the nearer end.
            end = np.where(right, low, high)
            slope = (shape - 1) / end - rate
            beyond = end + np.log1p(-u) / slope
            # Jeffreys prior without data: the density is theta^(shape - 1).
            prior_only = (low**shape + u * (high**shape - low**shape)) ** (1 / shape)
        far = np.maximum(at_low, at_high) < 1e-250
        theta = np.where(rate == 0, prior_only, np.where(far, beyond, inverse))
        return np.clip(theta, low, high)
