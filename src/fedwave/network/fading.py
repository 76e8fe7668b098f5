"""Path loss and fading: the received strength of an upload.

A fading model fills a Block with power gains h and returns a *carry*, the part of its past that the
next block needs (None if rounds are independent). A Trace keeps a carry of arrays ``[I, ...]``, None and
tuples of them (world.py); with any other carry a run that goes on draws its gains from round 1 again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from fedwave.errors import FedwaveError, is_number
from fedwave.files.arrays import read_array
from fedwave.rng import Block as Block  # given to models of a user's own
from fedwave.types import Array, FloatArray

_QUARTERS = np.array([0.25, 0.5, 0.75])


def mean_snr(
    distance_m: FloatArray,
    tx_power_dbm: FloatArray,
    noise_dbm: float,
    interference_dbm: FloatArray,
    intercept_db: float,
    slope_db: float,
) -> FloatArray:
    """Mean SNR (SINR where there is interference), linear, of each device.

    tx power - (intercept + slope * log10(distance in km)) - noise, in dB.
    """
    received_db = tx_power_dbm - (intercept_db + slope_db * np.log10(distance_m / 1000.0))
    disturbance = 10 ** (np.float64(noise_dbm) / 10) + 10 ** (interference_dbm / 10)
    out: FloatArray = 10 ** (received_db / 10) / disturbance
    return out


class Fading(ABC):
    """A distribution of power gains over rounds; mean 1 unless it says otherwise."""

    family: ClassVar[str] = "fading"
    name: ClassVar[str]

    independent: ClassVar[bool] = True  # are the rounds independent of each other?

    @property
    def shared(self) -> bool:
        """Do all instances have the same gains, as with one record for all of them?

        A model of your own that draws nothing says so with ``shared = True``: its instances are then not taken for
        independent ones.
        """
        return False

    @abstractmethod
    def sample(self, block: Block, carry: Any) -> tuple[FloatArray, Any]:
        """Gains ``[B, I, U]`` of one block, and the carry for the next."""

    @abstractmethod
    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Gains of new, independent tries, drawn from the marginal distribution."""

    def check_run(self, rounds: int, devices: int, last_instance: int) -> None:
        """Refuse a run that the model cannot cover; a record covers only its own rounds and devices."""
        return

    def quartiles(self) -> tuple[float, float, float]:
        """The quartiles of the gain."""
        return self._three(np.quantile(_many_fresh(self, 1), _QUARTERS))

    def sum_quantiles(self, tries: int, probability: FloatArray) -> FloatArray:
        """Quantiles of the sum of the gains of several new tries."""
        out: FloatArray = np.quantile(_many_fresh(self, tries), probability)
        return out

    def sum_exceeds(self, tries: int, level: FloatArray) -> FloatArray:
        """Probability that the gains of several new tries add up to at least ``level``."""
        sums = _many_fresh(self, tries)
        out: FloatArray = 1.0 - np.searchsorted(sums, level) / sums.size
        return out

    @staticmethod
    def _three(values: Array) -> tuple[float, float, float]:
        a, b, c = (float(v) for v in values)
        return a, b, c


@lru_cache(maxsize=8)
def _many_fresh(fading: Fading, tries: int) -> FloatArray:
    # For the distributions without a closed form; a fixed seed, so that every run sees the same numbers.
    sums: FloatArray = fading.fresh(np.random.default_rng(0), (tries, 200_000)).sum(axis=0)
    sums.sort()
    return sums


@dataclass(frozen=True)
class Rayleigh(Fading):
    """h exponential with mean 1, new in every round: no line of sight."""

    name = "rayleigh"

    def sample(self, block: Block, carry: Any) -> tuple[FloatArray, Any]:
        return block.draw(lambda rng, shape: rng.standard_exponential(shape)), None

    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        return rng.standard_exponential(shape)

    def quartiles(self) -> tuple[float, float, float]:
        return self._three(-np.log1p(-_QUARTERS))

    def sum_quantiles(self, tries: int, probability: FloatArray) -> FloatArray:
        from scipy import special  # slow to import, and rarely needed

        out: FloatArray = special.gammaincinv(tries, probability)
        return out

    def sum_exceeds(self, tries: int, level: FloatArray) -> FloatArray:
        from scipy import special  # slow to import, and rarely needed

        out: FloatArray = special.gammaincc(tries, np.maximum(level, 0.0))
        return out


