"""The labels of the samples that arrive: a Partition gives each device its share of every class, Labels draws by it.

Labels are drawn by (seed, instance, round, device), never in the order of calls (counter_rng.py). So a device has the
same data with every scheduler, with every trainer and in a resumed run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fedwave.counter_rng import TrainingKeys, numbers, uniform
from fedwave.errors import FedwaveError, as_int, check_number, set_int, short_repr
from fedwave.parts import registry
from fedwave.rng import stream
from fedwave.types import FloatArray, IntArray, checked


class Partition(ABC):
    """Base class of partitions: the share of every class at each device.

    A partition of your own defines ``class_shares``. It may depend on its arguments only; random ones draw from
    ``fedwave.rng.stream(seed, "skew", instance, device)``.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Halves(fw.partition.Partition):
    ...     name = "halves"
    ...
    ...     def class_shares(self, seed, instance, device, classes):
    ...         own = np.arange(classes) % 2 == device % 2
    ...         return own / own.sum()
    >>> Halves().class_shares(0, 0, device=1, classes=4)
    array([0. , 0.5, 0. , 0.5])
    """

    family: ClassVar[str] = "partition"
    name: ClassVar[str]

    @abstractmethod
    def class_shares(self, seed: int, instance: int, device: int, classes: int) -> FloatArray | None:
        """The probability of each class at a device, ``[classes]``; None: it draws from the whole training set."""


@dataclass(frozen=True)
class Iid(Partition):
    """Independent and identically distributed: every device draws from the whole training set.

    >>> import fedwave as fw
    >>> print(fw.partition.Iid().class_shares(0, 0, device=3, classes=10))
    None
    """

    name = "iid"

    def class_shares(self, seed: int, instance: int, device: int, classes: int) -> FloatArray | None:
        return None


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Label skew: the class shares of each device are drawn from Dirichlet(alpha, ..., alpha).

    The smaller ``alpha`` (> 0), the fewer classes a device has.

    >>> import fedwave as fw
    >>> fw.partition.Dirichlet(alpha=0.1).class_shares(seed=0, instance=0, device=0, classes=4).round(2)
    array([0.  , 0.98, 0.  , 0.02])
    """

    name = "dirichlet"

    alpha: float = 0.2

    def __post_init__(self) -> None:
        check_number("Dirichlet alpha", self.alpha, "> 0", "<= 1e9")

    def class_shares(self, seed: int, instance: int, device: int, classes: int) -> FloatArray | None:
        return stream(seed, "skew", instance, device).dirichlet(np.full(classes, self.alpha))


@dataclass(frozen=True)
class ByClass(Partition):
    """Each device holds ``held`` classes, drawn at random, in equal shares.

    >>> import fedwave as fw
    >>> fw.partition.ByClass(held=2).class_shares(seed=0, instance=0, device=0, classes=4)
    array([0.5, 0. , 0. , 0.5])
    """

    name = "by-class"

    held: int = 2

    def __post_init__(self) -> None:
        set_int(self, "held", 1)

    def class_shares(self, seed: int, instance: int, device: int, classes: int) -> FloatArray | None:
        if self.held > classes:
            raise FedwaveError(f"ByClass held is {self.held}, but there are only {classes} classes: lower held.")
        shares = np.zeros(classes)
        shares[stream(seed, "skew", instance, device).permutation(classes)[: self.held]] = 1 / self.held
        return shares


@dataclass(frozen=True)
class ByOwner(Partition):
    """Each device holds the samples of one user of the dataset (``Dataset(..., owner=...)``), in their order.

    A device takes its next samples with every shard that finds room, and begins again after the last one. Owners have
    no class shares, so schedulers see no labels.

    >>> import fedwave as fw
    >>> print(fw.partition.ByOwner().class_shares(0, 0, device=3, classes=10))
    None
    """

    name = "owner"

    def class_shares(self, seed: int, instance: int, device: int, classes: int) -> FloatArray | None:
        return None


