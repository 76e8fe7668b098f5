"""Means over instances and how far to trust them.

Instances are independent, rounds of one instance are not: so a value is first averaged over the rounds of
an instance, and the spread over instances gives the interval.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError, is_number
from fedwave.metrics import over_rounds
from fedwave.types import Array, FloatArray

if TYPE_CHECKING:
    import xarray as xr

_MOST_SPREADS = 1e6  # a mean known to a millionth of the spread takes over 10^12 instances


@dataclass(frozen=True)
class Estimate:
    """A mean over instances with the half-width of its confidence interval (NaN for one instance)."""

    mean: float
    half_width: float
    standard_error: float
    instances: int = 0  # that it is the mean of; 0: it is exact


def per_instance(data: xr.Dataset, metric: str, burn_in: int = 0) -> FloatArray:
    """One number per scheduler and instance, ``[scheduler, instance]``, by the metric's ``over_rounds``.

    ``burn_in`` leaves the first rounds out of a "mean"; "last", "max" and "sum" count the whole run.
    """
    values = _by_round(data, metric, burn_in)
    how = data[metric].attrs.get("over_rounds", "mean")
    return np.asarray(over_rounds(how, values[burn_in:] if how == "mean" else values))


def over_rounds_quantile(data: xr.Dataset, metric: str, quantile: float, burn_in: int = 0) -> FloatArray:
    """The quantile over the rounds after the burn-in, ``[scheduler, instance]``, interpolated linearly."""
    return np.asarray(np.quantile(_by_round(data, metric, burn_in)[burn_in:], quantile, axis=0))


def _by_round(data: xr.Dataset, metric: str, burn_in: int) -> FloatArray:
    array = data[metric].transpose("round", "scheduler", "instance")
    rounds = array.sizes["round"]
    if not 0 <= burn_in < rounds:
        raise FedwaveError(f"burn_in is {burn_in}, must lie between 0 and the {rounds} rounds of the run less one.")
    # In this order in memory: numpy's sums depend on it in the last digits.
    return np.ascontiguousarray(array.values, dtype=np.float64)


def warm_up_rounds(values: Array) -> int | None:
    """The first rounds that are best left out of the mean of a series, ``[T]``; None if it has not settled by T / 2.

    Leaving out d rounds gives the mean of the others the standard error sd / sqrt(T - d), as if rounds were
    independent; the answer is the d with the smallest one (the marginal standard error rule, White 1997).
    """
    count = len(values)
    if count < 4:
        return 0
    backwards = np.asarray(values, dtype=np.float64)[::-1] - np.mean(values)
    left = np.arange(1, count + 1)
    squares = np.cumsum(backwards**2) - np.cumsum(backwards) ** 2 / left
    errors = (squares / left**2)[::-1][: count // 2 + 1]  # by the number of rounds left out
    best = int(np.argmin(errors))
    return best if best < count // 2 else None


def estimate(values: Array, level: float = 0.95) -> Estimate:
    """Student t interval of the mean of independent values, ``[I]``.

    >>> import fedwave as fw
    >>> fw.statistics.estimate([1.0, 2.0, 3.0])
    Estimate(mean=2.0, half_width=2.4841377..., standard_error=0.5773502..., instances=3)
    """
    mean, half = band(np.asarray(values, dtype=np.float64)[None, :], level)
    error = half[0] / t_quantile(len(values), level) if len(values) > 1 else np.nan
    return Estimate(float(mean[0]), float(half[0]), float(error), len(values))


def band(values: Array, level: float = 0.95, *, skip_nan: bool = False) -> tuple[FloatArray, FloatArray]:
    """Mean and half-width over the last axis (instances): ``[T, I]`` to ``[T]`` and ``[T]``.

    A NaN makes its mean NaN, so that nothing goes missing unseen; ``skip_nan`` leaves it out instead, as
    curves do with the instances that diverged.
    """
    values = np.asarray(values, dtype=np.float64)
    there = ~np.isnan(values) if skip_nan else np.ones(values.shape, dtype=np.bool_)
    count = there.sum(axis=-1)
    some, several = np.maximum(count, 1), np.maximum(count, 2)
    total = np.where(there, values, 0).sum(axis=-1)
    mean: FloatArray = np.where(count > 0, total / some, np.nan)
    # A loss about to diverge: the interval is infinite. An infinite value: there is none.
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.where(there, (values - mean[..., None]) ** 2, 0).sum(axis=-1)
    error = np.sqrt(squares / (several - 1)) / np.sqrt(some)
    reach = np.where(count > 1, t_quantile(several, level), np.nan)
    return mean, reach * error


def t_quantile(count: Any, level: float) -> Any:
    """How many standard errors an interval of this level reaches to each side, by the number of values or an array."""
    from scipy import special  # slow to import, and needed only when a run has ended

    return special.stdtrit(count - 1, 0.5 + level / 2)


def paired_difference(values: Array, base: Array, level: float = 0.95) -> Estimate:
    """values - base instance by instance: on common worlds most of the luck cancels."""
    return estimate(np.asarray(values) - np.asarray(base), level)


def instances_needed(values: Array, half_width: float, level: float = 0.95) -> int:
    """How many instances give the mean an interval of this half-width, if a pilot run shows their spread.

    The spread of a small pilot is itself uncertain: take the answer as a plan, not as a promise.

    >>> import fedwave as fw
    >>> fw.statistics.instances_needed([1.0, 2.0, 3.0], half_width=0.5)
    18
    """
    pilot = np.asarray(values, dtype=np.float64)
    if pilot.ndim != 1:
        raise FedwaveError(f"a pilot has the shape {pilot.shape}, must hold one value per instance.")
    bad = int(np.count_nonzero(~np.isfinite(pilot)))
    if bad:
        raise FedwaveError(f"a pilot is not finite in {bad} of {pilot.size} instances: leave those out, and say so.")
    if not is_number(level) or not 0 < level < 1:
        raise FedwaveError(f"level is {level!r}, must lie between 0 and 1, such as 0.95.")
    if pilot.size < 2:
        raise FedwaveError(f"a pilot of {pilot.size} shows no spread: run at least 2 instances.")
    if not is_number(half_width) or half_width <= 0:
        raise FedwaveError(f"half_width is {half_width!r}, must be a number above 0.")
    spread = float(pilot.std(ddof=1))
    if spread > half_width * _MOST_SPREADS:
        raise FedwaveError(
            f"a half_width of {half_width:g} is out of reach with a spread of {spread:g}: ask for a wider one."
        )

    # The quantile depends on the number that is sought, but the width only falls.
    def enough(count: int) -> bool:
        return bool(t_quantile(count, level) * spread <= half_width * math.sqrt(count))

    counts = range(2, 1 << 60)
    return counts[bisect_left(counts, True, key=enough)]


Band = tuple[FloatArray, FloatArray]  # mean and half-width of its 95 % interval


def running_mean(values: Array) -> FloatArray:
    """Mean of rounds 1 to t for every t, ``[T, I]``."""
    rounds = np.arange(1, values.shape[0] + 1).reshape(-1, *([1] * (values.ndim - 1)))
    out: FloatArray = np.cumsum(values, axis=0) / rounds
    return out


def moving_mean(values: Array, window: int) -> FloatArray:
    """Mean of the last ``window`` rounds, ``[T, I]`` to ``[T - window + 1, I]``."""
    total = np.cumsum(values, axis=0, dtype=np.float64)
    total[window:] -= total[:-window].copy()
    out: FloatArray = total[window - 1 :] / window
    return out
