"""The contract of a partition: class shares that follow from (seed, instance, device) alone."""

from __future__ import annotations

import numpy as np

from fedwave.checks.common import Check, equality, kept_in_files, same, unchanged
from fedwave.errors import FedwaveError
from fedwave.learning.sampling import Sampler
from fedwave.network.partition import Partition
from fedwave.types import FloatArray

_CLASSES = 10
_ASKED = [(seed, i, u) for seed in (0, 1) for i in range(3) for u in (0, 1, 7)]


def _all_shares(partition: Partition) -> dict[tuple[int, int, int], FloatArray | None]:
    return {key: partition.class_shares(*key, _CLASSES) for key in _ASKED}


def _shares(partition: Partition) -> None:
    for classes in (_CLASSES, 23):
        for key in _ASKED:
            shares = partition.class_shares(*key, classes)
            if shares is None:
                continue
            if np.shape(shares) != (classes,):
                raise FedwaveError(
                    f"class_shares has shape {np.shape(shares)} for {classes} classes, must be one per class, or None."
                )
            total = np.sum(shares)
            if not (np.min(shares) >= 0 and abs(total - 1) < 1e-9):
                raise FedwaveError(
                    f"class shares are {np.min(shares):.4g} or more and add up to {total:.9g}, must be >= 0 and add up "
                    "to 1: divide them by their sum."
                )


def _repetition(partition: Partition) -> None:
    """Called again, and in another order."""
    first = _all_shares(partition)
    again = {key: partition.class_shares(*key, _CLASSES) for key in reversed(_ASKED)}
    for key in _ASKED:
        if not same(first[key], again[key]):
            raise FedwaveError(
                "called again in another order, it returns different shares for the same device: draw from "
                'stream(seed, "skew", instance, device), and from nothing else.'
            )


def _sampling(partition: Partition) -> None:
    """The shards of a device hold only classes that it has."""
    labels = np.tile(np.arange(_CLASSES), 20)
    sampler = Sampler(labels, partition, shard_size=5)
    for seed, instance, device in _ASKED:
        chosen = sampler.shards(seed, instance, 1, device, 4)
        shares = partition.class_shares(seed, instance, device, _CLASSES)
        held = range(_CLASSES) if shares is None else np.flatnonzero(shares)
        if len(chosen) != 20 or not np.isin(labels[chosen], held).all():
            raise FedwaveError("shards hold samples of a class whose share is 0.")


def _parameters(partition: Partition) -> None:
    with unchanged(partition, "shares may depend on the arguments and the parameters only"):
        _all_shares(partition)


CHECKS: dict[str, Check] = {
    "equality": equality,
    "shares": _shares,
    "repetition": _repetition,
    "sampling": _sampling,
    "parameters": _parameters,
    "saving": kept_in_files,
}
