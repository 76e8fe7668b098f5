"""Random numbers for the local training of many devices at once, drawn by counter.

A device in a round has a key, made from (seed, instance, round, device). Its i-th number is a hash of the key and i
(SplitMix64: Steele, Lea and Flood, 2014). So what a device draws depends on nothing else: not on the scheduler, on the
devices trained beside it, or on where a run was resumed. Numbers of all devices are computed by one array operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from fedwave.rng import PURPOSES
from fedwave.types import FloatArray, IntArray

Keys = np.ndarray[Any, np.dtype[np.uint64]]

_STRIDE = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


@dataclass(frozen=True)
class TrainingKeys:
    """The keys of local trainings: seed, instance, round and device of each, all ``[N]``."""

    seeds: Sequence[int]
    instances: Sequence[int]
    rounds: IntArray
    devices: IntArray

    @classmethod
    def of(cls, seed: int, instance: int, round_: int, device: int) -> TrainingKeys:
        """The key of a single training."""
        return cls([seed], [instance], np.array([round_]), np.array([device]))

    def keys(self, purpose: str) -> Keys:
        """A 64-bit key for each training and this purpose, ``[N]``."""
        runs = zip(self.seeds, self.instances, strict=True)
        first = np.array([_key_of_run(seed, purpose, i) for seed, i in runs], dtype=np.uint64)
        return _splitmix64(_splitmix64(_ahead(first, self.rounds)) + _ahead(np.uint64(0), self.devices))


@lru_cache(maxsize=65_536)
def _key_of_run(seed: int, purpose: str, instance: int) -> int:
    sequence = SeedSequence(seed, spawn_key=(PURPOSES[purpose], int(instance)))
    return int(sequence.generate_state(1, np.uint64)[0])


def numbers(keys: Keys, counts: IntArray) -> Keys:
    """The first ``counts`` numbers of every key, one key after the other: 64 random bits each."""
    return _splitmix64(_ahead(np.repeat(keys, counts), count_within(counts) + 1))


def uniform(bits: Keys) -> FloatArray:
    """Numbers in [0, 1) from random bits."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def count_within(counts: IntArray) -> IntArray:
    """0, 1, ... for every count, one after the other.

    >>> count_within(np.array([3, 0, 2])).tolist()
    [0, 1, 2, 0, 1]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - counts, counts)


def shuffled(keys: Keys, times: int, size: int) -> IntArray:
    """``times`` orders of 0 ... size - 1 for every key, ``[N, times, size]``: sorted by random bits."""
    bits = numbers(keys, np.full(len(keys), times * size)).reshape(len(keys), times, size)
    # The place of a number takes its last bits, so that one sort of whole numbers gives the order. All in place: these
    # are the largest arrays of a round.
    low = np.uint64(2 ** max(size - 1, 1).bit_length() - 1)
    bits &= ~low
    bits |= np.arange(size, dtype=np.uint64)
    bits.sort(axis=-1)
    bits &= low
    return bits.view(np.int64)


def _ahead(keys: Keys | np.uint64, steps: IntArray) -> Keys:
    """The states of the generators after these steps; sums wrap around at 2^64, as they must."""
    moved: Keys = keys + steps.astype(np.uint64) * _STRIDE
    return moved


def _splitmix64(x: Keys) -> Keys:
    """The finaliser of SplitMix64; learning/dropout.py has one for torch, which has no unsigned numbers."""
    x = (x ^ (x >> _SHIFTS[0])) * _FACTORS[0]
    x = (x ^ (x >> _SHIFTS[1])) * _FACTORS[1]
    return x ^ (x >> _SHIFTS[2])
