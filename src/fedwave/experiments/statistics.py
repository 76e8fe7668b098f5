"""Means over instances and how far to trust them.

Instances are independent, rounds of one instance are not: so a value is first averaged over the rounds of
an instance, and the spread over instances gives the interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from fedwave.types import Array, FloatArray


@dataclass(frozen=True)
class Estimate:
    """A mean over instances with the half-width of its confidence interval (NaN for one instance)."""

    mean: float
    half_width: float
    standard_error: float


def estimate(values: Array, level: float = 0.95) -> Estimate:
    """Student t interval of the mean of independent values, ``[I]``.

    >>> estimate(np.array([1.0, 2.0, 3.0]))
    Estimate(mean=2.0, half_width=2.4841377..., standard_error=0.5773502...)
    """
    mean, half = band(np.asarray(values, dtype=np.float64)[None, :], level)
    error = half[0] / t_quantile(len(values), level) if len(values) > 1 else np.nan
    return Estimate(float(mean[0]), float(half[0]), float(error))


def band(values: Array, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Mean and half-width over the last axis (instances): ``[T, I]`` to ``[T]`` and ``[T]``."""
    values = np.asarray(values, dtype=np.float64)
    count = values.shape[-1]
    mean: FloatArray = values.mean(axis=-1)
    if count < 2:
        return mean, np.full(mean.shape, np.nan)
    error = values.std(axis=-1, ddof=1) / np.sqrt(count)
    return mean, t_quantile(count, level) * error


def t_quantile(count: int, level: float) -> float:
    """How many standard errors an interval of this level reaches to each side."""
    return float(special.stdtrit(count - 1, 0.5 + level / 2))


def paired_difference(values: Array, base: Array, level: float = 0.95) -> Estimate:
    """values - base instance by instance: on common worlds most of the luck cancels."""
    return estimate(np.asarray(values) - np.asarray(base), level)


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


def jain(values: Array) -> FloatArray:
    """Jain's index over the last axis, (sum x)^2 / (U sum x^2): 1 if all are equal, 1/U if one has all.

    >>> jain(np.array([[1, 1, 1, 1], [4, 0, 0, 0]])).tolist()
    [1.0, 0.25]
    """
    x = np.asarray(values, dtype=np.float64)
    squares = x.shape[-1] * (x**2).sum(axis=-1)
    out: FloatArray = np.where(
        squares > 0, x.sum(axis=-1) ** 2 / np.where(squares > 0, squares, 1), 1
    )
    return out
