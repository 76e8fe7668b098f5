"""Success models: the probability p that an upload arrives, given its SNR; 1 - p is the packet error rate.

All are computed in float64: p is exactly 1 at high SNR, and schedulers rank by it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from fedwave.errors import FedwaveError, is_number, short_repr
from fedwave.files.tables import as_number, read_table
from fedwave.network.fading import Fading
from fedwave.types import FloatArray

# Quadrature nodes for the gains that HARQ has not drawn yet.
_NODES = 64
_LEVELS = 24


class SuccessModel(ABC):
    """p as a function of linear SNR."""

    family: ClassVar[str] = "success"
    name: ClassVar[str]

    @property
    def later_tries(self) -> int:
        """How many further gains one upload can use (HARQ); 0 for all others."""
        return 0

    @property
    def certain(self) -> bool:
        """Is p 0 or 1 at every SNR, so that chance has no part in it?"""
        return False

    @abstractmethod
    def probability(self, snr: FloatArray) -> FloatArray:
        """P[upload arrives] at this (combined) SNR."""

    def expected(self, snr: FloatArray, mean_snr: FloatArray, fading: Fading) -> FloatArray:
        """P[upload arrives] as the access point knows it: given this round's gain only."""
        return self.probability(snr)

    def mean_over_tries(self, snr: FloatArray, mean_snr: FloatArray, fading: Fading, tries: int) -> FloatArray:
        """E[probability(snr + mean_snr * (sum of the gains of ``tries`` new tries))]."""
        sums = fading.sum_quantiles(tries, (np.arange(_NODES) + 0.5) / _NODES)
        total = np.zeros(np.shape(snr))
        for gain in sums:  # one node at a time: all at once would need _NODES times the memory
            total += self.probability(snr + mean_snr * gain)
        return total / _NODES


@dataclass(frozen=True)
class Turbo(SuccessModel):
    """LTE turbo code, rate 1/3, 1024 bits: p = (1 / (1 + exp(-slope (SNR_dB - midpoint))))^blocks.

    The default is QPSK; midpoint_db=-4.657 is BPSK. Slope and midpoint are a logistic fit to block
    errors measured with a MAP decoder of 8 iterations (docs/model.md). ``blocks``: all code blocks of a long
    update must arrive; the paper, and the default, treat an update as one.

    >>> Turbo().probability(np.array([1.0])).round(6)
    array([0.999995])
    """

    name = "turbo"

    midpoint_db: float = -1.647
    slope: float = 7.468
    blocks: int = 1

    def __post_init__(self) -> None:
        if not is_number(self.midpoint_db):
            raise FedwaveError(f"Turbo midpoint_db is {self.midpoint_db}, must be a number (dB).")
        _positive("Turbo slope", self.slope)
        _positive_count("Turbo blocks", self.blocks)

    def probability(self, snr: FloatArray) -> FloatArray:
        # SNR 0 is -inf dB, and far below the midpoint exp overflows to inf: p = 0 in both cases.
        with np.errstate(divide="ignore", over="ignore"):
            # In place: a new array for each step takes three times as long with a million devices.
            level = np.log10(snr)
            level *= 10
            level -= self.midpoint_db
            level *= -self.slope
            odds = np.exp(level)
            odds += 1
            one: FloatArray = 1 / odds
        return one if self.blocks == 1 else one**self.blocks

    def mean_over_tries(self, snr: FloatArray, mean_snr: FloatArray, fading: Fading, tries: int) -> FloatArray:
        # p is a distribution function: an upload arrives once the SNR exceeds a random level. The mean
        # over quantiles of that level is far smoother than one over gains, where p is nearly a step.
        node, weight = np.polynomial.legendre.leggauss(_LEVELS)
        log_share = np.log((node + 1) / 2) / self.blocks
        logit = log_share - np.log(-np.expm1(log_share))
        levels = 10 ** ((self.midpoint_db + logit / self.slope) / 10)
        total = np.zeros(np.shape(snr))
        for level, w in zip(levels, weight / 2, strict=True):
            total += w * _chance_to_reach(level, snr, mean_snr, fading, tries)
        return np.minimum(total, 1.0)  # the weights add up to 1 only to rounding


@dataclass(frozen=True)
class Threshold(SuccessModel):
    """p = 1 from a linear SNR of ``w0`` on, else 0: the quasi-static approximation."""

    name = "threshold"

    w0: float = 0.685

    def __post_init__(self) -> None:
        _positive("Threshold w0", self.w0)

    @property
    def certain(self) -> bool:
        return True

    def probability(self, snr: FloatArray) -> FloatArray:
        return (snr >= self.w0).astype(np.float64)

    def mean_over_tries(self, snr: FloatArray, mean_snr: FloatArray, fading: Fading, tries: int) -> FloatArray:
        return _chance_to_reach(self.w0, snr, mean_snr, fading, tries)


