"""What a schedule teaches, known before any training: its delivered mass, and the part of it that is of use.

The mass M_t of a round counts the local steps that reach the central model (aggregation.py). It says nothing of how far
the central step goes beyond the local models: that is its stretch E_t, 1 for the weighted mean of local models. What
goes beyond that mean is of no use, so the useful mass is

    V_t = M_t min(1, 1 / E_t).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.aggregation import Aggregation, delivered_mass, step_stretch, uploads_of_rounds
from fedwave.trace import Trace
from fedwave.types import FloatArray


@dataclass(frozen=True, eq=False)
class ScheduleMass:
    """The mass of every round of a schedule, ``[T, I]`` each."""

    delivered: FloatArray  # M_t
    stretch: FloatArray  # E_t; 0 where nothing is delivered

    @classmethod
    def of(cls, trace: Trace, rule: Aggregation) -> ScheduleMass:
        """That of a trace under an aggregation rule; its limits are in both."""
        uploads = uploads_of_rounds(
            rule, trace.delivered, trace.learned, trace.delay, trace.accepted
        )
        return cls(delivered_mass(rule, uploads), step_stretch(rule, uploads))

    @property
    def useful(self) -> FloatArray:
        """V_t."""
        return self.delivered / np.maximum(self.stretch, 1.0)
