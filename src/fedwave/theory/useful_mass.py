"""What a schedule teaches, known before any training: its delivered mass, and the part of it that is of use.

The mass M_t of a round counts the local steps that reach the central model (aggregation.py). It says nothing of how far
the central step goes beyond the local models: that is its stretch E_t, 1 for the weighted mean of local models. What
goes beyond that mean is of no use, so the useful mass is

    V_t = M_t min(1, 1 / E_t).

Where devices hold different classes, it matters whose mass it is. Let T_c be the useful mass of class c so far, divided
by its share pi_c of all data: a delivery counts by the shares of the classes at its device. What is known of a class
grows with its mass and saturates, as T_c / (T_c + s). The mean of that over the classes,

    A = sum over c of pi_c T_c / (T_c + s),     is turned back into a mass:     V = s A / (1 - A).

If all devices hold the same classes, all T_c are V, and nothing changes. s = 100 shards is fitted
(docs/prediction.md says to what); with s = 0 the scarcest class would decide alone, with a large s only the sum would
count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.aggregation import Aggregation, Uploads, delivered_mass, step_stretch, through_server, uploads_of_rounds
from fedwave.network.partition import Labels
from fedwave.trace import Trace
from fedwave.types import FloatArray

_HALF_KNOWN = 100.0  # s, in shards


@dataclass(frozen=True, eq=False)
class ScheduleMass:
    """The mass of every round of a schedule."""

    delivered: FloatArray  # M_t, [T, I]
    stretch: FloatArray  # E_t, [T, I]; 0 where nothing is delivered
    by_class: FloatArray | None = None  # M_t of each class, [T, I, C], if devices hold different ones
    overall: FloatArray | None = None  # pi, [C]

    @classmethod
    def of(cls, trace: Trace, rule: Aggregation, labels: Labels | None = None) -> ScheduleMass:
        """That of a trace under an aggregation rule; its limits are in all of it."""
        uploads = uploads_of_rounds(rule, trace.delivered, trace.learned, trace.delay, trace.accepted)
        delivered, stretch = delivered_mass(rule, uploads), step_stretch(rule, uploads)
        if labels is None or labels.same_everywhere:
            return cls(delivered, stretch)
        by_class = _by_class(trace, rule, uploads, labels)
        # A server step that is not linear makes something else of the sum than of its parts.
        if rule.has_server_step():
            total = by_class.sum(axis=-1)
            scale = np.divide(delivered, total, out=np.zeros(total.shape), where=total != 0)
            by_class = by_class * scale[..., None]
        return cls(delivered, stretch, by_class, labels.overall)

    @property
    def useful(self) -> FloatArray:
        """What every round adds to V, ``[T, I]``."""
        scale = 1 / np.maximum(self.stretch, 1.0)
        if self.by_class is None or self.overall is None:
            return self.delivered * scale
        so_far = (self.by_class * scale[..., None]).cumsum(axis=0)
        full = so_far + _HALF_KNOWN * self.overall
        known = np.divide(self.overall * so_far, full, out=np.zeros(full.shape), where=full > 0)
        mean = known.sum(axis=-1)
        return np.diff(_HALF_KNOWN * mean / (1 - mean), axis=0, prepend=0.0)


def _by_class(trace: Trace, rule: Aggregation, uploads: Uploads, labels: Labels) -> FloatArray:
    shares = labels.shares(trace.seed, trace.instance_numbers, trace.delivered.shape[2])
    each = [through_server(rule, uploads, uploads.mass * shares[..., c]) for c in range(labels.classes)]
    return np.stack(each, axis=-1)
