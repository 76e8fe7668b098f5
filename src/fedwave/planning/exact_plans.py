"""Plans for small networks, solved when first asked for and then remembered by what they were asked for."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.planning.exact_model import SmallRound, check_devices, check_size
from fedwave.planning.exact_setup import (
    arrival_moves,
    backlogs,
    channel_levels,
    distinct_levels,
    enough,
    fine_levels,
)
from fedwave.planning.exact_solver import Table, best_tables
from fedwave.types import FloatArray, IntArray, Planning

_MOST_BYTES = 1 << 28
_MOST_TOGETHER = 1_000_000  # states of all networks solved at a time
_MOST_SHARDS = 1_000_000
_PATIENCE = 100  # rounds of arrivals, past which a device that hardly gets through is not looked at more closely
_SAMPLE_RATES, _SAMPLE_COUNTS = np.array([0.5, 8.0]), 32  # enough to tell arrival families apart


@dataclass(frozen=True)
class Plan:
    """How closely to look. ``truncation`` None follows the rates; ``steps`` puts that many steps below it."""

    name: str
    levels: int
    truncation: int | None = None
    steps: int | None = None
    rare: float = 1e-3
    tolerance: float = 1e-6

    def tables(self, planning: Planning, slots: int, rates: FloatArray) -> list[Table]:
        """The best decisions for each row of ``rates`` ``[rows, U]``."""
        check_devices(self.name, rates.shape[1])
        about = (self, slots, *_contents(planning, self.name))
        keys = [(about, row.tobytes()) for row in rates]
        found: dict[Hashable, Table | None] = {key: _SOLVED.get(key) for key in keys}
        missing = {key: row for key, row in zip(keys, rates, strict=True) if found[key] is None}
        if missing:
            solved = self._solve(planning, slots, np.array(list(missing.values())))
            for key, one in zip(missing, solved, strict=True):
                _SOLVED.put(key, one)
                found[key] = one
        return [table for key in keys if (table := found[key]) is not None]

    def _solve(self, planning: Planning, slots: int, rates: FloatArray) -> list[Table]:
        levels = channel_levels(planning, self.levels, self.name)
        most = self._truncation(rates, levels, slots)
        together = 1
        if self.steps is not None:  # only then all have equally many states
            together = max(1, _MOST_TOGETHER // (self.steps + 1) ** rates.shape[1])
        out: list[Table] = []
        for first in range(0, len(rates), together):
            part = slice(first, first + together)
            out += self._solve_alike(planning, slots, rates[part], levels, most[part])
        return out

    def _truncation(self, rates: FloatArray, levels: FloatArray, slots: int) -> IntArray:
        if self.truncation is not None:
            most = np.full(rates.shape, self.truncation)
        else:
            most = enough(rates, levels.mean(axis=1), slots, self.rare)
            most = np.minimum(most, np.ceil(_PATIENCE * (rates + 1)).astype(np.int64))
        different = [p.size for p, _ in distinct_levels(levels)]
        for row in most:
            points = row if self.steps is None else np.full(row.size, self.steps)
            check_size(self.name, points.tolist(), different, slots)
        if most.max() > _MOST_SHARDS:
            raise FedwaveError(
                f"{self.name} cannot plan for {rates.max():.3g} shards per round: "
                "count in larger shards, or use another scheduler."
            )
        return most

    def _solve_alike(
        self, planning: Planning, slots: int, rates: FloatArray, levels: FloatArray, most: IntArray
    ) -> list[Table]:
        step = np.ones(rates.shape) if self.steps is None else np.maximum(most / self.steps, 1.0)
        points = (most[0] if self.steps is None else np.full(most.shape[1], self.steps)) + 1
        moves = []
        for u, size in enumerate(points.tolist()):
            each = []
            for rate, width in zip(rates[:, u], step[:, u].tolist(), strict=True):
                chances = planning.arrival_chances(rate, math.ceil((size - 1) * width))
                each.append(arrival_moves(chances, size, width))
            moves.append(np.stack(each))
        states = backlogs(points.tolist(), step)
        round_ = SmallRound(distinct_levels(levels), slots, tuple(moves), states)
        return best_tables(round_, step, self.tolerance, self.name)


@lru_cache(maxsize=32)  # by object: a decision must not ask for all the chances again
def _contents(planning: Planning, name: str) -> tuple[bytes, bytes]:
    """What a plan depends on, so that equal networks share their plans."""
    levels = fine_levels(planning, name)
    return levels.tobytes(), planning.arrival_chances(_SAMPLE_RATES, _SAMPLE_COUNTS).tobytes()


class _Memory:
    """The plans last used, up to a size."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Table] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable) -> Table | None:
        table = self._kept.get(key)
        if table is not None:
            self._kept.move_to_end(key)
        return table

    def put(self, key: Hashable, table: Table) -> None:
        self._kept[key] = table
        self._bytes += table.gains.nbytes + table.bias.nbytes
        while self._bytes > _MOST_BYTES and len(self._kept) > 1:
            _, old = self._kept.popitem(last=False)
            self._bytes -= old.gains.nbytes + old.bias.nbytes


_SOLVED = _Memory()