@dataclass(frozen=True, eq=False)
class Labels:
    """The classes of the samples that arrive at the devices. Training draws samples of these classes.

    Parameters:

    * ``partition``: an object, or a text such as "dirichlet:alpha=0.2"; kept as an object
    * ``classes``: the number of classes, C
    * ``shard_size``: samples in a shard
    * ``training``: the class of every training sample, for devices that draw from the whole training set; without it
      they draw all classes equally often

    Two shards arrive at the first device and none at the second:

    >>> import fedwave as fw
    >>> import numpy as np
    >>> fw.partition.Labels("by-class:held=1", classes=3, shard_size=5).counts(0, [0], 1, np.array([[2, 0]])).tolist()
    [[[10, 0, 0], [0, 0, 0]]]
    """

    partition: Partition | str | Mapping[str, Any]
    classes: int = 10
    shard_size: int = 10
    training: IntArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "partition", registry.build("partition", self.partition))
        if isinstance(self.partition, ByOwner):
            raise FedwaveError(
                "labels cannot be drawn by partition 'owner', which has no class shares: choose another."
            )
        for name in ("classes", "shard_size"):
            value = as_int(f"Labels {name}", getattr(self, name), 1)
            object.__setattr__(self, name, value)
        if self.training is None:
            return
        training = np.asarray(self.training)
        fine = training.ndim == 1 and training.size and training.dtype.kind in "iu"
        if not (fine and training.min() >= 0 and training.max() < self.classes):
            raise FedwaveError(
                f"Labels training is {short_repr(self.training)}, must be the class of every training sample, whole "
                f"numbers from 0 to {self.classes - 1}."
            )
        object.__setattr__(self, "training", training)

    def counts(self, seed: int, instances: Sequence[int], round_: int, shards: IntArray) -> IntArray:
        """Samples of each class among the first ``shards`` (``[I, U]``) that arrive in a round, ``[I, U, C]``."""
        row, device = np.nonzero(shards)
        keys = TrainingKeys(
            [seed] * row.size, [int(instances[i]) for i in row.tolist()], np.full(row.size, round_), device
        )
        sizes = shards[row, device] * self.shard_size
        draws = sample_draws(keys, sizes)
        classes = self.sample_classes(keys, sizes, draws)
        if (classes < 0).any():
            if self.training is None:
                from_all = (draws[:, 1] * self.classes).astype(np.int64)
            else:
                from_all = self.training[(draws[:, 1] * len(self.training)).astype(np.int64)]
            classes = np.where(classes < 0, from_all, classes)
        cell = np.repeat(row * shards.shape[1] + device, sizes) * self.classes + classes
        found = np.bincount(cell, minlength=shards.size * self.classes)
        return found.reshape(*shards.shape, self.classes)

    def sample_classes(self, keys: TrainingKeys, sizes: IntArray, draws: FloatArray) -> IntArray:
        """The class of every sample; -1 where a device draws from the whole training set.

        ``sizes`` are the samples of each device and ``draws`` their random numbers (``sample_draws``).
        """
        if self.same_everywhere:
            return np.full(len(draws), -1)
        cumulative = np.full((len(keys.devices), self.classes), np.nan)
        for row, where in enumerate(zip(keys.seeds, keys.instances, keys.devices.tolist(), strict=True)):
            if (own := self._cumulative_shares(*where)) is not None:
                cumulative[row] = own
        skewed = ~np.isnan(cumulative[:, 0])
        owner = np.repeat(np.arange(len(sizes)), sizes)
        classes = (draws[:, :1] >= cumulative[owner]).sum(axis=1)
        return np.where(skewed[owner], classes, -1)

    @property
    def same_everywhere(self) -> bool:
        """Whether all devices draw from the whole training set."""
        return type(self.partition) is Iid

    @property
    def overall(self) -> FloatArray:
        """The share of each class in the whole training set, ``[C]``."""
        if self.training is None:
            return np.full(self.classes, 1 / self.classes)
        return np.bincount(self.training, minlength=self.classes) / len(self.training)

    def shares(self, seed: int, instances: Sequence[int], devices: int) -> FloatArray:
        """The expected share of each class at every device, ``[I, U, C]``."""
        found = np.empty((len(instances), devices, self.classes))
        for i, instance in enumerate(instances):
            for u in range(devices):
                own = self._device_shares(seed, int(instance), u)
                found[i, u] = self.overall if own is None else own
        return found

    def _device_shares(self, seed: int, instance: int, device: int) -> FloatArray | None:
        """The class shares of a device, checked; None: samples from the whole training set."""
        assert isinstance(self.partition, Partition)
        given = self.partition.class_shares(seed, instance, device, self.classes)
        if given is None:
            return None
        shares: FloatArray = checked(self.partition, "class shares", given, (self.classes,))
        if abs(shares.sum() - 1) > 1e-6:
            raise FedwaveError(
                f"class shares of partition {self.partition.name!r} are {short_repr(shares.tolist())}, must sum to 1."
            )
        return shares

    def _cumulative_shares(self, seed: int, instance: int, device: int) -> FloatArray | None:
        where = seed, instance, device
        if where not in self._cumulative:
            shares = self._device_shares(*where)
            if shares is not None:
                shares = np.cumsum(shares)
                shares /= shares[-1]  # ends at exactly 1, whatever the rounding
            self._cumulative[where] = shares
        return self._cumulative[where]

    @cached_property
    def _cumulative(self) -> dict[tuple[int, int, int], FloatArray | None]:
        return {}


def sample_draws(keys: TrainingKeys, sizes: IntArray) -> FloatArray:
    """Two uniform numbers per sample, ``[samples, 2]``: the first chooses its class, the second the sample in it."""
    return uniform(numbers(keys.keys("shards"), 2 * sizes)).reshape(-1, 2)
