"""What one scheduler brought on some instances: all that tables and figures are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.trace import Trace
from fedwave.types import Array, FloatArray, IntArray

if TYPE_CHECKING:
    from fedwave.learning.curves import Curves

CURVES = ("loss", "accuracy", "class_accuracy", "accuracy_on_all")


@dataclass(frozen=True, eq=False)
class Outcome:
    """One scheduler; the instances stand in axis 1 of the series and in axis 0 of the rest."""

    instances: tuple[int, ...]
    series: Mapping[str, Array]  # [T, I]
    uploads: IntArray  # [I, U] uploads that arrived
    learned: IntArray  # [I, U] shards that arrived with them
    curves: Curves | None = None  # if a task was trained

    @classmethod
    def of(cls, trace: Trace, curves: Curves | None = None) -> Outcome:
        instances = tuple(trace.provenance["instances"])
        return cls(
            instances, trace.series, trace.totals["device_uploads"], trace.final.learned, curves
        )

    @property
    def rounds(self) -> int:
        return int(self.score.shape[0])

    @property
    def score(self) -> FloatArray:
        """``[T, I]``."""
        return self.series["score"]

    @property
    def backlog(self) -> IntArray:
        """``[T, I]``."""
        return self.series["backlog"]

    def same_as(self, other: Outcome) -> bool:
        """Did exactly the same happen?"""
        mine, theirs = self._arrays(), other._arrays()
        return self.instances == other.instances and (
            mine.keys() == theirs.keys()
            and all(np.array_equal(mine[k], theirs[k], equal_nan=True) for k in mine)
        )

    def _arrays(self) -> dict[str, Any]:
        arrays: dict[str, Any] = {
            **self.series,
            "uploads_of": self.uploads,
            "learned": self.learned,
        }
        if self.curves is not None:
            arrays |= {name: getattr(self.curves, name) for name in CURVES}
        return arrays


Outcomes = Mapping[str, Outcome]  # by the scheduler's label


def joined(parts: Sequence[Outcome]) -> Outcome:
    """Blocks of instances of one scheduler as a whole, in the order of their numbers."""
    parts = sorted(parts, key=lambda part: part.instances[0])
    first = parts[0]
    curves = first.curves
    if curves is not None:
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(part.curves, name) for part in parts], axis=1)
            for name in CURVES
        }
        curves = replace(curves, **arrays)
    return Outcome(
        tuple(i for part in parts for i in part.instances),
        {k: np.concatenate([part.series[k] for part in parts], axis=1) for k in first.series},
        np.concatenate([part.uploads for part in parts]),
        np.concatenate([part.learned for part in parts]),
        curves,
    )
