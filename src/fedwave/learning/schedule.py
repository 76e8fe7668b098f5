"""What training needs from a Trace, run by run, and which local training can be left out.

A *run* is one instance of one trace: one scheduler on one world, and one central model that is trained by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedwave.aggregation import Aggregation, Uploads, uploads_of_rounds
from fedwave.errors import FedwaveError
from fedwave.trace import Trace
from fedwave.types import Array, BoolArray, FloatArray, IntArray


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
    shards = trace.accepted
    return [
        TrainingRun(
            trace.label,
            trace.seed,
            int(instance),
            trace.scheduled[:, i],
            trace.delivered[:, i],
            shards[:, i],
            trace.heard[:, i],
            trace.delay[:, i],
            trace.learned[:, i],
        )
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
        needed = np.stack([needed_training(run, rule, tolerance) for run in runs], axis=1)
        return cls(stacked("scheduled"), shards, stacked("heard"), uploads, needed)

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


def rounds_until_delivery(delivered: BoolArray) -> FloatArray:
    """j for every (round, device), ``[T, U]``: 0 if delivered in this very round, inf if never again.

    >>> rounds_until_delivery(np.array([[False], [True], [False]])).ravel()
    array([ 1.,  0., inf])
    """
    left = np.full(delivered.shape, np.inf)
    after = np.full(delivered.shape[1], np.inf)
    for t in reversed(range(delivered.shape[0])):
        after = np.where(delivered[t], 0.0, after + 1)
        left[t] = after
    return left


def needed_training(run: TrainingRun, rule: Aggregation, tolerance: float) -> BoolArray:
    """Which local training changes the central model by more than ``tolerance`` of an update, ``[T, U]``.

    A gradient computed j rounds before its delivery enters with weight beta^j. Tolerance 0 keeps everything.
    A device that misses a broadcast starts from its own last parameters, so the training that made
    them counts in full and is kept too. If data wait, a device trains when it is scheduled.
    """
    if rule.waits:
        return run.scheduled & (run.uploads(rule).mass > 0)
    trains = run.shards > 0
    if tolerance == 0:
        return trains
    left = rounds_until_delivery(run.delivered)
    ever = np.isfinite(left)
    weight = np.where(ever, np.power(min(rule.beta, 1.0), np.where(ever, left, 0.0)), 0.0)
    # A power is rounded differently from processor to processor: one that equals the tolerance is not above it.
    needed: BoolArray = trains & (weight > tolerance * (1 + 1e-9))
    for t in reversed(range(1, run.rounds)):
        for u in np.flatnonzero(needed[t] & ~run.heard[t]):
            source = _source_of_parameters(run, t, int(u))
            if source is not None:
                needed[source, u] = True
    return needed


def _source_of_parameters(run: TrainingRun, t: int, u: int) -> int | None:
    """The row of the training that made the parameters of device u at the start of row t; None for a broadcast."""
    for before in reversed(range(t)):
        if run.shards[before, u] > 0:
            return before
        if run.heard[before, u]:  # it has since heard a newer model
            return None
    return None
