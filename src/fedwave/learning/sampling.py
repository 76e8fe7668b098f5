"""Draws the samples that a device trains on, and cuts them into batches.

Samples follow the labels of the world (network/partition.py): they are drawn by (seed, instance, round, device), never
in the order of calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.counter_rng import TrainingKeys, count_within, shuffled
from fedwave.errors import FedwaveError
from fedwave.network.partition import Labels, Partition, sample_draws
from fedwave.types import Array, IntArray


class Sampler:
    """Draws the samples of devices, and the order in which they are trained on."""

    def __init__(self, labels: IntArray, partition: Partition, shard_size: int) -> None:
        self._size = len(labels)
        self._labels = Labels(partition, int(labels.max()) + 1, shard_size)
        self._by_class = np.argsort(labels, kind="stable")
        self._members = np.bincount(labels, minlength=self._labels.classes)
        self._first = np.cumsum(self._members) - self._members  # position of each class in _by_class
        if not self._labels.same_everywhere and not self._members.all():
            missing = int(np.argmin(self._members))
            raise FedwaveError(
                f"the partition is skewed, but class {missing} has no training sample: it needs samples of every class "
                "up to the largest label; number the labels 0, 1, 2 and so on."
            )

    def shards(self, seed: int, instance: int, round_: int, device: int, count: int, before: int = 0) -> IntArray:
        """Indices of the samples that arrive at a device in a round, with replacement."""
        keys = TrainingKeys.of(seed, instance, round_, device)
        return self.arriving(keys, np.array([count]), np.array([before]))

    def arriving(self, keys: TrainingKeys, counts: IntArray, before: IntArray | None = None) -> IntArray:
        """The samples of many devices, one device after the other; ``counts`` are their shards, ``[N]``.

        ``before`` are the shards that arrived in earlier rounds; only the samples of owners depend on them.
        """
        sizes = counts * self._labels.shard_size
        draws = sample_draws(keys, sizes)
        from_all = (draws[:, 1] * self._size).astype(np.int64)
        if self._labels.same_everywhere:
            return from_all
        classes = self._labels.sample_classes(keys, sizes, draws)
        which = (draws[:, 1] * self._members[classes]).astype(np.int64)
        of_class = self._by_class[self._first[classes] + which]
        return np.where(classes >= 0, of_class, from_all)


class OwnerSampler(Sampler):
    """Gives every device the samples of one user, in their order; after the last one the first comes again."""

    def __init__(self, owner: IntArray, shard_size: int) -> None:
        self._shard_size, self._in_order = shard_size, np.argsort(owner, kind="stable")
        self._members = np.bincount(owner)
        self._first = np.cumsum(self._members) - self._members  # position of each user in _in_order

    def arriving(self, keys: TrainingKeys, counts: IntArray, before: IntArray | None = None) -> IntArray:
        assert before is not None
        sizes, users = counts * self._shard_size, np.repeat(keys.devices, counts * self._shard_size)
        place = np.repeat(before * self._shard_size, sizes) + count_within(sizes)
        return self._in_order[self._first[users] + place % self._members[users]]


@dataclass(frozen=True)
class Batches:
    """The samples of every step of local training, for many devices."""

    samples: IntArray  # [N, S, batch]; -1 where a batch is short or a device has finished
    sizes: IntArray  # [N, S]: the number of samples of a step

    @property
    def steps(self) -> IntArray:
        """The number of steps of each device, ``[N]``."""
        steps: IntArray = np.count_nonzero(self.sizes, axis=1)
        return steps

    def rows(self, which: Array | slice) -> Batches:
        """Those of some devices, with as many steps as the longest of them has."""
        longest = int(self.steps[which].max(initial=0))
        return Batches(self.samples[which][:, :longest], self.sizes[which][:, :longest])


def cut_into_batches(samples: IntArray, counts: IntArray, keys: TrainingKeys, batch: int, epochs: int) -> Batches:
    """Reshuffle the samples in every epoch and cut them; the last batch is short, or dropped if it holds one sample.

    ``samples`` are those of all devices, one device after the other, ``counts`` their numbers.
    """
    # Batch norm cannot normalise a single sample.
    each = -(-counts // batch) - (counts % batch == 1)  # batches of an epoch
    longest = int(each.max(initial=0))
    cut = np.full((len(counts), epochs * longest, batch), -1)
    order_keys, first = keys.keys("order"), np.cumsum(counts) - counts
    for count in np.unique(counts[each > 0]).tolist():
        rows = np.flatnonzero(counts == count)
        order = shuffled(order_keys[rows], epochs, count)
        mine = samples[first[rows, None, None] + order]
        full = -(-count // batch) * batch
        padded = np.full((len(rows), epochs, full), -1)
        padded[:, :, :count] = mine
        steps = padded.reshape(len(rows), epochs, -1, batch)[:, :, : int(each[rows[0]])]
        cut[rows, : epochs * steps.shape[2]] = steps.reshape(len(rows), -1, batch)
    return Batches(cut, np.count_nonzero(cut >= 0, axis=2))


def device_batches(
    samples: IntArray, batch: int, epochs: int, seed: int, instance: int, round_: int, device: int
) -> list[IntArray]:
    """The batches of one device, in the order of its steps."""
    keys = TrainingKeys.of(seed, instance, round_, device)
    cut = cut_into_batches(samples, np.array([len(samples)]), keys, batch, epochs)
    return [row[:size] for row, size in zip(cut.samples[0], cut.sizes[0], strict=True)]
