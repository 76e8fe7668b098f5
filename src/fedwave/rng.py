"""Named random streams: a draw depends on (seed, purpose, instance, time), never on the order of calls.

So a world is the same for every scheduler, instance 7 is the same whether 8 or 800 run, and a run
can resume at any round, although no generator is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator, Philox, SeedSequence

from fedwave.types import Array, FloatArray, IntArray

# A purpose's number enters the seed: never renumber, only append.
PURPOSES = {
    "gain": 0,
    "luck": 1,
    "arrivals": 2,
    "broadcast": 3,
    "retries": 4,
    "scheduler": 5,
    "shards": 6,
    "order": 7,
    "skew": 8,
    "weights": 9,
    "noise": 10,
    "availability": 11,
    "offset": 12,
}


def stream(seed: int, purpose: str, *key: int) -> Generator:
    """The generator of one purpose at one place: (instance, block of rounds), (instance, round, device), ..."""
    return Generator(SFC64(SeedSequence(seed, spawn_key=(PURPOSES[purpose], *key))))


@dataclass(frozen=True)
class Block:
    """A block of rounds to be drawn: the rounds, the instances, and one generator per instance."""

    first: int  # number of its first round
    rounds: int
    devices: int
    ids: IntArray  # [I] instance numbers
    generators: tuple[Generator, ...]
    seed: int = 0  # of the run, for a model with numbers that all blocks share

    def draw(self, one: Callable[[Generator, tuple[int, int]], Array]) -> Array:
        """Stack ``one(generator, (rounds, devices))`` over the instances to ``[B, I, U]``."""
        shape = (self.rounds, self.devices)
        if len(self.generators) == 1:  # stacking would copy, which is slow with a million devices
            return one(self.generators[0], shape)[:, None, :]
        return np.stack([one(rng, shape) for rng in self.generators], axis=1)


class Draws:
    """A scheduler's own random numbers: the same for a seed, an instance and a round, however often they are drawn.

    Rows are the instances of a run. ``at`` moves to the start of a round.

    >>> import fedwave as fw
    >>> draws = fw.Draws(seed=1, ids=[0, 1, 2])
    >>> numbers = draws.at(7).uniform(devices=4)
    >>> numbers.shape
    (3, 4)
    >>> bool((fw.Draws(seed=1, ids=[2]).at(7).uniform(devices=4)[0] == numbers[2]).all())
    True
    >>> draws.at(8).generator(row=0).permutation(4).shape
    (4,)
    """

    # Philox is a counter-based generator: writing the round into its counter moves to that round's stream in about a
    # microsecond, where seeding a new generator takes ten times as long.

    def __init__(self, seed: int, ids: Sequence[int] | IntArray) -> None:
        self._bits = []
        for instance in ids:
            key = SeedSequence(seed, spawn_key=(PURPOSES["scheduler"], int(instance)))
            self._bits.append(Philox(key=key.generate_state(2, np.uint64)))
        self._generators = [Generator(bits) for bits in self._bits]
        # Reading a state copies it. With the copies kept here, setting a state is one assignment.
        self._states: list[dict[str, Any]] = [dict(bits.state) for bits in self._bits]
        for state in self._states:
            state["state"]["counter"][:] = 0
            state["buffer_pos"] = 4  # nothing buffered from another round
            state["has_uint32"] = 0
        self._positioned = [0] * len(self._bits)
        self._round = 0

    def at(self, round_: int) -> Draws:
        """The same object, at the start of a round."""
        self._round = round_
        return self

    def generator(self, row: int) -> Generator:
        """The generator of the instance in this row; a second call in a round continues the stream."""
        if self._positioned[row] != self._round:
            state = self._states[row]
            state["state"]["counter"][2] = self._round
            self._bits[row].state = state  # type: ignore[assignment]
            self._positioned[row] = self._round
        return self._generators[row]

    def uniform(self, devices: int, rows: Sequence[int] | IntArray | None = None) -> FloatArray:
        """Uniform numbers ``[rows, U]``, for all instances or for the given rows."""
        rows = range(len(self._bits)) if rows is None else rows
        out = np.empty((len(rows), devices))
        for k, row in enumerate(rows):
            self.generator(int(row)).random(out=out[k])
        return out

    def standard_gamma(self, shape: FloatArray, rows: Sequence[int] | IntArray) -> FloatArray:
        """Gamma(shape, 1) numbers, ``shape`` and result ``[rows, U]``."""
        out = np.empty(shape.shape)  # shapes may be whole numbers
        for k, row in enumerate(rows):
            self.generator(int(row)).standard_gamma(shape[k], out=out[k])
        return out
