"""Success models: the probability p that an upload arrives, given its SNR; 1 - p is the block error rate.

All are computed in float64: p is exactly 1 at high SNR, and schedulers rank by it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from fedwave.errors import FedwaveError, check_number, set_int, short_repr
from fedwave.files.tables import as_number, read_table
from fedwave.network.fading import Fading
from fedwave.types import FloatArray

# Quadrature nodes of the mean over HARQ's later tries: quantiles of their gains, and levels of the SNR that is needed.
_NODES = 64
_LEVELS = 24
_MOST = 10**9  # blocks, bits and tries
# Headings of link simulators, without capitals and signs. Eb/N0 is not the SNR: it lacks the bits per symbol.
_SNR_HEADINGS = ("snr", "sinr", "sinrdb", "esno", "esnodb", "esn0", "esn0db")
_ERROR_HEADINGS = ("bler", "per", "fer", "blockerrorrate", "packeterrorrate", "frameerrorrate", "errorrate")


class SuccessModel(ABC):
    """Base class of success models: p as a function of the SNR, which is linear and not in dB.

    A model of your own defines ``probability``, and ``certain = True`` if p is always 0 or 1.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class OneOverSnr(fw.success.SuccessModel):
    ...     name = "one-over-snr"
    ...
    ...     def probability(self, snr):
    ...         return snr / (1.0 + snr)
    >>> OneOverSnr().probability(np.array([0.0, 1.0, 3.0]))
    array([0.  , 0.5 , 0.75])
    """

    family: ClassVar[str] = "success"
    name: ClassVar[str]

    @property
    def later_tries(self) -> int:
        """The number of tries after the first whose gains add to the SNR (HARQ); 0 for all other models."""
        return 0

    @property
    def certain(self) -> bool:
        """Is p 0 or 1 at every SNR, so that an upload depends on no random number?"""
        return False

    @abstractmethod
    def probability(self, snr: FloatArray) -> FloatArray:
        """P[upload arrives] at this SNR, or at the sum of the SNRs of all tries; of the same shape."""

    def expected(self, snr: FloatArray, mean_snr: FloatArray, fading: Fading) -> FloatArray:
        """P[upload arrives] as the access point knows it before later tries draw their gains."""
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
    """LTE turbo code, rate 1/3, 1024 bits: p = (1 / (1 + exp(-slope (SNR_dB - midpoint_db))))^blocks.

    Slope and midpoint are a logistic fit to block errors measured with a MAP decoder of 8 iterations (docs/model.md).

    Parameters:

    * ``midpoint_db``: SNR in dB at which half of the blocks arrive; the default is QPSK, -4.657 is BPSK
    * ``slope``: of the logistic function, per dB, > 0
    * ``blocks``: code blocks of an update, all of which must arrive; the paper treats an update as one

    >>> import fedwave as fw
    >>> import numpy as np
    >>> fw.success.Turbo().probability(np.array([0.5, 0.7, 1.0])).round(3)  # the SNRs are linear
    array([0.   , 0.675, 1.   ])
    """

    name = "turbo"

    midpoint_db: float = -1.647
    slope: float = 7.468
    blocks: int = 1

    def __post_init__(self) -> None:
        check_number("Turbo midpoint_db", self.midpoint_db, note=" (dB)")
        check_number("Turbo slope", self.slope, "> 0")
        set_int(self, "blocks", 1, _MOST)

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
        # p is a distribution function: an upload arrives once the SNR exceeds a random level. p is nearly a step
        # in the gain, so averaging over quantiles of that level converges faster than averaging over gains.
        node, weight = np.polynomial.legendre.leggauss(_LEVELS)
        log_share = np.log((node + 1) / 2) / self.blocks
        logit = log_share - np.log(-np.expm1(log_share))
        levels = 10 ** ((self.midpoint_db + logit / self.slope) / 10)
        total = np.zeros(np.shape(snr))
        for level, w in zip(levels, weight / 2, strict=True):
            total += w * _chance_to_exceed(level, snr, mean_snr, fading, tries)
        return np.minimum(total, 1.0)  # the weights add up to 1 only to rounding


_TURBO = Turbo()  # a default; a frozen part can be shared


@dataclass(frozen=True)
class Threshold(SuccessModel):
    """p = 1 if SNR >= w0, else 0: the quasi-static approximation. ``w0`` is a linear SNR > 0.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> fw.success.Threshold(w0=0.5).probability(np.array([0.4, 0.5]))
    array([0., 1.])
    """

    name = "threshold"

    w0: float = 0.685

    def __post_init__(self) -> None:
        check_number("Threshold w0", self.w0, "> 0")

    @property
    def certain(self) -> bool:
        return True

    def probability(self, snr: FloatArray) -> FloatArray:
        return (snr >= self.w0).astype(np.float64)

    def mean_over_tries(self, snr: FloatArray, mean_snr: FloatArray, fading: Fading, tries: int) -> FloatArray:
        return _chance_to_exceed(self.w0, snr, mean_snr, fading, tries)


@dataclass(frozen=True)
class Soft(SuccessModel):
    """p = exp(-w0 / SNR): a mean over Rayleigh fading that many papers apply in every round. ``w0``: linear, > 0.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> fw.success.Soft().probability(np.array([0.685, 6.85])).round(3)
    array([0.368, 0.905])
    """

    name = "soft"

    w0: float = 0.685

    def __post_init__(self) -> None:
        check_number("Soft w0", self.w0, "> 0")

    def probability(self, snr: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            out: FloatArray = np.exp(-self.w0 / snr)
        return out


@dataclass(frozen=True)
class Uncoded(SuccessModel):
    """Without a code: p = (1 - b)^bits, b being the bit error rate Q(sqrt(2 SNR)) of BPSK or Q(sqrt(SNR)) of QPSK.

    ``bits`` are those of an update, ``modulation`` is "bpsk" or "qpsk".

    >>> import fedwave as fw
    >>> import numpy as np
    >>> fw.success.Uncoded(bits=100, modulation="bpsk").probability(np.array([1.0, 4.0])).round(3)
    array([0.   , 0.791])
    """

    name = "uncoded"

    bits: int = 1024
    modulation: str = "qpsk"

    def __post_init__(self) -> None:
        set_int(self, "bits", 1, _MOST)
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
    """Measured block error rates: p = 1 - (the rate interpolated at the SNR in dB), constant beyond the ends.

    Parameters:

    * ``snr_db``: two or more SNRs in dB, increasing
    * ``error_rate``: the block error rate at each, from 0 to 1

    The text form names a CSV file with these two columns, as link simulators write it: "table:path=error_rates.csv".
    ``from_file`` says how a column of several is chosen: "table:path=error_rates.csv,column=MCS 5".

    >>> import fedwave as fw
    >>> import numpy as np
    >>> measured = fw.success.Table(snr_db=(-2.0, 0.0), error_rate=(1.0, 0.0))
    >>> measured.probability(10 ** (np.array([-2.0, -0.5, 3.0]) / 10))
    array([0.  , 0.75, 1.  ])
    """

    name = "table"

    snr_db: tuple[float, ...]
    error_rate: tuple[float, ...]

    def __post_init__(self) -> None:
        try:
            x, y = np.asarray(self.snr_db, np.float64), np.asarray(self.error_rate, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise FedwaveError(
                f"Table snr_db is {short_repr(self.snr_db)} and error_rate is {short_repr(self.error_rate)}, must be "
                "lists of numbers."
            ) from None
        if x.ndim != 1 or x.size < 2 or x.shape != y.shape:
            raise FedwaveError(
                f"Table has {x.size} SNR values and {y.size} error rates, must have two or more of each, in pairs."
            )
        if not (np.all(np.isfinite(x)) and np.all(np.diff(x) > 0)):
            raise FedwaveError(
                f"Table snr_db is {short_repr(x.tolist())}, must be finite and increasing: sort the points."
            )
        if not np.all((y >= 0) & (y <= 1)):
            raise FedwaveError(f"Table error_rate holds {y[~((y >= 0) & (y <= 1))][0]}, must lie between 0 and 1.")
        object.__setattr__(self, "snr_db", tuple(x.tolist()))
        object.__setattr__(self, "error_rate", tuple(y.tolist()))

    @classmethod
    def from_file(cls, path: str | Path, column: str | None = None, mcs: float | None = None) -> Table:
        """Reads a CSV file with a column of SNRs in dB and one or more of block error rates, in any order of lines.

        Common headings are known: snr_db, SNR (dB), SINR, Es/N0; error_rate, BLER, PER, FER. ``column`` names one of
        several error rates, such as "MCS 5". ``mcs`` takes the lines with this number in the column "mcs".
        """
        what = f"error-rate table {path}"
        heading, fields = read_table(path, what)
        x = _heading(what, heading, "snr_db", _SNR_HEADINGS)
        y = _heading(what, heading, str(column or "error_rate"), () if column else _ERROR_HEADINGS)
        lines = list(enumerate(fields, 1))
        if mcs is not None:
            at = _heading(what, heading, "mcs", ("mcsindex", "imcs"))
            lines = [(i, row) for i, row in lines if as_number(row[at], f"{what}, line {i}: mcs") == mcs]
            if not lines:
                raise FedwaveError(f"{what} has no line with mcs {short_repr(mcs)}: choose one that it has.")
        rows = [
            (as_number(row[x], f"{what}, line {i}: {heading[x]}"), as_number(row[y], f"{what}, line {i}: {heading[y]}"))
            for i, row in lines
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
    """Retransmission without combining (type I ARQ): p = 1 - (1 - p_1)^tries, p_1 being the ``model``'s at the SNR.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> fw.success.Arq(fw.success.Soft(), tries=3).probability(np.array([0.685])).round(3)
    array([0.747])
    """

    name = "arq"

    model: SuccessModel = _TURBO
    tries: int = 2

    def __post_init__(self) -> None:
        set_int(self, "tries", 1, _MOST)
        _check_single_try("Arq", self.model)

    @property
    def certain(self) -> bool:
        return self.model.certain

    def probability(self, snr: FloatArray) -> FloatArray:
        return 1 - (1 - self.model.probability(snr)) ** self.tries


@dataclass(frozen=True)
class Harq(SuccessModel):
    """Chase combining (HARQ): up to ``tries`` tries, and p is the ``model``'s at the sum of their SNRs.

    The World draws new gains for the later tries. When the access point decides it knows the first gain only, so its p
    is the mean over the others. One uniform number decides an upload: as p grows with the SNR, an upload that succeeds
    at an earlier try also succeeds with all tries combined.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> fw.success.Harq(tries=3).expected(np.array([0.5]), np.array([0.5]), fw.fading.Rayleigh()).round(2)
    array([0.94])
    """

    name = "harq"

    model: SuccessModel = _TURBO
    tries: int = 2

    def __post_init__(self) -> None:
        set_int(self, "tries", 1, 1000)  # each draws its gains
        _check_single_try("Harq", self.model)

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


def _heading(what: str, headings: list[str], name: str, others: tuple[str, ...]) -> int:
    """The place of the column of this name, or of the first that is called otherwise."""
    if name in headings:
        return headings.index(name)
    plain = [re.sub("[^a-z0-9]", "", one.lower()) for one in headings]
    found = [plain.index(one) for one in (re.sub("[^a-z0-9]", "", name.lower()), *others) if one in plain]
    if not found:
        raise FedwaveError(
            f"{what} has no column {name!r}, but {short_repr(headings)}: give it headings like snr_db,error_rate, or "
            "name the error rates with column."
        )
    return found[0]


def _chance_to_exceed(level: float, snr: FloatArray, mean_snr: FloatArray, fading: Fading, tries: int) -> FloatArray:
    """P[snr + mean_snr * (sum of the gains of ``tries`` new tries) >= level]."""
    needed = (level - snr) / mean_snr
    return np.where(needed <= 0, 1.0, fading.sum_exceeds(tries, needed))


def _check_single_try(what: str, model: SuccessModel) -> None:
    if not isinstance(model, SuccessModel):
        raise FedwaveError(f"{what} model is {model!r}, must be a SuccessModel object, such as Turbo().")
    if isinstance(model, (Arq, Harq)):
        raise FedwaveError(f"{what} cannot repeat {type(model).__name__}: give it a model of a single try.")
