"""One round of a network of a few devices, for every state at once: the model behind exact planning.

A state is the backlog n of every device, cut at a truncation; shards beyond it are lost. Channels are independent
from round to round, and the p of each device takes a few levels. Let f(n) be the cost from the end of a round on. If
the devices in D deliver, the round costs

    V_D(n) = E[f(n')], n' = 0 on D and n + m elsewhere,

computed with one matrix per device. The cost of a decision A is the mean of V_D over the sets D that it may deliver.
As a polynomial in p this is V_{} - sum over the non-empty S within A of p_S G_S(n), where p_S is the product of p over
S. The gains G_S describe a state completely, and the best decision has the largest sum. For W = 1 it is p_u G_u(n).

Arrays are ``[B, N_1 + 1, ..., N_U + 1]``: a batch of B networks that differ only in their arrivals, and one axis per
device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import combinations, product

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.planning.interpolation import divide_counts
from fedwave.types import BoolArray, FloatArray, IntArray, Planning

Devices = tuple[int, ...]  # a set of devices, by number
# P[m = 0], ..., P[m = most] of a device in a network of the batch: (network, device, most).
ArrivalsOfDevice = Callable[[int, int, int], FloatArray]
_FINE_LEVELS = 120  # equally likely gains; divisible by 2, 3, 4, 5, 6 and 8
_MOST_BYTES = 1 << 30
_MOST_WORK = 10**9  # values computed in one sweep over all states: about a second


@dataclass(frozen=True, eq=False)
class ExactRound:
    """The possible events of a round: channel levels, arrivals, decisions."""

    levels: tuple[tuple[FloatArray, FloatArray], ...]  # of each device: p, and its probability
    slots: int
    arrivals: tuple[FloatArray, ...]  # of each device: from n to n + m, [B, N + 1, N + 1]
    backlog: FloatArray  # total backlog in each state, [B, N_1 + 1, ..., N_U + 1]

    @classmethod
    def of(
        cls, levels: FloatArray, slots: int, points: IntArray, step: FloatArray, chances: ArrivalsOfDevice
    ) -> ExactRound:
        """Networks with ``points`` ``[U]`` backlogs of each device, ``step`` ``[B, U]`` shards apart.

        ``levels`` are the equally likely p of each device, ``[U, K]``.
        """
        arrivals, backlog = [], np.zeros((len(step), *points.tolist()))
        for u, size in enumerate(points.tolist()):
            widths = enumerate(step[:, u].tolist())
            each = [_arrival_matrix(chances(b, u, math.ceil((size - 1) * width)), size, width) for b, width in widths]
            arrivals.append(np.stack(each))
            own = step[:, u, None] * np.arange(size)
            backlog += own.reshape(-1, *(size if v == u else 1 for v in range(points.size)))
        return cls(distinct_levels(levels), slots, tuple(arrivals), backlog)

    @property
    def devices(self) -> int:
        """U."""
        return len(self.levels)

    def rows(self, keep: BoolArray) -> ExactRound:
        """The same for a part of the batch."""
        arrivals = tuple(matrix[keep] for matrix in self.arrivals)
        return ExactRound(self.levels, self.slots, arrivals, self.backlog[keep])

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
        """The gain of the best decision, averaged over channels."""
        total = np.zeros(self.backlog.shape)
        work = [np.empty(self.backlog.shape) for _ in range(3)]
        for p, probability in self.channels:
            weights = products(p, self.slots)
            np.multiply(_largest_gain(gains, weights, self._within, work), probability, out=work[0])
            total += work[0]
        return total

    @cached_property
    def channels(self) -> list[tuple[FloatArray, float]]:
        """Every combination of levels, p ``[U]``, and its probability."""
        pairs = [list(zip(p, probability, strict=True)) for p, probability in self.levels]
        return [
            (np.array([p for p, _ in combined]), math.prod(float(c) for _, c in combined))
            for combined in product(*pairs)
        ]

    @cached_property
    def _within(self) -> list[list[int]]:
        return [np.flatnonzero(row).tolist() for row in incidence(self.devices, self.slots)]


def _largest_gain(
    gains: Sequence[FloatArray], weights: FloatArray, within: list[list[int]], work: list[FloatArray]
) -> FloatArray:
    """The largest gain over all decisions; computed in place, because most of the time is spent here."""
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
    """Apply ``matrix`` ``[B, N, N]`` to the axis of one device."""
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
    """The devices that transmit in each possible decision, ``[A, U]``."""
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


def check_size(name: str, truncation: IntArray, levels: FloatArray, slots: int, more: int = 0) -> None:
    """Refuse problems that take too long or too much memory; ``more`` is the number of additional arrays."""
    devices, states = truncation.size, math.prod(n + 1 for n in truncation.tolist())
    channels = math.prod(p.size for p, _ in distinct_levels(levels))
    taken = [math.comb(devices, k) for k in range(slots + 1)]
    size = 8 * states * (2 * sum(taken) + 6 + more)
    if size > _MOST_BYTES or states * channels * taken[-1] * 2**slots > _MOST_WORK:
        raise FedwaveError(
            f"{name} cannot plan for {devices} devices exactly: {_rough(states)} backlogs (about "
            f"{_rough(size // 2**20)} MiB) times {_rough(channels)} channel states is too much; use it on fewer "
            "devices, or lower its truncation or levels."
        )


def _rough(count: int) -> str:
    """A count of any size; with some hundred devices it does not fit a float."""
    return f"{count:.3g}" if count < 10**15 else f"1e{math.floor(math.log10(count))}"


def _arrival_matrix(chances: FloatArray, points: int, step: float) -> FloatArray:
    """Transition probabilities of a backlog by arrivals, ``[points, points]``; states are ``step`` shards apart.

    ``chances`` are the probabilities of 0, 1, ... shards, up to as many as reach the last state. Larger counts end in
    the last state. ``divide_counts`` divides a count between two states.
    """
    jump = divide_counts(chances, step, points)
    start, end = np.indices((points, points))
    matrix: FloatArray = np.where(end >= start, jump[np.maximum(end - start, 0)], 0.0)
    matrix[:, -1] = 0.0
    matrix[:, -1] = np.maximum(1 - matrix.sum(axis=1), 0.0)
    return matrix


def sufficient_truncation(rates: FloatArray, mean_p: FloatArray, slots: int, rare: float) -> IntArray:
    """A backlog that the optimum exceeds with probability about ``rare``, for rates ``[..., U]``.

    The optimum delivers backlogs near sqrt(theta_u) * sum of sqrt(theta) / (W p), or theta_u / p if that is larger.
    With every failure in a row the backlog grows by theta.
    """
    root, p = np.sqrt(rates), np.clip(mean_p, 1e-9, 1.0)
    usual = np.maximum(root * root.sum(axis=-1, keepdims=True) / slots, rates) / p
    with np.errstate(divide="ignore"):
        failures = np.log(rare) / np.log1p(-p)
    usual = usual + rates * failures
    most = np.ceil(usual + np.sqrt(-2 * np.log(rare) * usual)) + 2
    return np.where(rates > 0, most, 0).astype(np.int64)


def fine_levels(planning: Planning, name: str) -> FloatArray:
    """p of every device at ``_FINE_LEVELS`` equally likely gains, ``[U, K]``."""
    if not planning.independent:
        raise FedwaveError(
            f"{name} needs channels that are new in every round: use a fading without memory, such as Rayleigh."
        )
    return planning.success_levels(planning.mean_snr, _FINE_LEVELS)


def reduced_levels(planning: Planning, count: int, name: str) -> FloatArray:
    """Equally likely p of every device, ``[U, K]``, with at most ``count`` different values."""
    return np.stack([_join_neighbours(row, count) for row in fine_levels(planning, name)])


def _join_neighbours(levels: FloatArray, count: int) -> FloatArray:
    """Equally likely p replaced by at most ``count`` different values with the same mean.

    The neighbours that differ least are joined first. p is nearly a step function of the gain, so a few levels
    describe it well.
    """
    values, sizes = np.unique(levels, return_counts=True)
    weights = sizes.astype(np.float64)
    while values.size > count:
        loss = weights[1:] * weights[:-1] / (weights[1:] + weights[:-1]) * np.diff(values) ** 2
        k = int(np.argmin(loss))
        both = weights[k] + weights[k + 1]
        values[k] = (weights[k] * values[k] + weights[k + 1] * values[k + 1]) / both
        weights[k] = both
        values, weights = np.delete(values, k + 1), np.delete(weights, k + 1)
    return np.repeat(values, weights.astype(np.int64))


def distinct_levels(levels: FloatArray) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """For each device (``levels`` is ``[U, K]``) the different p and their probabilities."""
    pairs = (np.unique(row, return_counts=True) for row in levels)
    return tuple((p, count / levels.shape[1]) for p, count in pairs)
