"""Which samples a device gets, and of which classes.

They are drawn by (seed, instance, round, device), never by the order of calls (draws.py). So a device has the same
data with every scheduler, with every trainer and after a run was resumed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fedwave.errors import FedwaveError, is_number, shown, whole
from fedwave.learning.draws import Places, numbers, shuffled, uniform
from fedwave.parts import registry
from fedwave.rng import stream
from fedwave.types import FloatArray, IntArray, checked


class Partition(ABC):
    """How the classes are spread over the devices."""

    family: ClassVar[str] = "partition"
    name: ClassVar[str]

    @abstractmethod
    def class_shares(self, seed: int, instance: int, device: int, classes: int) -> FloatArray | None:
        """The probability of each class at a device, ``[classes]``; None: samples from the whole training set."""


@dataclass(frozen=True)
class Iid(Partition):
    """Every device draws from the whole training set."""

    name = "iid"

    def class_shares(self, seed: int, instance: int, device: int, classes: int) -> FloatArray | None:
        return None


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Label skew: the class shares of each device are Dirichlet(alpha); with a small alpha it has few classes."""

    name = "dirichlet"

    alpha: float = 0.2

    def __post_init__(self) -> None:
        if not (is_number(self.alpha) and 0 < self.alpha <= 1e9):
            raise FedwaveError(f"Dirichlet alpha is {self.alpha}, must be a number > 0 and at most 1e9.")

    def class_shares(self, seed: int, instance: int, device: int, classes: int) -> FloatArray | None:
        return stream(seed, "skew", instance, device).dirichlet(np.full(classes, self.alpha))


@dataclass(frozen=True)
class ByClass(Partition):
    """Each device holds ``held`` classes, equally often."""

    name = "by-class"

    held: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "held", whole("ByClass held", self.held, 1))

    def class_shares(self, seed: int, instance: int, device: int, classes: int) -> FloatArray | None:
        if self.held > classes:
            raise FedwaveError(f"ByClass held is {self.held}, but there are only {classes} classes.")
        shares = np.zeros(classes)
        shares[stream(seed, "skew", instance, device).permutation(classes)[: self.held]] = 1 / self.held
        return shares


@dataclass(frozen=True, eq=False)
class Labels:
    """The classes of the samples that arrive at the devices, known before any training.

    They are a part of the world: drawn by (seed, instance, round, device), the same for every scheduler, and the
    samples that devices train on follow them. ``training`` has the class of every training sample, for partitions by
    which a device draws from the whole training set; without it, such a device draws all classes equally often.

    >>> Labels("by-class:held=1", classes=3, shard_size=5).counts(0, [0], 1, np.array([[2, 0]])).tolist()
    [[[10, 0, 0], [0, 0, 0]]]
    """

    partition: Partition | str | Mapping[str, Any]  # kept as a Partition
    classes: int = 10
    shard_size: int = 10
    training: IntArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "partition", registry.build("partition", self.partition))
        for name in ("classes", "shard_size"):
            value = whole(f"Labels {name}", getattr(self, name), 1)
            object.__setattr__(self, name, value)
        if self.training is None:
            return
        training = np.asarray(self.training)
        fine = training.ndim == 1 and training.size and training.dtype.kind in "iu"
        if not (fine and training.min() >= 0 and training.max() < self.classes):
            raise FedwaveError(
                f"Labels training must be the classes of the training samples, whole numbers from 0 to "
                f"{self.classes - 1}."
            )
        object.__setattr__(self, "training", training)

    def counts(self, seed: int, instances: Sequence[int], round_: int, shards: IntArray) -> IntArray:
        """Samples of each class among the first ``shards`` (``[I, U]``) that arrive in a round, ``[I, U, C]``."""
        row, device = np.nonzero(shards)
        numbers_of = [int(instances[i]) for i in row.tolist()]
        places = Places([seed] * row.size, numbers_of, np.full(row.size, round_), device)
        sizes = shards[row, device] * self.shard_size
        chance = chances(places, sizes)
        classes = self.drawn(places, sizes, chance)
        if (classes < 0).any():
            if self.training is None:
                of_all = (chance[:, 1] * self.classes).astype(np.int64)
            else:
                of_all = self.training[(chance[:, 1] * len(self.training)).astype(np.int64)]
            classes = np.where(classes < 0, of_all, classes)
        cell = np.repeat(row * shards.shape[1] + device, sizes) * self.classes + classes
        found = np.bincount(cell, minlength=shards.size * self.classes)
        return found.reshape(*shards.shape, self.classes)

    @property
    def same_everywhere(self) -> bool:
        """Do all devices draw from the whole training set?"""
        return isinstance(self._rule, Iid)

    @property
    def overall(self) -> FloatArray:
        """The share of each class in the whole training set, ``[C]``."""
        if self.training is None:
            return np.full(self.classes, 1 / self.classes)
        counts: FloatArray = np.bincount(self.training, minlength=self.classes) / len(self.training)
        return counts

    def shares(self, seed: int, instances: Sequence[int], devices: int) -> FloatArray:
        """The share of each class that is to be expected at every device, ``[I, U, C]``."""
        found = np.empty((len(instances), devices, self.classes))
        for i, instance in enumerate(instances):
            for u in range(devices):
                own = self._checked(seed, int(instance), u)
                found[i, u] = self.overall if own is None else own
        return found

    def drawn(self, places: Places, sizes: IntArray, chance: FloatArray) -> IntArray:
        """The class of every sample; -1 where a device draws from the whole training set."""
        if self.same_everywhere:
            return np.full(len(chance), -1)
        up_to = self._cumulated_shares(places)
        known = ~np.isnan(up_to[:, 0])
        owner = np.repeat(np.arange(len(sizes)), sizes)
        classes = (chance[:, :1] >= up_to[owner]).sum(axis=1)
        return np.where(known[owner], classes, -1)

    def _cumulated_shares(self, places: Places) -> FloatArray:
        """For every place the shares of the classes, summed up to each; NaN where it has none."""
        up_to, summed_of = np.full((len(places.devices), self.classes), np.nan), self._shares
        whose = zip(places.seeds, places.instances, places.devices.tolist(), strict=True)
        for row, where in enumerate(whose):
            if where not in summed_of:
                summed_of[where] = self._summed(*where)
            summed = summed_of[where]
            if summed is not None:
                up_to[row] = summed
        return up_to

    @property
    def _rule(self) -> Partition:
        assert isinstance(self.partition, Partition)
        return self.partition

    @cached_property
    def _shares(self) -> dict[tuple[int, int, int], FloatArray | None]:
        return {}

    def _checked(self, seed: int, instance: int, device: int) -> FloatArray | None:
        """The shares of a device, as its partition gives them."""
        given = self._rule.class_shares(seed, instance, device, self.classes)
        if given is None:
            return None
        shares: FloatArray = checked(self._rule, "class shares", given, (self.classes,))
        if abs(shares.sum() - 1) > 1e-6:
            raise FedwaveError(
                f"the class shares of partition {self._rule.name!r} are {shown(shares.tolist())}, must sum to 1."
            )
        return shares

    def _summed(self, seed: int, instance: int, device: int) -> FloatArray | None:
        shares = self._checked(seed, instance, device)
        if shares is None:
            return None
        summed: FloatArray = np.cumsum(shares)
        summed /= summed[-1]  # exactly 1 at last, whatever the rounding
        return summed


