"""What training needs of a Trace, run by run, and which local training it can do without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.trace import Trace
from fedwave.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Run:
    """One instance of one trace; arrays ``[T, U]``, round t in row t - 1."""

    label: str  # the scheduler
    seed: int
    instance: int
    scheduled: BoolArray
    delivered: BoolArray
    shards: IntArray  # m: shards that arrived and found room
    heard: BoolArray
    delay: IntArray  # d in every round
    weight: (
        FloatArray  # c: share of the device in the central update of the round, 0 if not delivered
    )

    @property
    def rounds(self) -> int:
        return int(self.shards.shape[0])


def runs_of(trace: Trace) -> list[Run]:
    """The runs of a trace, in the order of its instances."""
    shards = trace.arrivals - trace.lost
    held = trace.waiting + shards
    learned = np.cumsum(np.where(trace.delivered, held, 0), axis=0)  # N after every round
    weight = central_weights(trace.delivered, learned)
    delay = trace.delay
    return [
        Run(
            trace.scheduler, trace.provenance["seed"], int(instance), trace.scheduled[:, i],
            trace.delivered[:, i], shards[:, i], trace.heard[:, i], delay[:, i], weight[:, i],
        )
        for i, instance in enumerate(trace.provenance["instances"])
    ]  # fmt: skip


def central_weights(delivered: BoolArray, learned: IntArray) -> FloatArray:
    """c = N / sum of N for delivered devices, 0 for the others; ``learned`` is N after the round, ``[..., U]``."""
    total = learned.sum(axis=-1, keepdims=True)
    return np.where(delivered, learned / np.maximum(total, 1), 0.0)


def stored_shards(run: Run) -> IntArray:
    """Shards since the last delivery, this round's included: what a synchronous device trains on, ``[T, U]``."""
    stored = run.shards.astype(np.int64)
    for t in range(1, run.rounds):
        stored[t] += np.where(run.delivered[t - 1], 0, stored[t - 1])
    return stored


def rounds_until_delivery(delivered: BoolArray) -> FloatArray:
    """j for every (round, device): 0 if delivered in this very round, inf if never again, ``[T, U]``."""
    left = np.full(delivered.shape, np.inf)
    after = np.full(delivered.shape[1], np.inf)
    for t in reversed(range(delivered.shape[0])):
        after = np.where(delivered[t], 0.0, after + 1)
        left[t] = after
    return left


def needed_training(run: Run, beta: float, tolerance: float) -> BoolArray:
    """Which local training changes the central model by more than ``tolerance`` of an update, ``[T, U]``.

    A gradient computed j rounds before its delivery enters with weight beta^j. Tolerance 0 keeps everything.
    Where a device misses a broadcast it starts from its own last parameters, so the training that made
    them counts in full and is kept too.
    """
    trains = run.shards > 0
    if tolerance == 0:
        return trains
    left = rounds_until_delivery(run.delivered)
    weight = np.where(
        np.isinf(left), 0.0, np.power(float(beta), np.where(np.isinf(left), 0.0, left))
    )
    needed: BoolArray = trains & (weight > tolerance)
    for t in reversed(range(1, run.rounds)):
        for u in np.flatnonzero(needed[t] & ~run.heard[t]):
            source = _source_of_parameters(run, t, int(u))
            if source is not None:
                needed[source, u] = True
    return needed


def _source_of_parameters(run: Run, t: int, u: int) -> int | None:
    """The round whose training left the parameters that device u holds at the start of row t, if any did."""
    for before in reversed(range(t)):
        if run.shards[before, u] > 0:
            return before
        if run.heard[before, u]:  # it has since heard a newer model
            return None
    return None
