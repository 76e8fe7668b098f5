"""From chances to the matrices and states of small_network.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.types import FloatArray, IntArray, Planning

_FINE = 120  # equally likely gains that stand for all: as many as divide by 2, 3, 4, 5, 6 and 8


def arrival_moves(chances: FloatArray, points: int, step: float) -> FloatArray:
    """From a backlog to that after arrivals, ``[points, points]``, states being ``step`` shards apart.

    ``chances`` are those of 0, 1, ... shards, as many as reach the last state; all further ones end there.
    What falls between two states is shared so that the mean is kept.
    """
    place = np.arange(chances.size) / step
    low = place.astype(np.int64)
    share = place - low
    jump = np.bincount(low, chances * (1 - share), minlength=points + 1)
    jump = jump + np.bincount(low + 1, chances * share, minlength=jump.size + 1)[: jump.size]
    start, end = np.indices((points, points))
    moves: FloatArray = np.where(end >= start, jump[np.maximum(end - start, 0)], 0.0)
    moves[:, -1] = 0.0
    moves[:, -1] = np.maximum(1 - moves.sum(axis=1), 0.0)
    return moves


def enough(rates: FloatArray, mean_p: FloatArray, slots: int, rare: float) -> IntArray:
    """A backlog that a well served device exceeds about with chance ``rare``, for rates ``[..., U]``.

    The optimum delivers backlogs near sqrt(theta_u) * sum of sqrt(theta) / (W p), or theta_u / p where that is more.
    Uploads that fail in a row let it grow by theta each time.
    """
    root, p = np.sqrt(rates), np.clip(mean_p, 1e-9, 1.0)
    usual = np.maximum(root * root.sum(axis=-1, keepdims=True) / slots, rates) / p
    with np.errstate(divide="ignore"):
        failures = np.log(rare) / np.log1p(-p)
    usual = usual + rates * failures
    most = np.ceil(usual + np.sqrt(-2 * np.log(rare) * usual)) + 2
    return np.where(rates > 0, most, 0).astype(np.int64)


def grouped_levels(levels: FloatArray, count: int) -> FloatArray:
    """At most ``count`` different p, near the given equally likely ones and of the same mean; as many as given.

    Neighbours that differ least are joined first: p is nearly a step in the gain, so few levels tell nearly all.
    """
    values, sizes = np.unique(levels, return_counts=True)
    weights = sizes.astype(np.float64)
    while values.size > count:
        loss = weights[1:] * weights[:-1] / (weights[1:] + weights[:-1]) * np.diff(values) ** 2
        k = int(np.argmin(loss))
        both = weights[k] + weights[k + 1]
        values[k] = (weights[k] * values[k] + weights[k + 1] * values[k + 1]) / both
        weights[k] = both
        values, weights = np.delete(values, k + 1), np.delete(weights, k + 1)
    return np.repeat(values, weights.astype(np.int64))


def distinct_levels(levels: FloatArray) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Of each device (``levels`` is ``[U, K]``) the different p, and how likely each is."""
    pairs = (np.unique(row, return_counts=True) for row in levels)
    return tuple((p, count / levels.shape[1]) for p, count in pairs)


def backlogs(points: Sequence[int], steps: FloatArray) -> FloatArray:
    """The shards waiting in every state, ``[B, N_1 + 1, ...]``; ``steps`` is ``[B, U]``."""
    total = np.zeros((steps.shape[0], *points))
    for u, size in enumerate(points):
        shape = [1] * len(points)
        shape[u] = size
        total = total + (steps[:, u, None] * np.arange(size)).reshape(-1, *shape)
    return total


def channel_levels(planning: Planning, count: int, name: str) -> FloatArray:
    """Equally likely p of every device, ``[U, K]``, at most ``count`` of them different."""
    return np.stack([grouped_levels(row, count) for row in fine_levels(planning, name)])


def fine_levels(planning: Planning, name: str) -> FloatArray:
    """p of every device at gains that stand for all, ``[U, K]``."""
    if not planning.independent:
        raise FedwaveError(
            f"{name} needs channels that are new in every round: use a fading without memory, such as Rayleigh."
        )
    return planning.success_levels(planning.mean_snr, _FINE)
