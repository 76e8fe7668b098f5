"""The solutions of single-device problems: costs, service rates, and curves over the backlog."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.types import Array, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Curves:
    """Solutions of B problems; a curve over n is kept at lattice points and is straight between them.

    ``worth`` and ``value`` hold all curves one after the other: curve b has its points 0, ..., last[b] from
    start[b] on, ``unit[b]`` shards apart.
    """

    cost: FloatArray  # [B] g
    service: FloatArray  # [B] transmissions a round
    doubt: FloatArray  # [B] how much larger g could be without the cut-off in n
    unit: FloatArray  # [B]
    slope: FloatArray  # [B] of C beyond the last point
    last: IntArray  # [B]
    start: IntArray  # [B]
    worth: FloatArray  # C
    value: FloatArray  # v

    def worth_at(self, which: IntArray, backlog: Array) -> FloatArray:
        """C of problems ``which`` at these backlogs; the two are broadcast."""
        place = backlog / self.unit[which]
        point = np.minimum(place.astype(np.int64), self.last[which])
        rest = place - point
        at = self.start[which] + point
        low = self.worth[at]
        end = point == self.last[which]
        rise = np.where(end, self.slope[which] * self.unit[which], self.worth[at + ~end] - low)
        return low + rise * rest

    def select(self, which: BoolArray | IntArray) -> Curves:
        """Some of the problems, in the order given."""
        chosen = np.arange(self.cost.size)[which]
        length = self.last[chosen] + 1
        start = np.cumsum(length) - length
        points = np.repeat(self.start[chosen] - start, length) + np.arange(length.sum())
        return Curves(
            self.cost[chosen], self.service[chosen], self.doubt[chosen], self.unit[chosen],
            self.slope[chosen], self.last[chosen], start, self.worth[points], self.value[points],
        )  # fmt: skip


def joined(parts: list[tuple[IntArray, Curves]]) -> Curves:
    """One record from several, each with the places of its problems."""
    places = np.concatenate([where for where, _ in parts])
    lengths = [curves.worth.size for _, curves in parts]
    offsets = np.cumsum([0, *lengths[:-1]])

    def end_to_end(name: str) -> Array:
        return np.concatenate([getattr(curves, name) for _, curves in parts])

    start = np.concatenate(
        [c.start + offset for (_, c), offset in zip(parts, offsets, strict=True)]
    )
    whole = Curves(
        end_to_end("cost"), end_to_end("service"), end_to_end("doubt"), end_to_end("unit"),
        end_to_end("slope"), end_to_end("last"), start, end_to_end("worth"), end_to_end("value"),
    )  # fmt: skip
    return whole.select(np.argsort(places))
