"""Fading models: the power gain h of every upload, by which the SNR differs from its mean."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from fedwave.errors import FedwaveError, check_number
from fedwave.network.random_part import RandomPart
from fedwave.network.recorded import Recorded, as_record
from fedwave.rng import Block as Block  # public: users' models receive one
from fedwave.types import Array, FloatArray

_QUARTERS = np.array([0.25, 0.5, 0.75])
_TRIES_SAMPLED = 200_000


class Fading(RandomPart):
    """Base class of fading models: the distribution of the power gains h, with mean 1 unless the class says otherwise.

    A model of your own defines ``sample`` and ``fresh``. Where rounds depend on each other it also sets
    ``independent = False``.

    >>> import fedwave as fw
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Nakagami(fw.fading.Fading):
    ...     name = "nakagami"
    ...     m: float = 2.0
    ...
    ...     def sample(self, block, carry):
    ...         return block.draw(self.fresh), None
    ...
    ...     def fresh(self, rng, shape):
    ...         return rng.gamma(self.m, 1 / self.m, shape)
    >>> [round(quartile, 1) for quartile in Nakagami(m=2.0).quartiles()]
    [0.5, 0.8, 1.4]
    """

    family: ClassVar[str] = "fading"

    independent: ClassVar[bool] = True  # are the rounds independent of each other?

    absolute: bool = False  # does ``sample`` return linear SNRs in place of gains?

    @abstractmethod
    def sample(self, block: Block, carry: Any) -> tuple[FloatArray, Any]:
        """Gains ``[B, I, U]`` of one block of rounds, and the carry that the next block starts from.

        ``block.draw(f)`` calls f(generator, (B, U)) for each instance and stacks the results. ``carry`` is None for the
        first block, and always None where rounds are independent. A trace keeps a carry of arrays ``[I, ...]``, None
        and tuples of them; with any other carry ``fw.extend`` draws the gains from round 1 again.
        """

    @abstractmethod
    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Independent gains of this shape from the distribution of a single round, for later tries (HARQ)."""

    def mean_snr(self) -> FloatArray:
        """The mean SNR of each device, linear, ``[U]``; only of an absolute fading."""
        raise NotImplementedError

    def quartiles(self) -> tuple[float, float, float]:
        """The quartiles of the gain."""
        return sample_quartiles(_sorted_sums(self, 1))

    def sum_quantiles(self, tries: int, probability: FloatArray) -> FloatArray:
        """Quantiles of the sum of the gains of ``tries`` new tries, shaped like ``probability``."""
        return np.quantile(_sorted_sums(self, tries), probability)

    def sum_exceeds(self, tries: int, level: FloatArray) -> FloatArray:
        """P[sum of the gains of ``tries`` new tries >= level], shaped like ``level``."""
        sums = _sorted_sums(self, tries)
        return 1.0 - np.searchsorted(sums, level) / sums.size


def sample_quartiles(sample: Array | Sequence[float]) -> tuple[float, float, float]:
    """The quartiles of a sample of gains."""
    low, median, high = np.quantile(sample, _QUARTERS)
    return float(low), float(median), float(high)


@lru_cache(maxsize=8)
def _sorted_sums(fading: Fading, tries: int) -> FloatArray:
    """A sample of the sum of new gains, for distributions without a closed form; the same in every run."""
    sums: FloatArray = fading.fresh(np.random.default_rng(0), (tries, _TRIES_SAMPLED)).sum(axis=0)
    sums.sort()
    return sums


