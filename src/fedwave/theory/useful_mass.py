"""What a schedule teaches, known before any training: its delivered mass, and the part of it that is of use.

The mass M_t of a round counts the local steps that reach the central model (aggregation.py). It says nothing of how far
the central step goes beyond the local models. A device that was not heard for some rounds sends the sum of several
trainings, each from nearly the same place: with beta near 1 the central model then jumps that many times as far as any
local model went. With

    y_u(t) = 1 if device u trains in round t, plus beta y_u(t - 1), reset to 0 after a delivery,
    E_t = sum over delivered u of a_u y_u(t),

E_t is the *stretch* of the step: 1 is the weighted mean of local models, as in federated averaging. What goes beyond
that mean is of no use, so the useful mass is

    V_t = M_t min(1, 1 / E_t).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.aggregation import Aggregation, delivered_mass, uploads_of_rounds
from fedwave.trace import Trace
from fedwave.types import FloatArray


@dataclass(frozen=True, eq=False)
class ScheduleMass:
    """The mass of every round of a schedule, ``[T, I]`` each."""

    delivered: FloatArray  # M_t
    stretch: FloatArray  # E_t; 0 where nothing is delivered

    @classmethod
    def of(cls, trace: Trace, rule: Aggregation) -> ScheduleMass:
        """That of a trace under an aggregation rule; its caps are in M_t."""
        shards = trace.accepted
        uploads = uploads_of_rounds(rule, trace.delivered, trace.learned, trace.delay, shards)
        if rule.waits:  # data that wait are trained on once, however long they have waited
            trainings = (trace.scheduled & (uploads.mass > 0)).astype(np.float64)
        else:  # y ages as x does, with a training in place of its shards
            once = (shards > 0).astype(np.int64)
            trainings = uploads_of_rounds(
                rule, trace.delivered, trace.learned, trace.delay, once
            ).mass
        stretch = (rule.coefficients(uploads) * trainings).sum(axis=-1)
        return cls(delivered_mass(rule, uploads), stretch)

    @property
    def useful(self) -> FloatArray:
        """V_t."""
        return self.delivered / np.maximum(self.stretch, 1.0)
