"""Tests of distributions with fixed seeds, whose chance of a false alarm is about 1e-9."""

from __future__ import annotations

import numpy as np

from fedwave.types import Array, FloatArray

DRAWS = 4000  # instances drawn for a test: differences of about 0.05 in a distribution function show
_FALSE_ALARM = 1e-9
_SIGMAS = 7.0  # of a normal distribution: 2.6e-12


def error_limit(size: int, other: float = np.inf) -> float:
    """Largest distance of two empirical distribution functions (Dvoretzky, Kiefer, Wolfowitz and Massart)."""
    return float(np.sqrt(np.log(2 / _FALSE_ALARM) / 2 * (1 / size + 1 / other)))


def distance(sample: Array, other: Array) -> float:
    """Largest difference of the distribution functions of two samples (Kolmogorov, Smirnov)."""
    points = np.concatenate([sample, other])
    below = [np.searchsorted(np.sort(x), points, side="right") / x.size for x in (sample, other)]
    return float(np.abs(below[0] - below[1]).max())


def misses(sample: Array, value: float, share: float) -> float:
    """How far a value is from being the quantile ``share`` of a sample: 0 if P[x < value] <= share <= P[x <= value]."""
    below, up_to = float(np.mean(sample < value)), float(np.mean(sample <= value))
    return max(below - share, share - up_to, 0.0)


def rank_correlation(path: FloatArray, lag: int) -> float:
    """Correlation of the ranks of values ``lag`` rows apart, in units of its standard deviation; path is ``[rows, n]``.

    Ranks are taken within a row, so that rows may have different distributions; ties are broken at random.
    """
    rows, size = path.shape
    jitter = np.random.default_rng(0).random(path.shape)
    ranks = np.empty(path.shape)
    for row in range(rows):
        ranks[row, np.lexsort((jitter[row], path[row]))] = np.arange(size)
    ranks = (ranks - ranks.mean()) / ranks.std()
    return float(np.mean(ranks[lag:] * ranks[:-lag]) * np.sqrt(ranks[lag:].size))


def correlated(path: FloatArray, lag: int) -> bool:
    """Do values ``lag`` rows apart depend on each other?"""
    return abs(rank_correlation(path, lag)) > _SIGMAS