@dataclass(frozen=True)
class Rician(Fading):
    """A direct path ``k_factor`` times as strong as the scattered ones; 0 is Rayleigh."""

    name = "rician"

    k_factor: float = 4.0

    def __post_init__(self) -> None:
        if not (is_number(self.k_factor) and self.k_factor >= 0):
            raise FedwaveError(f"Rician k_factor is {self.k_factor}, must be a number >= 0 (0 is Rayleigh).")

    def sample(self, block: Block, carry: Any) -> tuple[FloatArray, Any]:
        return block.draw(self.fresh), None

    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        direct = np.sqrt(self.k_factor / (1 + self.k_factor))
        spread = np.sqrt(0.5 / (1 + self.k_factor))
        in_phase = direct + spread * rng.standard_normal(shape)
        out: FloatArray = in_phase**2 + (spread * rng.standard_normal(shape)) ** 2
        return out


@dataclass(frozen=True)
class GaussMarkov(Fading):
    """Rayleigh fading whose complex amplitude is a first-order Gauss-Markov process.

    x_t = correlation * x_{t-1} + sqrt(1 - correlation^2) * e_t and h = |x|^2, so h stays exponential
    with mean 1 and its correlation after j rounds is correlation^(2 j).
    """

    name = "gauss-markov"

    correlation: float = 0.9
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_correlation("GaussMarkov", self.correlation)

    def sample(self, block: Block, carry: Any) -> tuple[FloatArray, Any]:
        noise = block.draw(_complex_normal)
        path = _markov_path(noise, self.correlation, carry)
        out: FloatArray = path.real**2 + path.imag**2
        return out, path[-1]

    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        return rng.standard_exponential(shape)

    quartiles = Rayleigh.quartiles
    sum_quantiles = Rayleigh.sum_quantiles
    sum_exceeds = Rayleigh.sum_exceeds


@dataclass(frozen=True)
class Shadowing(Fading):
    """Log-normal shadowing on top of another fading: h = h' * 10^(sigma_db * z / 10), z normal.

    z follows a first-order Gauss-Markov process over rounds; ``correlation`` 1 (the default) draws
    one obstacle per device for the whole run, 0 a new one every round. The median of the factor is 1.
    """

    name = "shadowing"

    sigma_db: float = 8.0
    correlation: float = 1.0
    fading: Fading = field(default_factory=Rayleigh)

    def __post_init__(self) -> None:
        if not (is_number(self.sigma_db) and self.sigma_db >= 0):
            raise FedwaveError(f"Shadowing sigma_db is {self.sigma_db}, must be a number >= 0.")
        _check_correlation("Shadowing", self.correlation)
        if not isinstance(self.fading, Fading) or isinstance(self.fading, (Shadowing, RecordedGains)):
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
        return out, (z[-1], carry_after)

    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        if self.correlation > 0:
            # The next try has the same obstacle, which a draw from the marginal distribution does not.
            raise FedwaveError(
                f"HARQ needs shadowing that is new in every round, not correlation {self.correlation}: "
                "use Shadowing(correlation=0) or another success model."
            )
        factor = 10 ** (self.sigma_db * rng.standard_normal(shape) / 10)
        return self.fading.fresh(rng, shape) * factor

    def quartiles(self) -> tuple[float, float, float]:
        unconditional = Shadowing(self.sigma_db, 0.0, self.fading)
        return self._three(np.quantile(_many_fresh(unconditional, 1), _QUARTERS))