def chances(places: Places, sizes: IntArray) -> FloatArray:
    """Two uniform numbers for each sample: its class, and which of the class."""
    return uniform(numbers(places.keys("shards"), 2 * sizes)).reshape(-1, 2)


class Sampler:
    """Draws the samples of devices, and the order in which they are trained on."""

    def __init__(self, labels: IntArray, partition: Partition, shard_size: int) -> None:
        self._size = len(labels)
        self._labels = Labels(partition, int(labels.max()) + 1, shard_size)
        self._skewed = not isinstance(partition, Iid)
        self._by_class = np.argsort(labels, kind="stable")
        self._members = np.bincount(labels, minlength=self._labels.classes)
        self._first = np.cumsum(self._members) - self._members  # of each class in by_class
        if self._skewed and not self._members.all():
            raise FedwaveError("a skewed partition needs training samples of every class up to the largest label.")

    def shards(self, seed: int, instance: int, round_: int, device: int, count: int) -> IntArray:
        """Indices of the samples that arrive at a device in a round, with replacement."""
        return self.arriving(Places.of(seed, instance, round_, device), np.array([count]))

    def arriving(self, places: Places, counts: IntArray) -> IntArray:
        """The same for many devices, one after the other; ``counts`` are their shards, ``[N]``."""
        sizes = counts * self._labels.shard_size
        chance = chances(places, sizes)
        of_all = (chance[:, 1] * self._size).astype(np.int64)
        if not self._skewed:
            return of_all
        classes = self._labels.drawn(places, sizes, chance)
        which = (chance[:, 1] * self._members[classes]).astype(np.int64)
        of_class = self._by_class[self._first[classes] + which]
        return np.where(classes >= 0, of_class, of_all)


@dataclass(frozen=True)
class Batches:
    """The samples of every step of many devices' local training."""

    samples: IntArray  # [N, S, batch]; -1 where a batch is short or a device has finished
    sizes: IntArray  # [N, S]: how many samples there are

    @property
    def steps(self) -> IntArray:
        """The number of steps of each device, ``[N]``."""
        steps: IntArray = np.count_nonzero(self.sizes, axis=1)
        return steps


def cut_into_batches(samples: IntArray, counts: IntArray, places: Places, batch: int, epochs: int) -> Batches:
    """Every epoch's batches: reshuffled, the last one short, dropped if it holds a single sample.

    ``samples`` are those of all devices, one device after the other, ``counts`` of each.
    """
    # Batch norm cannot normalise one sample.
    each = -(-counts // batch) - (counts % batch == 1)  # batches of an epoch
    longest = int(each.max(initial=0))
    cut = np.full((len(counts), epochs * longest, batch), -1)
    keys, first = places.keys("order"), np.cumsum(counts) - counts
    for count in np.unique(counts[each > 0]).tolist():
        rows = np.flatnonzero(counts == count)
        order = shuffled(keys[rows], epochs, count)
        mine = samples[first[rows, None, None] + order]
        full = -(-count // batch) * batch
        padded = np.full((len(rows), epochs, full), -1)
        padded[:, :, :count] = mine
        steps = padded.reshape(len(rows), epochs, -1, batch)[:, :, : int(each[rows[0]])]
        cut[rows, : epochs * steps.shape[2]] = steps.reshape(len(rows), -1, batch)
    return Batches(cut, np.count_nonzero(cut >= 0, axis=2))


def batches(
    samples: IntArray, batch: int, epochs: int, seed: int, instance: int, round_: int, device: int
) -> list[IntArray]:
    """The batches of one device, in the order of its steps."""
    place = Places.of(seed, instance, round_, device)
    cut = cut_into_batches(samples, np.array([len(samples)]), place, batch, epochs)
    return [row[:size] for row, size in zip(cut.samples[0], cut.sizes[0], strict=True)]
