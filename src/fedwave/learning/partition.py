"""Which samples a device gets: drawn by (seed, instance, round, device), never by the order of calls.

So a device has the same data with every scheduler, with every trainer and after a run was resumed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedwave.errors import FedwaveError, is_number, whole
from fedwave.rng import stream
from fedwave.types import FloatArray, IntArray


class Partition(ABC):
    """How the classes are spread over the devices."""

    family: ClassVar[str] = "partition"
    name: ClassVar[str]

    @abstractmethod
    def class_shares(
        self, seed: int, instance: int, device: int, classes: int
    ) -> FloatArray | None:
        """The probability of each class at a device, ``[classes]``; None: samples from the whole training set."""


@dataclass(frozen=True)
class Iid(Partition):
    """Every device draws from the whole training set."""

    name = "iid"

    def class_shares(
        self, seed: int, instance: int, device: int, classes: int
    ) -> FloatArray | None:
        return None


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Label skew: the class shares of each device are Dirichlet(alpha); with a small alpha it has few classes."""

    name = "dirichlet"

    alpha: float = 0.2

    def __post_init__(self) -> None:
        if not (is_number(self.alpha) and 0 < self.alpha <= 1e9):
            raise FedwaveError(
                f"Dirichlet alpha is {self.alpha}, must be a number > 0 and at most 1e9."
            )

    def class_shares(
        self, seed: int, instance: int, device: int, classes: int
    ) -> FloatArray | None:
        return stream(seed, "skew", instance, device).dirichlet(np.full(classes, self.alpha))


@dataclass(frozen=True)
class ByClass(Partition):
    """Each device holds ``held`` classes, equally often."""

    name = "by-class"

    held: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "held", whole("ByClass held", self.held, 1))

    def class_shares(
        self, seed: int, instance: int, device: int, classes: int
    ) -> FloatArray | None:
        if self.held > classes:
            raise FedwaveError(
                f"ByClass held is {self.held}, but there are only {classes} classes."
            )
        shares = np.zeros(classes)
        shares[stream(seed, "skew", instance, device).permutation(classes)[: self.held]] = (
            1 / self.held
        )
        return shares


class Sampler:
    """Draws a device's shards and cuts them into batches."""

    def __init__(self, labels: IntArray, partition: Partition, shard_size: int) -> None:
        self._size, self._partition, self._shard_size = len(labels), partition, shard_size
        self._classes = int(labels.max()) + 1
        self._members = [np.flatnonzero(labels == c) for c in range(self._classes)]
        if not isinstance(partition, Iid) and not all(len(m) for m in self._members):
            raise FedwaveError(
                "a skewed partition needs training samples of every class up to the largest label."
            )

    def shards(self, seed: int, instance: int, round_: int, device: int, count: int) -> IntArray:
        """Indices of the samples that arrive at a device in a round, with replacement."""
        rng = stream(seed, "shards", instance, round_, device)
        size = count * self._shard_size
        shares = self._partition.class_shares(seed, instance, device, self._classes)
        if shares is None:
            return rng.integers(0, self._size, size=size)
        classes = rng.choice(self._classes, size=size, p=shares)
        which = rng.random(size)
        return np.array(
            [
                self._members[c][int(x * len(self._members[c]))]
                for c, x in zip(classes, which, strict=True)
            ],
            dtype=np.int64,  # an empty list would become floats
        )


def batches(
    samples: IntArray, batch: int, epochs: int, seed: int, instance: int, round_: int, device: int
) -> list[IntArray]:
    """Every epoch's batches: reshuffled, the last one short, dropped if it holds a single sample."""
    rng = stream(seed, "order", instance, round_, device)
    out = []
    for _ in range(epochs):
        order = samples[rng.permutation(len(samples))]
        cut = [order[i : i + batch] for i in range(0, len(order), batch)]
        # Batch norm cannot normalise one sample.
        out += [piece for piece in cut if len(piece) > 1]
    return out