@dataclass(frozen=True)
class Rayleigh(Fading):
    """Rayleigh fading, without a line of sight: h is exponential with mean 1 and new in every round.

    >>> import fedwave as fw
    >>> [round(quartile, 3) for quartile in fw.fading.Rayleigh().quartiles()]  # -ln(3/4), ln(2), ln(4)
    [0.288, 0.693, 1.386]
    """

    name = "rayleigh"

    def sample(self, block: Block, carry: Any) -> tuple[FloatArray, Any]:
        return block.draw(lambda rng, shape: rng.standard_exponential(shape)), None

    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        return rng.standard_exponential(shape)

    def quartiles(self) -> tuple[float, float, float]:
        low, median, high = -np.log1p(-_QUARTERS)
        return float(low), float(median), float(high)

    def sum_quantiles(self, tries: int, probability: FloatArray) -> FloatArray:
        from scipy import special  # slow to import, and rarely needed

        out: FloatArray = special.gammaincinv(tries, probability)
        return out

    def sum_exceeds(self, tries: int, level: FloatArray) -> FloatArray:
        from scipy import special  # slow to import, and rarely needed

        out: FloatArray = special.gammaincc(tries, np.maximum(level, 0.0))
        return out


_RAYLEIGH = Rayleigh()  # a default; a frozen part can be shared


@dataclass(frozen=True)
class Rician(Fading):
    """Rician fading: a direct path ``k_factor`` times as strong as all scattered ones together; new in every round.

    With K = ``k_factor`` >= 0, h = (sqrt(K / (1 + K)) + x)^2 + y^2, where x and y are normal with mean 0 and variance
    1 / (2 + 2 K). The mean is 1 and the variance (1 + 2 K) / (1 + K)^2; K = 0 is Rayleigh.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> gains = fw.fading.Rician(k_factor=4).fresh(np.random.default_rng(0), (100_000,))
    >>> print(gains.mean().round(2), gains.var().round(2))
    1.0 0.36
    """

    name = "rician"

    k_factor: float = 4.0

    def __post_init__(self) -> None:
        check_number("Rician k_factor", self.k_factor, ">= 0", note=" (0 is Rayleigh): is this dB?")

    def sample(self, block: Block, carry: Any) -> tuple[FloatArray, Any]:
        return block.draw(self.fresh), None

    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        direct = np.sqrt(self.k_factor / (1 + self.k_factor))
        spread = np.sqrt(0.5 / (1 + self.k_factor))
        in_phase = direct + spread * rng.standard_normal(shape)
        out: FloatArray = in_phase**2 + (spread * rng.standard_normal(shape)) ** 2
        return out


@dataclass(frozen=True)
class GaussMarkov(Rayleigh):
    """Rayleigh fading with memory: the complex amplitude x is a first-order Gauss-Markov process.

    With rho = ``correlation`` (0 to 1), x_t = rho x_{t-1} + sqrt(1 - rho^2) e_t and h = |x|^2. Every h is exponential
    with mean 1, and the correlation of gains j rounds apart is rho^(2 j).

    >>> import fedwave as fw
    >>> import numpy as np
    >>> trace = fw.simulate(fw.paper_network(fading=fw.fading.GaussMarkov(0.9)), "random", rounds=500, instances=4)
    >>> print(np.corrcoef(trace.gain[:-1].ravel(), trace.gain[1:].ravel())[0, 1].round(1))
    0.8
    """

    name = "gauss-markov"

    correlation: float = 0.9
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("GaussMarkov correlation", self.correlation, ">= 0", "<= 1")

    def sample(self, block: Block, carry: Any) -> tuple[FloatArray, Any]:
        noise = block.draw(
            lambda rng, shape: np.sqrt(0.5) * (rng.standard_normal(shape) + 1j * rng.standard_normal(shape))
        )
        path = _markov_path(noise, self.correlation, carry)
        out: FloatArray = path.real**2 + path.imag**2
        return out, path[-1]


