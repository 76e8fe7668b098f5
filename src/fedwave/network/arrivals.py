"""Arrival models: how many shards arrive at each device in a round.

The rate theta is the mean number of shards per round in every model. The likelihood of counts, and of sums of counts
over several rounds, is in schedulers/posterior.py.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedwave.errors import FedwaveError, check_number
from fedwave.network.poisson import poisson_counts
from fedwave.network.random_part import RandomPart
from fedwave.network.recorded import Recorded, as_record
from fedwave.rng import Block as Block  # public: users' models receive one
from fedwave.types import FloatArray, IntArray

_MOST = 1e9  # largest recorded count: sums over any run stay exact


class Arrivals(RandomPart):
    """Base class of arrival models: the distribution of the count m in a round, for every rate theta.

    A model of your own defines ``sample``, ``chances`` and ``distribution``: "poisson", "negative-binomial" or
    "zero-inflated-poisson". The last is the distribution by which learning schedulers estimate the rates. It may differ
    from the true one, as it does here:

    >>> import fedwave as fw
    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Geometric(fw.arrivals.Arrivals):
    ...     name, distribution = "geometric", "poisson"
    ...
    ...     def sample(self, block, rates):
    ...         return block.draw(lambda rng, shape: rng.geometric(1 / (1 + rates), shape) - 1)
    ...
    ...     def chances(self, rates, most):
    ...         q = (np.asarray(rates) / (1 + np.asarray(rates)))[..., None]
    ...         return (1 - q) * q ** np.arange(most + 1)
    >>> Geometric().chances(np.array([1.0, 3.0]), most=2)
    array([[0.5     , 0.25    , 0.125   ],
           [0.25    , 0.1875  , 0.140625]])
    """

    family: ClassVar[str] = "arrivals"
    distribution: ClassVar[str]  # the distribution by which schedulers learn the rates

    @abstractmethod
    def sample(self, block: Block, rates: FloatArray) -> IntArray:
        """Shards ``[B, I, U]`` that arrive in a block of rounds, at the rates ``[U]``.

        ``block.draw(f)`` calls f(generator, (B, U)) for each instance and stacks the results.
        """

    def mean_rates(self, rates: FloatArray) -> FloatArray:
        """The true mean of each device, ``[U]``, from the rates in the device table."""
        return rates

    @abstractmethod
    def chances(self, rates: FloatArray, most: int) -> FloatArray:
        """P[m = 0], ..., P[m = most] at these rates: ``[..., most + 1]``."""


@dataclass(frozen=True)
class Poisson(Arrivals):
    """Poisson counts: P[m] = theta^m e^-theta / m!, with mean and variance theta; independent in every round.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> fw.arrivals.Poisson().chances(np.array([1.0, 5.0]), most=2).round(3)
    array([[0.368, 0.368, 0.184],
           [0.007, 0.034, 0.084]])
    """

    name = "poisson"

    distribution: ClassVar[str] = "poisson"

    def sample(self, block: Block, rates: FloatArray) -> IntArray:
        return poisson_counts(block, rates)

    def chances(self, rates: FloatArray, most: int) -> FloatArray:
        return poisson_chances(rates, most)


@dataclass(frozen=True)
class NegativeBinomial(Arrivals):
    """Bursty arrivals: negative binomial with mean theta and variance theta + theta^2 / dispersion.

    ``dispersion`` r, from 1e-6 to 1e6: P[m] = Gamma(r + m) / (Gamma(r) m!) (r / (r + theta))^r (theta / (r + theta))^m.
    The smaller it is, the burstier.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> fw.arrivals.NegativeBinomial(dispersion=2).chances(np.array([2.0]), most=3).round(4)
    array([[0.25  , 0.25  , 0.1875, 0.125 ]])
    """

    name = "negative-binomial"

    dispersion: float = 2.0
    distribution: ClassVar[str] = "negative-binomial"

    def __post_init__(self) -> None:
        note = " (for larger values use Poisson)"
        check_number("NegativeBinomial dispersion", self.dispersion, ">= 1e-6", "<= 1e6", note=note)

    def sample(self, block: Block, rates: FloatArray) -> IntArray:
        chance = self.dispersion / (self.dispersion + rates)
        return block.draw(lambda rng, shape: rng.negative_binomial(self.dispersion, chance, shape))

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
    """No shards with probability ``silence`` (in [0, 1)), else Poisson(theta / (1 - silence)); the mean is theta.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> fw.arrivals.ZeroInflatedPoisson(silence=0.5).chances(np.array([1.0]), most=2).round(3)
    array([[0.568, 0.135, 0.135]])
    """

    name = "zero-inflated-poisson"

    silence: float = 0.5
    distribution: ClassVar[str] = "zero-inflated-poisson"

    def __post_init__(self) -> None:
        check_number("ZeroInflatedPoisson silence", self.silence, ">= 0", "< 1")

    def sample(self, block: Block, rates: FloatArray) -> IntArray:
        busy_rate = rates / (1 - self.silence)
        return block.draw(lambda rng, shape: (rng.random(shape) >= self.silence) * rng.poisson(busy_rate, shape))

    def chances(self, rates: FloatArray, most: int) -> FloatArray:
        busy = poisson_chances(np.asarray(rates) / (1 - self.silence), most)
        nothing = np.zeros(most + 1)
        nothing[0] = 1.0
        return self.silence * nothing + (1 - self.silence) * busy


@dataclass(frozen=True, eq=False, repr=False)
class RecordedArrivals(Recorded, Arrivals):
    """Recorded counts: ``[T, U]`` for all instances, or ``[T, I, U]``, one record per instance.

    The true rate of a device is the mean of its record, and the rate in the device table is ignored. Learning
    schedulers treat the counts as Poisson. A run may not be longer than the record. The text form names a file:
    "recorded:path=arrivals.csv".

    >>> import fedwave as fw
    >>> record = fw.arrivals.RecordedArrivals([[0, 4], [2, 6]])
    >>> fw.Network([fw.Device(1, 100), fw.Device(1, 200)], arrivals=record).rates
    array([1., 5.])
    """

    name, what = "recorded", "arrivals"

    counts: IntArray
    distribution: ClassVar[str] = "poisson"

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

    def sample(self, block: Block, rates: FloatArray) -> IntArray:
        return self.rounds_of(block)

    def mean_rates(self, rates: FloatArray) -> FloatArray:
        out: FloatArray = self.counts.mean(axis=tuple(range(self.counts.ndim - 1)))
        return out

    def chances(self, rates: FloatArray, most: int) -> FloatArray:
        """Treated as Poisson, because the record is not known in advance."""
        return poisson_chances(rates, most)


def poisson_chances(rates: FloatArray, most: int) -> FloatArray:
    """P[m = 0], ..., P[m = most] of Poisson counts: ``[..., most + 1]``."""
    from scipy import special  # slow to import, and rarely needed

    m, theta = np.arange(most + 1), np.asarray(rates, dtype=np.float64)[..., None]
    out: FloatArray = np.exp(special.xlogy(m, theta) - theta - special.gammaln(m + 1))
    return out
