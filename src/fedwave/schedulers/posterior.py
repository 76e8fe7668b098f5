"""Posteriors of a device's rate (``fw.posterior``): ``Posterior`` is the base class.

A Posterior holds hyper-parameters. The statistics, sums of counts over some rounds, are in the scheduler's State.
ConjugatePosterior is for Poisson arrivals, GridPosterior for arrivals without a conjugate prior.

GridPosterior keeps the likelihood of everything seen at every point of a grid of rates and shapes, so one class serves
single counts (R = 1) and sums over R rounds, in constant memory and without a Markov chain that would have to converge.
The shape (dispersion of a negative binomial, silence of a zero-inflated Poisson) is unknown too and averaged over; pass
``shapes`` with a single value if it is known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from fedwave.errors import FedwaveError, did_you_mean
from fedwave.memory import check_memory
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


def negative_binomial_sum(total: int, rounds: int, theta: FloatArray, dispersion: FloatArray) -> FloatArray:
    """log P[sum of ``rounds`` counts = total]: again negative binomial, with dispersion * rounds; in theta's shape."""
    from scipy import special  # slow to import, and needed only for non-Poisson arrivals

    size = dispersion * rounds
    ways = special.gammaln(total + size) - special.gammaln(size) - special.gammaln(total + 1)
    chance = theta / (dispersion + theta)
    out: FloatArray = ways + size * np.log1p(-chance) + special.xlogy(total, chance)
    return out


def zero_inflated_sum(total: int, rounds: int, theta: FloatArray, silence: FloatArray) -> FloatArray:
    """log P[sum of ``rounds`` counts = total]: a mixture over the number of rounds that were not silent."""
    from scipy import special  # slow to import, and needed only for non-Poisson arrivals

    check_memory(
        f"the posterior after {rounds:,} rounds without an upload",
        4 * 8.0 * (rounds + 1) * theta.size,
        "use Poisson or negative binomial arrivals, or fewer rounds",
    )
    busy = np.arange(rounds + 1).reshape(-1, *([1] * theta.ndim))
    mean = busy * (theta / (1 - silence))
    choose = special.gammaln(rounds + 1) - special.gammaln(busy + 1) - special.gammaln(rounds - busy + 1)
    weight = choose + special.xlogy(busy, 1 - silence) + special.xlogy(rounds - busy, silence)
    poisson = special.xlogy(total, mean) - mean - special.gammaln(total + 1)
    out: FloatArray = special.logsumexp(weight + poisson, axis=0)
    return out


@dataclass(frozen=True)
class _Family:
    log_sum: Callable[[int, int, FloatArray, FloatArray], FloatArray]
    shapes: tuple[float, ...]  # what the unknown shape may be, a priori equally likely


