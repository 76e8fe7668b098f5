"""Indices averaged over what is believed of a hidden backlog: all that arrived since the last upload."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fedwave.planning.arrival_steps import ArrivalChances, reach
from fedwave.planning.grids import cell_of
from fedwave.planning.index_tables import LOADS, RATES, TINY, Tables, scale_of, tables
from fedwave.planning.outlook import Outlook
from fedwave.types import FloatArray, IntArray

_LONG = 32  # rounds after which the sum of arrivals is taken at its mean


@lru_cache(maxsize=8)
def averaged_tables(view: Outlook) -> Tables:
    """Tables whose last axis is d - 1 instead of n / k: E[C(n)] under that belief."""
    seen = tables(view)
    theta = np.maximum(RATES.points, TINY)
    belief = np.stack([_belief(view.chances, rate) for rate in theta])
    worth = np.einsum("txy,rtqy->rtqx", belief, np.exp(seen.worth), optimize=True)
    # In plain order: reading a table must not have to copy it.
    return Tables(seen.row, np.ascontiguousarray(np.log(worth)), seen.service)


def _belief(chances: ArrivalChances, theta: float) -> FloatArray:
    """Weights of the backlogs k * LOADS after as many rounds as LOADS says, ``[rounds, loads]``."""
    rounds, part = cell_of(LOADS.points, 1 << 30)
    wanted = np.unique(np.concatenate([rounds, rounds + 1]))
    short = wanted[wanted <= _LONG]
    sums = _sums(chances, theta, short)
    scale = scale_of(np.array(theta))
    backlogs = _weights(np.arange(sums.shape[1]) / scale, sums)
    means = wanted[short.size :] * theta / scale
    later = np.concatenate([_weights(mean[None], np.ones((1, 1))) for mean in means])
    weights = np.concatenate([backlogs, later])
    low = weights[np.searchsorted(wanted, rounds)]
    high = weights[np.searchsorted(wanted, rounds + 1)]
    out: FloatArray = low + part[:, None] * (high - low)
    return out


def _sums(chances: ArrivalChances, theta: float, rounds: IntArray) -> FloatArray:
    """Chances of each sum of arrivals over so many rounds, ``[rounds, sums]``."""
    largest = reach(chances, np.array([theta]), 1e-6)[0]
    size = 1 << int(np.ceil(np.log2(theta * _LONG + 8 * largest + 64)))
    single = np.zeros(size)
    single[: largest + 1] = chances(np.array([theta]), int(largest))[0]
    waves = np.fft.rfft(single / single.sum())
    sums = np.clip(np.fft.irfft(waves ** rounds[:, None], size, axis=1), 0.0, None)
    out: FloatArray = sums / sums.sum(axis=1, keepdims=True)
    return out


def _weights(load: FloatArray, chance: FloatArray) -> FloatArray:
    """Share backlogs / k (rising) between the points of LOADS beside them: from [X, backlogs] to [X, loads]."""
    points = LOADS.points
    load = np.minimum(load, points[-1])
    cell = np.minimum(np.searchsorted(points, load, side="right") - 1, points.size - 2)
    upper = (load - points[cell]) / (points[cell + 1] - points[cell])
    cells, first = np.unique(cell, return_index=True)
    out = np.zeros((chance.shape[0], points.size))
    out[:, cells] += np.add.reduceat(chance * (1 - upper), first, axis=1)
    out[:, cells + 1] += np.add.reduceat(chance * upper, first, axis=1)
    return out
