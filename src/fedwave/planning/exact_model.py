"""One round of a small network, looked at from every state at once: what exact planning needs.

A state is the backlog n of every device, cut at a truncation: what comes on top is lost. Channels are new in
every round, each device's p taking a few levels. Let f(n) be the cost from the end of a round on. If the
devices in D deliver, the round is worth

    V_D(n) = E[f(n')], n' = 0 on D and n + m elsewhere,

a product of one matrix per device. A decision A is worth the mean of V_D over the D that its uploads make. As
a polynomial in p that is V_{} - sum over the non-empty S within A of p_S G_S(n), p_S the product of p over S: the
gains G_S say all about a state, and a decision is best where that sum is largest. With W = 1 it is p_u G_u(n).

Arrays are ``[B, N_1 + 1, ..., N_U + 1]``: a batch of B networks alike in all but their arrivals, and one axis
per device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import combinations, product

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.types import BoolArray, FloatArray

Devices = tuple[int, ...]  # a set of devices, by number
_MOST_DEVICES = 100  # to be counted at all
_MOST_BYTES = 1 << 30
_MOST_WORK = 10**9  # values touched in one sweep over all states: about a second


@dataclass(frozen=True, eq=False)
class SmallRound:
    """What can happen in a round: channel levels, arrivals, decisions."""

    levels: tuple[tuple[FloatArray, FloatArray], ...]  # of each device: p, and how likely it is
    slots: int
    arrivals: tuple[FloatArray, ...]  # of each device: from n to n + m, [B, N + 1, N + 1]
    backlog: FloatArray  # shards waiting in each state, [B, N_1 + 1, ..., N_U + 1]

    @property
    def devices(self) -> int:
        return len(self.levels)

    def rows(self, keep: BoolArray) -> SmallRound:
        """The same for a part of the batch."""
        arrivals = tuple(moves[keep] for moves in self.arrivals)
        return SmallRound(self.levels, self.slots, arrivals, self.backlog[keep])

    def deliveries(self, cost: FloatArray) -> dict[Devices, FloatArray]:
        """V_D for every D that W slots can deliver; the axes of the devices in D have length 1."""
        values: dict[Devices, FloatArray] = {(): cost}
        for u in range(self.devices):
            before, values = values, {}
            for delivered, value in before.items():
                values[delivered] = along(self.arrivals[u], value, u)
                if len(delivered) < self.slots:
                    values[*delivered, u] = value[(slice(None),) * (u + 1) + (slice(1),)]
        return values

    def gains(self, values: dict[Devices, FloatArray]) -> list[FloatArray]:
        """G_S for every non-empty S that W slots can deliver, in the order of ``subsets``."""
        out = []
        for chosen in subsets(self.devices, self.slots):
            parts = [d for k in range(len(chosen) + 1) for d in combinations(chosen, k)]
            signed = (values[d] if (len(chosen) - len(d)) % 2 else -values[d] for d in parts)
            out.append(reduce(np.add, signed))
        return out

    def expected_best(self, gains: Sequence[FloatArray]) -> FloatArray:
        """The mean over channels of the best decision's gain."""
        total = np.zeros(self.backlog.shape)
        work = [np.empty(self.backlog.shape) for _ in range(3)]
        for p, chance in self.channels:
            weights = products(p, self.slots)
            np.multiply(_best_of(gains, weights, self._within, work), chance, out=work[0])
            total += work[0]
        return total

    @cached_property
    def channels(self) -> list[tuple[FloatArray, float]]:
        """Every combination of levels, p ``[U]``, and how likely it is."""
        pairs = [list(zip(p, chance, strict=True)) for p, chance in self.levels]
        return [
            (np.array([p for p, _ in combined]), math.prod(float(c) for _, c in combined))
            for combined in product(*pairs)
        ]

    @cached_property
    def _within(self) -> list[list[int]]:
        return [np.flatnonzero(row).tolist() for row in incidence(self.devices, self.slots)]


def _best_of(
    gains: Sequence[FloatArray],
    weights: FloatArray,
    within: list[list[int]],
    work: list[FloatArray],
) -> FloatArray:
    """The largest, over decisions, of the weighted gains of what lies within; in place, for it is all the work."""
    best, value, term = work
    for number, parts in enumerate(within):
        out = best if number == 0 else value
        np.multiply(gains[parts[0]], weights[parts[0]], out=out)
        for s in parts[1:]:
            out += np.multiply(gains[s], weights[s], out=term)
        if number:
            np.maximum(best, value, out=best)
    return best


def along(matrix: FloatArray, values: FloatArray, device: int) -> FloatArray:
    """Apply ``matrix`` ``[B, N, N]`` to one device's axis."""
    shape = values.shape
    batch, size = shape[0], matrix.shape[-1]
    before, after = math.prod(shape[1 : device + 1]), math.prod(shape[device + 2 :])
    if after == 1:
        out = np.matmul(values.reshape(batch, before, size), matrix.transpose(0, 2, 1))
    else:
        out = np.matmul(matrix[:, None], values.reshape(batch, before, size, after))
    moved: FloatArray = out.reshape(shape)
    return moved


@lru_cache(maxsize=32)
def subsets(devices: int, slots: int) -> tuple[Devices, ...]:
    """The non-empty sets of devices that ``slots`` slots can deliver."""
    return tuple(s for k in range(1, slots + 1) for s in combinations(range(devices), k))


@lru_cache(maxsize=32)
def decisions(devices: int, slots: int) -> BoolArray:
    """Who transmits in each possible decision, ``[A, U]``."""
    chosen = list(combinations(range(devices), slots))
    return np.array([[u in a for u in range(devices)] for a in chosen], dtype=np.bool_)


@lru_cache(maxsize=32)
def incidence(devices: int, slots: int) -> BoolArray:
    """Which subsets lie within which decision, ``[A, S]``."""
    chosen, parts = combinations(range(devices), slots), subsets(devices, slots)
    return np.array([[set(s) <= set(a) for s in parts] for a in chosen], dtype=np.bool_)


def products(p: FloatArray, slots: int) -> FloatArray:
    """p_S: the product of ``p`` ``[..., U]`` over every subset, ``[..., S]``."""
    parts = subsets(p.shape[-1], slots)
    return np.stack([np.prod(p[..., list(s)], axis=-1) for s in parts], axis=-1)


def check_devices(name: str, devices: int) -> None:
    """Refuse networks so large that even their states would take long to count."""
    if devices > _MOST_DEVICES:
        raise FedwaveError(
            f"{name} plans exactly, which takes a network of a few devices, not of {devices}: use another scheduler."
        )


def check_size(
    name: str, truncation: Sequence[int], levels: Sequence[int], slots: int, more: int = 0
) -> None:
    """Refuse what would take too long, or more memory than there may be: ``more`` arrays beside the usual."""
    devices = len(truncation)
    states, channels = math.prod(n + 1 for n in truncation), math.prod(levels)
    taken = [math.comb(devices, k) for k in range(slots + 1)]
    size = 8 * states * (2 * sum(taken) + 6 + more)
    if size > _MOST_BYTES or states * channels * taken[-1] * 2**slots > _MOST_WORK:
        raise FedwaveError(
            f"{name} cannot plan for {devices} devices exactly: {_rough(states)} backlogs (about "
            f"{_rough(size // 2**20)} MiB) times {_rough(channels)} channel states is too much; use it on fewer "
            "devices, or lower its truncation or levels."
        )


def _rough(count: int) -> str:
    """A count of any size; a float would overflow at some hundred devices."""
    return f"{count:.3g}" if count < 10**15 else f"1e{math.floor(math.log10(count))}"