_FAMILIES = {
    "negative-binomial": _Family(negative_binomial_sum, (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 32.0)),
    "zero-inflated-poisson": _Family(zero_inflated_sum, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
}


@dataclass(frozen=True)
class GridPosterior(Posterior):
    """A posterior on a grid: ``points`` rates between ``low`` and ``high``, evenly spaced in the logarithm.

    A rate beyond the grid is estimated as its end point: move the grid if rates are that large or small.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> posterior = fw.posterior.GridPosterior("negative-binomial", shapes=(2.0,))
    >>> state = posterior.start(fw.Problem(1, 2, "negative-binomial", (0.3, 0.7, 1.4)))
    >>> state = posterior.update(state, np.array([[400, 0]]), 100, np.array([[True, False]]))
    >>> posterior.sample(state, np.array([0]), fw.Draws(0, [0]).at(1)).round(1).tolist()
    [[3.8, 1.0]]
    """

    distribution: str = "negative-binomial"
    prior: Prior = field(default_factory=Jeffreys)
    shapes: tuple[float, ...] = ()
    low: float = 0.02
    high: float = 1000.0
    points: int = 400

    def __post_init__(self) -> None:
        if self.distribution not in _FAMILIES:
            raise FedwaveError(
                f"no grid posterior for arrivals {self.distribution!r}; {did_you_mean(self.distribution, _FAMILIES)}"
            )
        if not (0 < self.low < self.high < np.inf and self.points >= 2):
            raise FedwaveError(
                f"GridPosterior has low {self.low}, high {self.high} and {self.points} points, "
                "must be 0 < low < high < inf and two or more points."
            )
        check_memory(f"a grid of {self.points:,} rates", 4 * 8.0 * self.points, "lower its points")
        if not np.any((self.rates >= self.prior.low) & (self.rates <= self.prior.high)):
            raise FedwaveError(
                f"the prior's interval [{self.prior.low}, {self.prior.high}] holds no grid point: "
                "widen it, or move the grid with low and high."
            )

    @property
    def rates(self) -> FloatArray:
        """The grid of rates, ``[points]``."""
        return np.geomspace(self.low, self.high, self.points)

    @property
    def shape_values(self) -> tuple[float, ...]:
        """The shapes that are averaged over."""
        return self.shapes or _FAMILIES[self.distribution].shapes

    def start(self, problem: Problem) -> State:
        size = self.points * len(self.shape_values)
        need = 2 * 8.0 * size * problem.instances * problem.devices  # updates copy it
        lower = "lower its points, the devices or the instances at once (block)"
        check_memory(f"a posterior of {size:,} rates and shapes for every device", need, lower)
        likelihood = np.zeros((problem.instances, problem.devices, size))
        return {**super().start(problem), "log_likelihood": likelihood}

    def update(self, state: State, total: IntArray, rounds: IntArray | int, known: BoolArray) -> State:
        rounds = np.broadcast_to(rounds, total.shape)
        seen = np.stack([total[known], rounds[known]], axis=1)
        different, which = np.unique(seen, axis=0, return_inverse=True)
        log_likelihood = state["log_likelihood"].copy()
        if different.size:
            terms = np.stack([_log_terms(self, int(s), int(r)) for s, r in different])
            log_likelihood[known] += terms[which.reshape(-1)]
        return {**super().update(state, total, rounds, known), "log_likelihood": log_likelihood}

    def sample(self, state: State, rows: IntArray, draws: Draws) -> FloatArray:
        log_weight = state["log_likelihood"][rows] + _log_prior(self)
        log_weight -= log_weight.max(axis=2, keepdims=True)
        steps = np.cumsum(np.exp(log_weight), axis=2)
        devices = steps.shape[1]
        aim = draws.uniform(devices, rows)[:, :, None] * steps[:, :, -1:]
        point = np.count_nonzero(steps <= aim, axis=2) // len(self.shape_values)
        # Spread evenly over the grid cell, in the logarithm.
        width = np.log(self.high / self.low) / (self.points - 1)
        theta = self.rates[point] * np.exp(width * (draws.uniform(devices, rows) - 0.5))
        theta = np.clip(theta, self.prior.low, self.prior.high)
        improper = self.prior.rate == 0 and not np.isfinite(self.prior.high)
        return np.where(improper & (state["covered"][rows] == 0), 1.0, theta)


@lru_cache(maxsize=4096)
def _log_terms(posterior: GridPosterior, total: int, rounds: int) -> FloatArray:
    theta = posterior.rates[:, None]
    shape = np.array(posterior.shape_values)[None, :]
    theta, shape = np.broadcast_arrays(theta, shape)
    return _FAMILIES[posterior.distribution].log_sum(total, rounds, theta, shape).reshape(-1)


@lru_cache(maxsize=16)
def _log_prior(posterior: GridPosterior) -> FloatArray:
    # + log(theta): the grid is even in log(theta), so the cell of each point has a width proportional to theta.
    on_rates = posterior.prior.log_density(posterior.rates) + np.log(posterior.rates)
    return np.repeat(on_rates, len(posterior.shape_values))