@dataclass(frozen=True)
class Shadowing(Fading):
    """Log-normal shadowing on top of another fading h': h = h' 10^(sigma_db z / 10) with z standard normal.

    Parameters:

    * ``sigma_db``: standard deviation of the shadowing in dB, >= 0; the median of the factor is 1
    * ``correlation``: of z in neighbouring rounds; 1 is one obstacle per device for the whole run, 0 a new one in every
      round, in between z is a first-order Gauss-Markov process
    * ``fading``: the model of h', an object or a name

    >>> import fedwave as fw
    >>> fw.fading.Shadowing(sigma_db=6, correlation=0, fading=fw.fading.Rician(4)).independent
    True
    >>> fw.fading.Shadowing().independent
    False
    """

    name = "shadowing"

    sigma_db: float = 8.0
    correlation: float = 1.0
    fading: Fading = _RAYLEIGH

    def __post_init__(self) -> None:
        check_number("Shadowing sigma_db", self.sigma_db, ">= 0")
        check_number("Shadowing correlation", self.correlation, ">= 0", "<= 1")
        replayed = type(self.fading).check_run is not Fading.check_run if isinstance(self.fading, Fading) else True
        if replayed or isinstance(self.fading, Shadowing):
            raise FedwaveError(
                f"Shadowing fading is a {type(self.fading).__name__}, must be a fading model "
                "without shadowing of its own, such as Rayleigh()."
            )

    @property
    def independent(self) -> bool:  # type: ignore[override]
        return self.correlation == 0 and self.fading.independent

    def sample(self, block: Block, carry: Any) -> tuple[FloatArray, Any]:
        z_before, carry_before = carry if carry is not None else (None, None)
        noise = block.draw(lambda rng, shape: rng.standard_normal(shape))
        z = _markov_path(noise, self.correlation, z_before)
        gains, carry_after = self.fading.sample(block, carry_before)
        out: FloatArray = gains * 10 ** (self.sigma_db * z / 10)
        return out, None if self.independent else (z[-1], carry_after)

    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        if self.correlation > 0:
            # The next try meets the same obstacle, but an independent draw would give it another one.
            raise FedwaveError(
                f"HARQ needs shadowing that is new in every round, not correlation {self.correlation}: "
                "use Shadowing(correlation=0) or another success model."
            )
        factor = 10 ** (self.sigma_db * rng.standard_normal(shape) / 10)
        return self.fading.fresh(rng, shape) * factor

    def quartiles(self) -> tuple[float, float, float]:
        unconditional = Shadowing(self.sigma_db, 0.0, self.fading)
        return sample_quartiles(_sorted_sums(unconditional, 1))


@dataclass(frozen=True, eq=False, repr=False)
class RecordedGains(Recorded, Fading):
    """Measured gains h >= 0: ``[T, U]`` for all instances, or ``[T, I, U]``, one record per instance.

    The mean of a record need not be 1. A run may not be longer than the record. The text form names a file:
    "recorded:path=gains.npy".

    >>> import fedwave as fw
    >>> import numpy as np
    >>> fw.fading.RecordedGains(np.ones((200, 25)))
    RecordedGains(shape=(200, 25))
    """

    name, what = "recorded", "gains"

    gains: FloatArray
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        gains = as_record(self.gains, np.float64, "recorded gains")
        if not np.all(np.isfinite(gains)) or np.any(gains < 0):
            where = tuple(int(i) for i in np.argwhere(~(np.isfinite(gains) & (gains >= 0)))[0])
            raise FedwaveError(f"recorded gain at {list(where)} is {gains[where]}, must be a number >= 0: is this dB?")
        object.__setattr__(self, "gains", gains)

    def sample(self, block: Block, carry: Any) -> tuple[FloatArray, Any]:
        return self.rounds_of(block), None

    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        raise FedwaveError(
            "HARQ draws new gains for later tries, which a recorded array does not hold: use another success model."
        )

    def quartiles(self) -> tuple[float, float, float]:
        return sample_quartiles(self.gains)


def _markov_path(noise: Array, correlation: float, before: Array | None) -> Array:
    """x_t = correlation * x_{t-1} + sqrt(1 - correlation^2) * noise_t; stationary from the start."""
    fresh_share = np.sqrt(1 - correlation**2)
    path = np.empty_like(noise)
    for k in range(noise.shape[0]):
        before = noise[k] if before is None else correlation * before + fresh_share * noise[k]
        path[k] = before
    return path
