"""The useful mass of a schedule: how much local training reaches the central model, up to the largest step that helps.

It is known before any training. The mass M_t of a round counts the local steps that reach the central model
(aggregation.py). The stretch E_t is the length of the central step relative to the weighted mean of the local ones.
Steps beyond that mean do not help, so the useful mass of a round is

    V_t = M_t min(1, 1 / E_t).

Where devices hold different classes, the classes of the mass matter. A delivery counts for class c by the share of c
at its device. Let T_c be the useful mass of class c so far, divided by its share pi_c of all data. The knowledge of a
class grows with its mass and saturates as T_c / (T_c + s). The mean over the classes, turned back into a mass, is

    V = s A / (1 - A)     with     A = sum over c of pi_c T_c / (T_c + s).

If all devices hold the same classes, every T_c is V, and nothing changes. s = 100 shards is fitted, as
docs/prediction.md describes. With s = 0 the scarcest class alone would decide; with a large s only the sum would count.
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
        """The mass of a trace under an aggregation rule, with the rule's cap and server step."""
        uploads = uploads_of_rounds(rule, trace.delivered, trace.learned, trace.delay, trace.accepted)
        delivered, stretch = delivered_mass(rule, uploads), step_stretch(rule, uploads)
        if labels is None or labels.same_everywhere:
            return cls(delivered, stretch)
        by_class = _by_class(trace, rule, uploads, labels)
        # With a nonlinear server step the masses of the classes do not add up to the mass: scale them so that they do.
        if rule.has_server_step():
            total = by_class.sum(axis=-1)
            scale = np.divide(delivered, total, out=np.zeros(total.shape), where=total != 0)
            by_class = by_class * scale[..., None]
        return cls(delivered, stretch, by_class, labels.overall)

    @property
    def useful(self) -> FloatArray:
        """The increase of V in every round, ``[T, I]``."""
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
