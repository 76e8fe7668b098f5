"""Many single-device problems solved side by side, whatever the objective.

A state, the backlog or the delay, grows until an upload succeeds and then starts again. So one sweep from the largest
state down to the first evaluates a policy, and policy iteration takes a few sweeps. The sweep is in the file of each
objective. Shared are the batches, longer grids for problems whose grid is too short, and the record of solutions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from fedwave.types import Array, BoolArray, FloatArray, IntArray

MOST_SWEEPS = 60  # a few suffice; more are needed only if rounding errors make a tie alternate

S = TypeVar("S", bound="Solutions")


@dataclass(frozen=True, eq=False)
class Solutions:
    """Solutions of B problems.

    Arrays over states hold all solutions one after the other: solution b has ``length[b]`` states from ``start[b]`` on.
    """

    over_states: ClassVar[tuple[str, ...]] = ("worth",)

    service: FloatArray  # [B] transmissions per round
    error: FloatArray  # [B] by how much the optimum may be off because the largest states are cut off
    length: IntArray  # [B]
    start: IntArray  # [B]
    worth: FloatArray  # what a successful upload is worth in each state

    def select(self: S, which: BoolArray | IntArray) -> S:
        """Some of the problems, in the given order."""
        chosen = np.arange(self.start.size)[which]
        length = self.length[chosen]
        start = np.cumsum(length) - length
        states = np.repeat(self.start[chosen] - start, length) + np.arange(length.sum())
        arrays = {name: array[states if name in self.over_states else chosen] for name, array in _arrays(self)}
        return replace(self, **(arrays | {"start": start}))


def solve_in_batches(
    states: IntArray,
    cut: Callable[[IntArray, IntArray], list[IntArray]],
    solve: Callable[[IntArray, int], tuple[S, BoolArray]],
    growth: int,
    most: int,
) -> S:
    """Solve problems that begin with ``states`` ``[B]`` each; where that is too few, with ``growth`` times as many.

    ``cut(which, states)`` divides problems into batches. ``solve(batch, size)`` solves a batch with ``size`` states
    each and says which problems need more; they get at most ``most``.
    """
    parts: list[tuple[IntArray, S]] = []
    unsolved = np.arange(states.size)
    while unsolved.size:
        again = []
        for batch in cut(unsolved, states):
            size = int(states[batch].max())
            found, poor = solve(batch, size)
            poor = poor & (growth * size <= most)
            parts.append((batch[~poor], found.select(~poor)))
            again.append(batch[poor])
            states[batch[poor]] = growth * size
        unsolved = np.concatenate(again)
    return _joined(parts)


def _joined(parts: list[tuple[IntArray, S]]) -> S:
    """One record from several, each with the places of its problems."""
    places, records = [where for where, _ in parts], [found for _, found in parts]
    arrays = {name: np.concatenate([getattr(one, name) for one in records]) for name, _ in _arrays(records[0])}
    offsets = np.cumsum([0, *(one.worth.size for one in records[:-1])])
    start = np.concatenate([one.start + offset for one, offset in zip(records, offsets, strict=True)])
    return replace(records[0], **(arrays | {"start": start})).select(np.argsort(np.concatenate(places)))


def _arrays(record: Solutions) -> list[tuple[str, Array]]:
    named: list[tuple[str, Any]] = [(one.name, getattr(record, one.name)) for one in fields(record)]
    return [(name, value) for name, value in named if isinstance(value, np.ndarray)]
