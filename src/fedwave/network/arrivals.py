"""How many shards arrive at a device in a round.

``rate`` (the paper's theta) is the mean number of shards per round in every family, so schedulers and
bounds use it with the same meaning. The likelihood of counts, and of sums of counts over several rounds, is in
schedulers/posterior.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from fedwave.errors import FedwaveError, is_number
from fedwave.files.arrays import read_array
from fedwave.network.fading import as_record, check_record, recorded_block, same_in_all
from fedwave.network.poisson import poisson_counts
from fedwave.rng import Block as Block  # given to models of a user's own
from fedwave.types import FloatArray, IntArray

_MOST = 1e9  # largest recorded count: sums over any run stay exact


class Arrivals(ABC):
    """A family of arrival distributions, one member per rate."""

    family: ClassVar[str] = "arrivals"
    name: ClassVar[str]
    distribution: ClassVar[str]  # the distribution that schedulers assume

    @property
    def shared(self) -> bool:
        """Do all instances have the same arrivals, as with one record for all of them?

        A model of your own that draws nothing says so with ``shared = True``.
        """
        return False

    @abstractmethod
    def sample(self, block: Block, rates: FloatArray) -> IntArray:
        """Shards ``[B, I, U]`` that arrive in each round of the block."""

    def check_run(self, rounds: int, devices: int, last_instance: int) -> None:
        """Refuse a run that the model cannot cover; a record covers only its own rounds and devices."""
        return

    def mean_rates(self, rates: FloatArray) -> FloatArray:
        """The true mean per round of each device, ``[U]``."""
        return rates

    @abstractmethod
    def chances(self, rates: FloatArray, most: int) -> FloatArray:
        """P[m = 0], ..., P[m = most] at these rates: ``[..., most + 1]``."""


@dataclass(frozen=True)
class Poisson(Arrivals):
    """Independent Poisson counts: mean and variance are the rate."""

    name = "poisson"

    distribution: ClassVar[str] = "poisson"

    def sample(self, block: Block, rates: FloatArray) -> IntArray:
        return poisson_counts(block, rates)

    def chances(self, rates: FloatArray, most: int) -> FloatArray:
        return _poisson_chances(rates, most)


@dataclass(frozen=True)
class NegativeBinomial(Arrivals):
    """Bursty arrivals: mean theta, variance theta + theta^2 / dispersion."""

    name = "negative-binomial"

    dispersion: float = 2.0
    distribution: ClassVar[str] = "negative-binomial"

    def __post_init__(self) -> None:
        if not (is_number(self.dispersion) and 1e-6 <= self.dispersion <= 1e6):
            raise FedwaveError(
                f"NegativeBinomial dispersion is {self.dispersion}, must lie between 1e-6 and 1e6 "
                "(for larger values use Poisson)."
            )

    def sample(self, block: Block, rates: FloatArray) -> IntArray:
        chance = self.dispersion / (self.dispersion + rates)

        def one(rng: Generator, shape: tuple[int, int]) -> IntArray:
            return rng.negative_binomial(self.dispersion, chance, shape)

        return block.draw(one)

    def chances(self, rates: FloatArray, most: int) -> FloatArray:
        from scipy import special  # slow to import, and rarely needed

        m, r, theta = np.arange(most + 1), self.dispersion, np.asarray(rates)[..., None]
        ways = special.gammaln(r + m) - special.gammaln(r) - special.gammaln(m + 1)
        # With rate 0 only m = 0 is possible: xlogy(0, 0) = 0.
        logs = ways + r * np.log(r / (r + theta)) + special.xlogy(m, theta / (r + theta))
        out: FloatArray = np.exp(logs)
        return out


@dataclass(frozen=True)
class ZeroInflatedPoisson(Arrivals):
    """No shards with probability ``silence``, else Poisson(theta / (1 - silence)): mean theta."""

    name = "zero-inflated-poisson"

    silence: float = 0.5
    distribution: ClassVar[str] = "zero-inflated-poisson"

    def __post_init__(self) -> None:
        if not (is_number(self.silence) and 0 <= self.silence < 1):
            raise FedwaveError(f"ZeroInflatedPoisson silence is {self.silence}, must lie in [0, 1).")

    def sample(self, block: Block, rates: FloatArray) -> IntArray:
        busy_rate = rates / (1 - self.silence)

        def one(rng: Generator, shape: tuple[int, int]) -> IntArray:
            counts: IntArray = (rng.random(shape) >= self.silence) * rng.poisson(busy_rate, shape)
            return counts

        return block.draw(one)

    def chances(self, rates: FloatArray, most: int) -> FloatArray:
        busy = _poisson_chances(np.asarray(rates) / (1 - self.silence), most)
        nothing = np.zeros(most + 1)
        nothing[0] = 1.0
        return self.silence * nothing + (1 - self.silence) * busy


@dataclass(frozen=True, eq=False, repr=False)
class RecordedArrivals(Arrivals):
    """Recorded counts: ``[T, U]`` for all instances, or ``[T, I, U]``, one record each.

    The true rate of a device is the mean of its record; learning schedulers treat it as Poisson.
    """

    name = "recorded"

    counts: IntArray
    distribution: ClassVar[str] = "poisson"

    def __repr__(self) -> str:
        return f"RecordedArrivals(shape={self.counts.shape})"

    def __post_init__(self) -> None:
        counts = as_record(self.counts, np.float64, "recorded arrivals")
        whole = (counts >= 0) & (counts <= _MOST) & (counts == np.floor(counts))
        if not np.all(whole):
            where = tuple(int(i) for i in np.argwhere(~whole)[0])
            raise FedwaveError(
                f"recorded arrivals at {list(where)} are {counts[where]:g}, must be whole numbers >= 0 "
                f"and at most {_MOST:g}."
            )
        object.__setattr__(self, "counts", as_record(counts, np.int64, "recorded arrivals"))

    @classmethod
    def from_file(cls, path: str) -> RecordedArrivals:
        """From a .npy file, or a .csv file with a line per round and a column per device."""
        return cls(read_array(path, "the record of arrivals"))

    @property
    def shared(self) -> bool:
        return same_in_all(self.counts)

    def check_run(self, rounds: int, devices: int, last_instance: int) -> None:
        check_record("arrivals", self.counts, rounds, devices, last_instance)

    def sample(self, block: Block, rates: FloatArray) -> IntArray:
        return recorded_block(self.counts, block)

    def mean_rates(self, rates: FloatArray) -> FloatArray:
        out: FloatArray = self.counts.mean(axis=tuple(range(self.counts.ndim - 1)))
        return out

    def chances(self, rates: FloatArray, most: int) -> FloatArray:
        """Treated as Poisson, because the record is not known in advance."""
        return _poisson_chances(rates, most)


def _poisson_chances(rates: FloatArray, most: int) -> FloatArray:
    from scipy import special  # slow to import, and rarely needed

    m, theta = np.arange(most + 1), np.asarray(rates, dtype=np.float64)[..., None]
    out: FloatArray = np.exp(special.xlogy(m, theta) - theta - special.gammaln(m + 1))
    return out