@dataclass(frozen=True)
class Soft(SuccessModel):
    """p = exp(-w0 / SNR): an average over Rayleigh fading, used per round as many papers do."""

    name = "soft"

    w0: float = 0.685

    def __post_init__(self) -> None:
        _positive("Soft w0", self.w0)

    def probability(self, snr: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            out: FloatArray = np.exp(-self.w0 / snr)
        return out


@dataclass(frozen=True)
class Uncoded(SuccessModel):
    """p = (1 - b)^bits with b = Q(sqrt(2 SNR)) for BPSK, Q(sqrt(SNR)) for QPSK: no bit may fail."""

    name = "uncoded"

    bits: int = 1024
    modulation: str = "qpsk"

    def __post_init__(self) -> None:
        _positive_count("Uncoded bits", self.bits)
        if self.modulation not in ("bpsk", "qpsk"):
            raise FedwaveError(f"Uncoded modulation is {self.modulation!r}, must be 'bpsk' or 'qpsk'.")

    def probability(self, snr: FloatArray) -> FloatArray:
        from scipy import special  # slow to import, and rarely needed

        factor = 2.0 if self.modulation == "bpsk" else 1.0
        bit_error = special.ndtr(-np.sqrt(factor * snr))
        out: FloatArray = np.exp(self.bits * np.log1p(-bit_error))
        return out


@dataclass(frozen=True)
class Table(SuccessModel):
    """Interpolates between measured points (SNR in dB, block error rate); constant beyond the ends."""

    name = "table"

    snr_db: tuple[float, ...]
    error_rate: tuple[float, ...]

    def __post_init__(self) -> None:
        try:
            x, y = np.asarray(self.snr_db, np.float64), np.asarray(self.error_rate, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise FedwaveError("Table snr_db and error_rate must be lists of numbers.") from None
        if x.ndim != 1 or x.size < 2 or x.shape != y.shape:
            raise FedwaveError(
                f"Table has {x.size} SNR values and {y.size} error rates, must have two or more of each, in pairs."
            )
        if not (np.all(np.isfinite(x)) and np.all(np.diff(x) > 0)):
            raise FedwaveError("Table snr_db must be finite and increasing: sort the points.")
        if not np.all((y >= 0) & (y <= 1)):
            raise FedwaveError(f"Table error_rate holds {y[~((y >= 0) & (y <= 1))][0]}, must lie between 0 and 1.")
        object.__setattr__(self, "snr_db", tuple(x.tolist()))
        object.__setattr__(self, "error_rate", tuple(y.tolist()))

    @classmethod
    def from_file(cls, path: str | Path) -> Table:
        """Read two columns, ``snr_db`` and ``error_rate``."""
        what = f"error-rate table {path}"
        heading, fields = read_table(path, what)
        if lacking := {"snr_db", "error_rate"} - set(heading):
            raise FedwaveError(f"{what} has no column {min(lacking)!r}: it must have the headings snr_db,error_rate.")
        x, y = heading.index("snr_db"), heading.index("error_rate")
        rows = [
            (as_number(row[x], f"{what}, line {i}: snr_db"), as_number(row[y], f"{what}, line {i}: error_rate"))
            for i, row in enumerate(fields, 1)
        ]
        rows.sort()
        return cls(tuple(x for x, _ in rows), tuple(y for _, y in rows))

    def probability(self, snr: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            snr_db = 10 * np.log10(snr)
        out: FloatArray = 1 - np.interp(snr_db, self.snr_db, self.error_rate)
        return out


@dataclass(frozen=True)
class Arq(SuccessModel):
    """Type I retransmission: ``tries`` independent tries at the same SNR, p = 1 - (1 - p_1)^tries."""

    name = "arq"

    model: SuccessModel = field(default_factory=Turbo)
    tries: int = 2

    def __post_init__(self) -> None:
        _positive_count("Arq tries", self.tries)
        _single_try("Arq", self.model)

    @property
    def certain(self) -> bool:
        return self.model.certain

    def probability(self, snr: FloatArray) -> FloatArray:
        out: FloatArray = 1 - (1 - self.model.probability(snr)) ** self.tries
        return out


@dataclass(frozen=True)
class Harq(SuccessModel):
    """Chase combining: up to ``tries`` tries whose SNRs add up before the block-error curve.

    The later tries have new gains, drawn by the World. The access point knows only the first gain when
    it decides, so its p is the mean over the others. One uniform number decides an upload: since p
    grows with the SNR, an upload that succeeds at some try also does with all of them combined.
    """

    name = "harq"

    model: SuccessModel = field(default_factory=Turbo)
    tries: int = 2

    def __post_init__(self) -> None:
        _positive_count("Harq tries", self.tries, 1000)  # each draws its gains
        _single_try("Harq", self.model)

    @property
    def certain(self) -> bool:
        return self.tries == 1 and self.model.certain  # later tries have new gains

    @property
    def later_tries(self) -> int:
        return self.tries - 1

    def probability(self, snr: FloatArray) -> FloatArray:
        return self.model.probability(snr)

    def expected(self, snr: FloatArray, mean_snr: FloatArray, fading: Fading) -> FloatArray:
        if self.tries == 1:
            return self.model.probability(snr)
        return self.model.mean_over_tries(snr, mean_snr, fading, self.tries - 1)


def _chance_to_reach(level: float, snr: FloatArray, mean_snr: FloatArray, fading: Fading, tries: int) -> FloatArray:
    """P[snr + mean_snr * (sum of the gains of ``tries`` new tries) >= level]."""
    missing = (level - snr) / mean_snr
    return np.where(missing <= 0, 1.0, fading.sum_exceeds(tries, missing))


def _positive(what: str, value: float) -> None:
    if not (is_number(value) and value > 0):
        raise FedwaveError(f"{what} is {value}, must be a number > 0.")


def _positive_count(what: str, value: int, most: int = 10**9) -> None:
    if not (isinstance(value, (int, np.integer)) and value >= 1):
        raise FedwaveError(f"{what} is {value}, must be a whole number >= 1.")
    if value > most:
        raise FedwaveError(f"{what} is {short_repr(value)}, must be at most {most:,}.")


def _single_try(what: str, model: SuccessModel) -> None:
    if not isinstance(model, SuccessModel):
        raise FedwaveError(f"{what} model is {model!r}, must be a SuccessModel object, such as Turbo().")
    if isinstance(model, (Arq, Harq)):
        raise FedwaveError(f"{what} cannot repeat {type(model).__name__}: give it a model of a single try.")
