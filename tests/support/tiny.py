"""Small things to learn, and traces written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

import fedwave as fw
from fedwave.learning.datasets.dataset import Dataset
from fedwave.trace import Setup
from fedwave.types import NetworkState


def blobs(shape: tuple[int, int, int] = (1, 2, 3), classes: int = 3, train: int = 120, test: int = 60) -> Dataset:
    """Images scattered around one mean per class."""
    rng = np.random.default_rng(1)
    means = rng.normal(size=(classes, *shape))
    arrays: list[Any] = []
    for size in (train, test):
        labels = np.arange(size) % classes
        arrays += [means[labels] + rng.normal(size=(size, *shape)), labels]
    return Dataset("blobs", *arrays)


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 3))


def with_batch_norm() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))


def trace(
    arrivals: Any,
    delivered: Any,
    *,
    scheduled: Any = None,
    heard: Any = None,
    lost: Any = None,
    instances: list[int] | None = None,
    seed: int = 0,
) -> fw.Trace:
    """A trace in which exactly this happened; ``[T, U]`` for one instance, or ``[T, I, U]``."""

    def whole(array: Any, kind: type, default: Any) -> Any:
        array = np.asarray(default if array is None else array, dtype=kind)
        return array[:, None, :] if array.ndim == 2 else array

    m, came = whole(arrivals, np.int64, None), whole(delivered, np.bool_, None)
    gone = whole(lost, np.int64, np.zeros_like(m))
    waiting, delay = np.zeros_like(m), np.ones_like(m)
    for t in range(1, len(m)):
        held = waiting[t - 1] + m[t - 1] - gone[t - 1]
        waiting[t] = np.where(came[t - 1], 0, held)
        delay[t] = np.where(came[t - 1], 1, delay[t - 1] + 1)
    learned = np.cumsum(np.where(came, waiting + m - gone, 0), axis=0)
    devices = {
        "arrivals": m,
        "delivered": came,
        "lost": gone,
        "waiting": waiting,
        "delay": delay,
        "learned": learned,
        "scheduled": whole(scheduled, np.bool_, came),
        "heard": whole(heard, np.bool_, np.ones_like(came)),
    }
    rounds, many, size = m.shape
    return fw.Trace(
        series={"score": np.zeros((rounds, many))},
        devices=devices,
        setup=Setup(None, None, "by hand", instances or range(many), seed),
        metrics={},
        device_names=(),
        beliefs={},
        final=NetworkState.initial(many, size),
        accumulated={},
        state={},
        memories={},
    )
