"""The optimal decisions of a network of a few devices by relative value iteration, in tables that are cached.

g + h(n) = E_p[ min over decisions of E[B' + h(n')] ]: g is the least mean backlog; h, 0 where nothing waits, is the
additional cost of starting with backlog n. For any h, g lies between the minimum and the maximum over all states of
what one more round adds.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.planning.exact_model import (
    ExactRound,
    check_size,
    fine_levels,
    incidence,
    products,
    reduced_levels,
    sufficient_truncation,
)
from fedwave.types import FloatArray, IntArray, Planning

_MOST_DEVICES = 100  # beyond this not even the states are counted
_MOST_SWEEPS = 20_000
_PLAIN_SWEEPS = 200
_MOST_BYTES = 1 << 28  # of cached tables
_MOST_TOGETHER = 1_000_000  # states of all networks that are solved in one batch
_MOST_SHARDS = 1_000_000
_PATIENCE = 100  # a truncation is at most this many rounds of arrivals, for devices that hardly succeed
_SAMPLE_RATES, _SAMPLE_COUNTS = np.array([0.5, 8.0]), 32  # distinguish arrival distributions


@dataclass(frozen=True, eq=False)
class DecisionTable:
    """The gains G_S (see exact_model.py) of the optimum in every state."""

    gains: FloatArray  # [S, N_1 + 1, ..., N_U + 1]
    step: FloatArray  # [U] shards between neighbouring states
    slots: int
    average: float  # g
    spread: float  # g is known to half of this
    bias: FloatArray  # h

    def decision_gains(self, p: FloatArray, waiting: IntArray) -> FloatArray:
        """The gain of every decision over transmitting nothing, ``[rows, A]``, at p and n ``[rows, U]``."""
        return decision_gains(p, self.at(waiting), self.slots)

    def at(self, waiting: IntArray) -> FloatArray:
        """The gains ``[rows, S]`` at n ``[rows, U]``, interpolated between states and constant beyond the last."""
        last = np.array(self.gains.shape[1:]) - 1
        place = np.minimum(waiting / self.step, last)
        state = place.astype(np.int64)
        if np.any(place > state):
            return interpolated_gains([self] * len(waiting), waiting)
        return self.gains[(slice(None), *state.T)].T


def decision_gains(p: FloatArray, gains: FloatArray, slots: int) -> FloatArray:
    """The gain of every decision, ``[rows, A]``, from p ``[rows, U]`` and the gains of subsets ``[rows, S]``."""
    weighted, inside = products(p, slots) * gains, incidence(p.shape[-1], slots)
    return np.stack([weighted[:, within].sum(axis=1) for within in inside], axis=1)


def interpolated_gains(tables: Sequence[DecisionTable], waiting: IntArray) -> FloatArray:
    """DecisionTable.at with a table for each row; all tables have the same shape."""
    last = np.array(tables[0].gains.shape[1:]) - 1
    place = np.minimum(waiting / np.stack([table.step for table in tables]), last)
    low = np.minimum(place.astype(np.int64), np.maximum(last - 1, 0))
    share = place - low
    cells = np.stack(  # the corners around each row, [rows, S, 2, ..., 2]
        [
            table.gains[(slice(None), *(slice(k, k + 2) for k in corner))]
            for table, corner in zip(tables, low.tolist(), strict=True)
        ]
    )
    for u in reversed(range(last.size)):
        up = share[:, u].reshape(-1, *(1,) * (cells.ndim - 2))
        cells = cells[..., 0] * (1 - up) + cells[..., -1] * up
    return cells


def solve_networks(round_: ExactRound, steps: FloatArray, tolerance: float, name: str) -> list[DecisionTable]:
    """Solve a batch of networks until g of each is known to ``tolerance``; ``steps`` is ``[B, U]``.

    Each network stops by itself, so its result does not depend on the other networks of the batch.
    """
    bias = np.zeros_like(round_.backlog)
    unsolved = np.arange(bias.shape[0])
    out: dict[int, DecisionTable] = {}
    states = math.prod(bias.shape[1:])
    for number in range(_MOST_SWEEPS):
        values = round_.deliveries(round_.backlog + bias)
        gains = round_.gains(values)
        new = values[()] - round_.expected_best(gains)
        added = (new - bias).reshape(-1, states)
        low, high = added.min(axis=1), added.max(axis=1)
        done = high - low <= tolerance * np.maximum(1.0, high)
        for b in np.flatnonzero(done):
            which, of_this = int(unsolved[b]), np.stack([part[b] for part in gains])
            g, spread = float(low[b] + high[b]) / 2, float(high[b] - low[b])
            # A copy: a view would keep the whole batch in memory.
            out[which] = DecisionTable(of_this, steps[which], round_.slots, g, spread, bias[b].copy())
        if done.all():
            return [out[b] for b in range(len(out))]
        # A periodic network (constant arrivals, p = 1) converges only with damping.
        bias = new if number < _PLAIN_SWEEPS else (new + bias) / 2
        nothing_waits = bias.reshape(-1, states)[:, 0]
        bias = bias - nothing_waits.reshape(-1, *(1,) * round_.devices)
        if done.any():
            round_, bias, unsolved = round_.rows(~done), bias[~done], unsolved[~done]
    raise FedwaveError(
        f"{name} did not converge within {_MOST_SWEEPS} sweeps, perhaps because a device hardly ever succeeds: "
        "leave that device out, or allow a larger tolerance."
    )


@dataclass(frozen=True)
class ExactPlan:
    """How accurately to plan. ``truncation`` None follows the rates; ``steps`` is the number of steps up to it."""

    name: str
    levels: int
    truncation: int | None = None
    steps: int | None = None
    rare: float = 1e-3
    tolerance: float = 1e-6

    def tables(self, planning: Planning, slots: int, rates: FloatArray) -> list[DecisionTable]:
        """The optimal decisions for each row of ``rates`` ``[rows, U]``."""
        if rates.shape[1] > _MOST_DEVICES:
            raise FedwaveError(
                f"{self.name} plans exactly, which takes a network of a few devices, not of {rates.shape[1]}: "
                "use another scheduler."
            )
        about = (self, slots, *_contents(planning, self.name))
        keys = [(about, row.tobytes()) for row in rates]
        found: dict[Hashable, DecisionTable | None] = {key: _CACHE.get(key) for key in keys}
        missing = {key: row for key, row in zip(keys, rates, strict=True) if found[key] is None}
        if missing:
            solved = self._solve(planning, slots, np.array(list(missing.values())))
            for key, one in zip(missing, solved, strict=True):
                _CACHE.put(key, one)
                found[key] = one
        return [table for key in keys if (table := found[key]) is not None]

    def _solve(self, planning: Planning, slots: int, rates: FloatArray) -> list[DecisionTable]:
        levels = reduced_levels(planning, self.levels, self.name)
        most = self._truncation(rates, levels, slots)
        if self.steps is None:
            last, step, together = most, np.ones(rates.shape), 1
        else:  # all networks have the same number of states, so that many are solved together
            last, step = np.full(most.shape, self.steps), np.maximum(most / self.steps, 1.0)
            together = max(1, _MOST_TOGETHER // (self.steps + 1) ** rates.shape[1])
        for row in last:
            check_size(self.name, row, levels, slots)
        if most.max() > _MOST_SHARDS:
            raise FedwaveError(
                f"{self.name} cannot plan for {rates.max():.3g} shards per round: "
                "use larger shards, or another scheduler."
            )
        out: list[DecisionTable] = []
        for first in range(0, len(rates), together):
            part = slice(first, first + together)

            def chances(b: int, u: int, counts: int, theta: FloatArray = rates[part]) -> FloatArray:
                return planning.arrival_chances(theta[b, u], counts)

            round_ = ExactRound.of(levels, slots, last[first] + 1, step[part], chances)
            out += solve_networks(round_, step[part], self.tolerance, self.name)
        return out

    def _truncation(self, rates: FloatArray, levels: FloatArray, slots: int) -> IntArray:
        """The largest backlog of each device, ``[rows, U]``."""
        if self.truncation is not None:
            return np.full(rates.shape, self.truncation)
        most = sufficient_truncation(rates, levels.mean(axis=1), slots, self.rare)
        return np.minimum(most, np.ceil(_PATIENCE * (rates + 1)).astype(np.int64))


@lru_cache(maxsize=32)  # by object: a decision must not compute all levels again
def _contents(planning: Planning, name: str) -> tuple[bytes, bytes]:
    """The values that a plan depends on, so that equal networks share their plans."""
    levels = fine_levels(planning, name)
    return levels.tobytes(), planning.arrival_chances(_SAMPLE_RATES, _SAMPLE_COUNTS).tobytes()


class _Cache:
    """The tables used last, up to a total size."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, DecisionTable] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable) -> DecisionTable | None:
        table = self._kept.get(key)
        if table is not None:
            self._kept.move_to_end(key)
        return table

    def put(self, key: Hashable, table: DecisionTable) -> None:
        self._kept[key] = table
        self._bytes += table.gains.nbytes + table.bias.nbytes
        while self._bytes > _MOST_BYTES and len(self._kept) > 1:
            _, old = self._kept.popitem(last=False)
            self._bytes -= old.gains.nbytes + old.bias.nbytes


_CACHE = _Cache()
