"""What training needs from a Trace, run by run, and which local training can be left out.

A *run* is one instance of one trace: one scheduler on one world, and one central model that is trained by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedwave.aggregation import Aggregation, Uploads, uploads_of_rounds
from fedwave.errors import FedwaveError
from fedwave.trace import Trace
from fedwave.types import Array, BoolArray, IntArray


@dataclass(frozen=True)
class TrainingRun:
    """One instance of one trace; arrays ``[T, U]``, round t in row t - 1."""

    label: str  # the scheduler
    seed: int
    instance: int
    scheduled: BoolArray
    delivered: BoolArray
    shards: IntArray  # m: shards that arrived and found room
    heard: BoolArray  # the broadcast before the round
    delay: IntArray  # d in every round
    learned: IntArray  # N after every round

    @property
    def rounds(self) -> int:
        return int(self.shards.shape[0])

    def uploads(self, rule: Aggregation) -> Uploads:
        """The counts that an aggregation rule weighs uploads by, ``[T, U]``."""
        return uploads_of_rounds(rule, self.delivered, self.learned, self.delay, self.shards)


def training_runs(trace: Trace) -> list[TrainingRun]:
    """The runs of a trace, in the order of its instances."""
    arrays: dict[str, Any] = {"shards": trace.accepted}
    arrays |= {name: getattr(trace, name) for name in ("scheduled", "delivered", "heard", "delay", "learned")}
    return [
        TrainingRun(trace.label, trace.seed, int(instance), **{name: array[:, i] for name, array in arrays.items()})
        for i, instance in enumerate(trace.instance_numbers)
    ]


def labelled_runs(traces: Mapping[str, Trace]) -> list[TrainingRun]:
    """The runs of several traces, each with the label of its trace."""
    runs = [replace(run, label=label) for label, trace in traces.items() for run in training_runs(trace)]
    rounds = sorted({run.rounds for run in runs})
    if len(rounds) != 1:
        raise FedwaveError(
            f"the traces have {' and '.join(map(str, rounds))} rounds; those that are trained together must have the "
            "same number: train them one by one."
        )
    return runs


@dataclass(frozen=True, eq=False)
class TrainingSchedule:
    """What happens in all runs of a replay; arrays ``[T, R, U]``, round t in row t - 1."""

    scheduled: BoolArray
    shards: IntArray
    heard: BoolArray
    uploads: Uploads  # which devices delivered, and the counts that weigh their uploads
    needed: BoolArray  # the local training that has an effect

    @classmethod
    def of(cls, runs: Sequence[TrainingRun], rule: Aggregation, tolerance: float) -> TrainingSchedule:
        """The schedule of these runs; copies."""

        def stacked(name: str) -> Array:
            return np.stack([getattr(run, name) for run in runs], axis=1)

        shards = stacked("shards")
        delivered, learned, delay = (stacked(name) for name in ("delivered", "learned", "delay"))
        uploads = uploads_of_rounds(rule, delivered, learned, delay, shards)
        scheduled, heard = stacked("scheduled"), stacked("heard")
        if rule.waits:  # a device trains when it is scheduled
            needed = scheduled & (uploads.mass > 0)
        else:
            needed = needed_training(shards > 0, delivered, heard, rule.beta, tolerance)
        return cls(scheduled, shards, heard, uploads, needed)

    def most_lanes(self) -> int:
        """The largest number of models that are trained in a round, in all runs together."""
        return int(self.needed.sum(axis=(1, 2)).max(initial=0))

    def most_undelivered(self) -> int:
        """The largest number of gradients that wait for delivery at a time, in all runs together."""
        held, most = np.zeros(self.needed.shape[1:], np.bool_), 0
        for trains, delivered in zip(self.needed, self.uploads.delivered, strict=True):
            held |= trains
            most = max(most, int(held.sum()))
            held &= ~delivered
        return most


def needed_training(
    trains: BoolArray, delivered: BoolArray, heard: BoolArray, beta: float, tolerance: float
) -> BoolArray:
    """Which local training changes the central model by more than ``tolerance`` of an update; arrays ``[T, ..., U]``.

    A gradient computed j rounds before its delivery enters with weight beta^j. Tolerance 0 keeps everything.
    A device that misses a broadcast starts from its own last parameters, so the training that made
    them counts in full and is kept too.

    >>> trains, delivered = np.ones((3, 1), np.bool_), np.array([[False], [True], [False]])
    >>> needed_training(trains, delivered, heard=trains, beta=0.1, tolerance=0.01).ravel()
    array([ True,  True, False])
    """
    if tolerance == 0:
        return trains
    rounds = range(len(trains))
    left, after = np.full(trains.shape, np.inf), np.full(trains.shape[1:], np.inf)  # j; inf if never delivered
    for t in reversed(rounds):
        left[t] = after = np.where(delivered[t], 0.0, after + 1)
    weight = np.where(np.isfinite(left), np.power(beta, left), 0.0)
    # A power is rounded differently from processor to processor: one that equals the tolerance is not above it.
    needed: BoolArray = trains & (weight > tolerance * (1 + 1e-9))
    # The row of the training that made the parameters a device starts from; -1 where that is a broadcast.
    source, last = np.full(trains.shape, -1), np.full(trains.shape[1:], -1)
    for t in rounds:
        source[t] = np.where(heard[t], -1, last)
        last = np.where(trains[t], t, source[t])
    for t in reversed(rounds):
        who = np.nonzero(needed[t] & (source[t] >= 0))
        needed[(source[t][who], *who)] = True
    return needed
