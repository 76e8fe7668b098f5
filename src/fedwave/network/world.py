"""The World: everything that no decision can change, drawn before any decision.

It holds the gains, the luck of uploads, the arrivals, their labels, missed broadcasts and who is away. Each has its own
random stream, keyed by (seed, instance, block of rounds), so every scheduler meets the same world and comparisons are
paired. Labels are keyed by round and device (partition.py). Luck is uniform and separate from p: an upload arrives if
its luck lies below p (dynamics.py), so the same world serves every decision.

Models that users write fill the blocks, and ``types.checked`` tests every array that they return.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.network.network import Network
from fedwave.network.partition import Labels
from fedwave.rng import Block, stream
from fedwave.types import BoolArray, FloatArray, IntArray, WorldRound, checked, freeze

# The length of a block enters the random keys, so it must not depend on the number of instances.
_BLOCK_ROUNDS = 64
_BLOCK_VALUES = 1 << 16


def block_rounds(devices: int) -> int:
    """The number of rounds that are drawn together."""
    return min(_BLOCK_ROUNDS, max(1, _BLOCK_VALUES // devices))


def block_bytes(instances: int, devices: int) -> float:
    """The memory of a block: gains, SNR, p, luck and arrivals, and one more array while they are drawn."""
    return 6 * 8 * float(block_rounds(devices)) * instances * devices


class World:
    """The rounds of the instances ``ids`` of a network.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> one, two = fw.World(fw.paper_network(), seed=0, ids=np.array([0, 7])).rounds(1, 2)
    >>> two.round, two.gain.shape, two.arrivals.shape
    (2, (2, 25), (2, 25))
    """

    def __init__(self, network: Network, seed: int, ids: IntArray, labels: Labels | None = None) -> None:
        self.network, self.seed, self.ids = network, seed, ids
        freeze(ids)
        self._labels = labels
        self.block_rounds = block_rounds(network.size)
        self._shape = (self.block_rounds, ids.size, network.size)
        # True if a block can be drawn only after the blocks before it.
        away = network.availability
        self._remembers = not (network.fading.independent and away.independent) or away.arrivals_while_away
        # The memory that a block starts from, by the number of the block: the last one drawn, and the next one.
        self._carries: dict[int, Any] = {0: None}

    def restore_channel(self, round_: int, channel: tuple[Any, ...]) -> None:
        """Continues after this round from what ``channel_after`` returned; if that is empty, from round 1."""
        if channel:
            freeze(channel)
            self._carries = {round_ // self.block_rounds: channel[0]}

    def channel_after(self, round_: int) -> tuple[Any, ...]:
        """A copy of the memory before the block that holds this round, in a tuple; empty if the world has none."""
        number = round_ // self.block_rounds
        if not self._remembers or number not in self._carries:
            return ()
        carry = self._carries[number]
        return (_copied(carry),) if can_keep(carry, self.ids.size) else ()

    def rounds(self, first: int, last: int) -> Iterator[WorldRound]:
        """Rounds ``first`` to ``last``, both included."""
        begin = (first - 1) // self.block_rounds
        if self._remembers:
            # Earlier rounds are drawn too, from the last block whose memory is known.
            begin = max((known for known in self._carries if known <= begin), default=0)
        carry = self._carries.get(begin)
        for number in range(begin, (last - 1) // self.block_rounds + 1):
            gain, coming, after = self._remembered(number, carry)
            self._carries = {number: carry, number + 1: after}
            carry = after
            start = 1 + number * self.block_rounds
            wanted = range(max(first, start), min(last, start + self.block_rounds - 1) + 1)
            if wanted:
                yield from self._draw(number, gain, *coming, wanted)

    def label_counts(self, round_: int, shards: IntArray) -> IntArray:
        """Samples of each class among the first ``shards`` (``[I, U]``) that arrive in a round, ``[I, U, C]``.

        They depend on nothing else: a shard has the same labels whether or not those after it find a full buffer.
        """
        assert self._labels is not None
        counts = self._labels.counts(self.seed, self.ids.tolist(), round_, shards)
        shape = (*shards.shape, self._labels.classes)
        return checked(self._labels, "label counts", counts, shape, whole=True)

    def _remembered(self, number: int, carry: Any) -> tuple[FloatArray, tuple[Any, Any], Any]:
        """Draws the parts of a block that may depend on earlier blocks: gains, (availability, arrivals), memory.

        Availability is None if all devices are always there. Arrivals are None if they do not depend on earlier blocks.
        """
        if self.network.always_available:
            gain, after = self._gains(number, carry)
            return gain, (None, None), after
        fading, away, held = carry if carry is not None else (None, None, None)
        gain, fading = self._gains(number, fading)
        part = self.network.availability
        there, away = part.sample(self._block(number, "availability"), away)
        there = checked(part, "availability", there, self._shape, most=1, whole=True).astype(np.bool_)
        arrivals = None
        if part.arrivals_while_away:
            drawn = self._arrivals(number)
            arrivals, held = np.empty_like(drawn), np.zeros(self._shape[1:], np.int64) if held is None else held
            for k in range(self.block_rounds):
                held = held + drawn[k]
                arrivals[k] = held * there[k]
                held = held - arrivals[k]
        freeze(there, arrivals, away, held)
        return gain, (there, arrivals), (fading, away, held)

    def _gains(self, number: int, carry: Any) -> tuple[FloatArray, Any]:
        fading = self.network.fading
        gain, after = fading.sample(self._block(number, "gain"), carry)
        gain = checked(fading, "gains", gain, self._shape)
        if fading.independent and after is not None:
            raise FedwaveError(
                f"fading {fading.name!r} is declared independent but returned a carry, which would be lost: "
                "set independent = False, or return None."
            )
        freeze(gain, after)
        return gain, after

    def _block(self, number: int, purpose: str) -> Block:
        generators = tuple(stream(self.seed, purpose, int(i), number) for i in self.ids)
        first = 1 + number * self.block_rounds
        return Block(first, self.block_rounds, self.network.size, self.ids, generators, self.seed)

    def _arrivals(self, number: int) -> IntArray:
        arrivals = self.network.arrivals
        counts = arrivals.sample(self._block(number, "arrivals"), np.asarray(self.network.table.rate))
        return checked(arrivals, "counts", counts, self._shape, whole=True)

    def _draw(
        self, number: int, gain: FloatArray, there: BoolArray | None, arrivals: IntArray | None, wanted: range
    ) -> Iterator[WorldRound]:
        """Draws the rest of a block, whose ``_remembered`` part is known, and cuts it into the wanted rounds."""
        net = self.network
        snr, gain = (gain, gain / net.mean_snr) if net.fading.absolute else (net.mean_snr * gain, gain)
        freeze(snr, gain)
        success = net.success.expected(snr, net.mean_snr, net.fading)
        success = checked(net.success, "probabilities", success, self._shape, most=1)
        luck = self._block(number, "luck").draw(lambda rng, shape: rng.random(shape))
        later = None
        if tries := net.success.later_tries:  # of HARQ: the sum of their gains counts
            sums = self._block(number, "retries").draw(lambda rng, s: net.fading.fresh(rng, (tries, *s)).sum(axis=0))
            later = net.mean_snr * checked(net.fading, "gains of new tries", sums, self._shape)
        arrivals = self._arrivals(number) if arrivals is None else arrivals
        missing = np.asarray(net.table.miss_probability)
        heard = None
        if missing.any():
            heard = self._block(number, "broadcast").draw(lambda rng, s: rng.random(s) >= missing)
            if there is not None:
                heard &= there
        freeze(success, luck, later, arrivals, heard)
        first = 1 + number * self.block_rounds
        for t in wanted:
            k = t - first
            yield WorldRound(
                t,
                gain[k],
                snr[k],
                success[k],
                luck[k],
                None if later is None else later[k],
                arrivals[k],
                None if heard is None else heard[k],
                None if there is None else there[k],
            )


def can_keep(carry: Any, instances: int) -> bool:
    """Can a Trace keep a carry? Arrays of numbers ``[I, ...]``, None, and tuples of them."""
    if type(carry) is tuple:
        return all(can_keep(part, instances) for part in carry)
    if isinstance(carry, np.ndarray):
        return carry.dtype.kind in "biufc" and carry.shape[:1] == (instances,)
    return carry is None


def _copied(carry: Any) -> Any:
    """A copy of a carry, whose arrays are often views of a whole block."""
    if isinstance(carry, tuple):
        return tuple(_copied(part) for part in carry)
    return None if carry is None else carry.copy()