@dataclass(frozen=True, eq=False, repr=False)
class RecordedGains(Fading):
    """Measured gains: ``[T, U]`` for all instances, or ``[T, I, U]``, one record per instance."""

    name = "recorded"

    gains: FloatArray
    independent: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"RecordedGains(shape={self.gains.shape})"

    def __post_init__(self) -> None:
        gains = as_record(self.gains, np.float64, "recorded gains")
        if not np.all(np.isfinite(gains)) or np.any(gains < 0):
            where = tuple(int(i) for i in np.argwhere(~(np.isfinite(gains) & (gains >= 0)))[0])
            raise FedwaveError(
                f"recorded gain at {list(where)} is {gains[where]}, must be a number >= 0: clean the record first."
            )
        object.__setattr__(self, "gains", gains)

    @classmethod
    def from_file(cls, path: str) -> RecordedGains:
        """From a .npy file, or a .csv file with a line per round and a column per device."""
        return cls(read_array(path, "the record of gains"))

    @property
    def shared(self) -> bool:
        return same_in_all(self.gains)

    def check_run(self, rounds: int, devices: int, last_instance: int) -> None:
        check_record("gains", self.gains, rounds, devices, last_instance)

    def sample(self, block: Block, carry: Any) -> tuple[FloatArray, Any]:
        return recorded_block(self.gains, block), None

    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        raise FedwaveError(
            "HARQ draws new gains for later tries, which a recorded array does not hold: use another success model."
        )

    def quartiles(self) -> tuple[float, float, float]:
        return self._three(np.quantile(self.gains, _QUARTERS))


def as_record(values: Any, kind: type, what: str) -> Array:
    """A read-only copy of a record."""
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "biufO":  # complex numbers, dates and texts would be converted without a word
            raise TypeError
        record: Array = np.array(given, dtype=kind)
    except (TypeError, ValueError, OverflowError):
        raise FedwaveError(
            f"{what} hold something that is not a number, or rows of different lengths: clean the record first."
        ) from None
    if record.ndim not in (2, 3):
        raise FedwaveError(f"{what} have {record.ndim} axes, must be [round, device] or [round, instance, device].")
    if record.size == 0:
        raise FedwaveError(f"{what} have shape {record.shape}, must not be empty.")
    record.flags.writeable = False
    return record


def same_in_all(record: Array) -> bool:
    """Is the record the same in every instance: given once, or copied?"""
    if record.ndim == 2:
        return True
    return all(np.array_equal(record[:, 0], record[:, i]) for i in range(1, record.shape[1]))


def check_record(what: str, record: Array, rounds: int, devices: int, last_instance: int) -> None:
    """Refuse a run that a record does not cover."""
    if record.shape[0] < rounds:
        raise FedwaveError(
            f"the recorded {what} cover {record.shape[0]} rounds but the run has {rounds}: "
            "record more, or run fewer rounds."
        )
    if record.shape[-1] != devices:
        raise FedwaveError(f"the recorded {what} are of {record.shape[-1]} devices but the network has {devices}.")
    if record.ndim == 3 and record.shape[1] <= last_instance:
        raise FedwaveError(
            f"the recorded {what} cover {record.shape[1]} instances but the run needs {last_instance + 1}."
        )


def recorded_block(record: Array, block: Block) -> Array:
    """The rows of a record that a block covers, ``[B, I, U]``; past the record's end, zeros.

    Whether the record is long enough is checked once, before the run (Network.check_run); a block
    may reach past the last round that is played.
    """
    rows = record[block.first - 1 : block.first - 1 + block.rounds]
    rows = rows[:, None, :] if record.ndim == 2 else rows[:, block.ids, :]
    out = np.zeros((block.rounds, block.ids.size, block.devices), dtype=record.dtype)
    out[: rows.shape[0]] = rows
    return out


def _check_correlation(what: str, value: float) -> None:
    if not (is_number(value) and 0 <= value <= 1):
        raise FedwaveError(f"{what} correlation is {value}, must lie between 0 and 1.")


def _complex_normal(rng: Generator, shape: tuple[int, int]) -> Array:
    out: Array = np.sqrt(0.5) * (rng.standard_normal(shape) + 1j * rng.standard_normal(shape))
    return out


def _markov_path(noise: Array, correlation: float, before: Array | None) -> Array:
    """x_t = correlation * x_{t-1} + sqrt(1 - correlation^2) * noise_t; stationary from the start."""
    fresh_share = np.sqrt(1 - correlation**2)
    path = np.empty_like(noise)
    for k in range(noise.shape[0]):
        before = noise[k] if before is None else correlation * before + fresh_share * noise[k]
        path[k] = before
    return path
