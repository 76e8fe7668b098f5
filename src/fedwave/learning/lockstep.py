"""Training in lock step with the simulation, for schedulers that use the models.

The devices of a round train before the access point decides, because local training does not depend on the decision.
The results are an ordinary Trace and the curves; a replay of the trace gives the same curves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedwave.aggregation import after_delivery
from fedwave.errors import as_int
from fedwave.learning.curves import Curves
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.replay import Replay, TrainedLanes
from fedwave.learning.schedule import TrainingRun, TrainingSchedule, training_runs
from fedwave.learning.settings import Settings
from fedwave.learning.task import Task
from fedwave.learning.train import what_to_train
from fedwave.network.network import Network, check_network
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.base import scheduler as find_scheduler
from fedwave.simulation import Meter, instance_numbers, simulate
from fedwave.trace import Trace
from fedwave.types import Array, BoolArray, Decision, FloatArray, IntArray, NetworkState


class LockStep:
    """A Learner (types.py) that trains every instance of a run as the run is played."""

    def __init__(
        self,
        network: Network,
        task: Task,
        rounds: int,
        instances: Sequence[int],
        seed: int,
        label: str,
        settings: Settings,
        sizes: EvaluationSizes,
    ) -> None:
        misses = bool(np.any(np.asarray(network.table.miss_probability) > 0))
        runs = [_blank(label, seed, i, rounds, network.size, misses) for i in instances]
        # It is not known in advance which training matters, so none is left out.
        self.replay = Replay(runs, task, replace(settings, tolerance=0.0), sizes)
        self._trained: TrainedLanes

    def resume(self, trace: Trace) -> None:
        """Restore the counts of a trace that was played before; a checkpoint restores the models."""
        before = TrainingSchedule.of(training_runs(trace), self.replay.task.aggregation, 0.0)
        for mine, theirs in zip(_arrays(self.replay.schedule), _arrays(before), strict=True):
            mine[: trace.rounds] = theirs

    def train(
        self, round_: int, shards: IntArray, heard: BoolArray | None, delay: IntArray
    ) -> Mapping[str, FloatArray]:
        t, rule, schedule = round_ - 1, self.replay.task.aggregation, self.replay.schedule
        uploads = schedule.uploads
        for amounts, age in ((uploads.mass, rule.age), (uploads.trainings, rule.age_trainings)):
            # Before round 1 the last row, which is still zero.
            amounts[t] = age(after_delivery(amounts[t - 1], uploads.delivered[t - 1]), shards)
        uploads.delay[t], schedule.shards[t] = delay, shards
        schedule.heard[t] = True if heard is None else heard
        # If data wait, every device with waiting data trains, because any of them may be scheduled.
        schedule.needed[t] = (uploads.mass[t] if rule.waits else shards) > 0
        self._trained = self.replay.train_round()
        norms = self.replay.undelivered.norms() * self.replay.task.eta * rule.rate(delay)
        return {"update_norm": np.nan_to_num(norms, nan=0.0, posinf=0.0)}

    def deliver(self, decision: Decision, after: NetworkState) -> None:
        scheduled, t, schedule = decision.transmits, self.replay.round, self.replay.schedule
        schedule.scheduled[t] = scheduled
        schedule.uploads.delivered[t] = after.delivered
        schedule.uploads.learned[t] = after.learned
        trained = self._trained
        if self.replay.task.aggregation.waits:
            # A device that was not scheduled would not have trained: its result is dropped.
            trained = trained.without(~scheduled)
        self.replay.deliver(trained)
        self.replay.evaluate()


def train_in_lock_step(
    network: Network,
    scheduler: str | Scheduler,
    task: Task | str | Mapping[str, Any],
    rounds: int,
    instances: int | Sequence[int],
    seed: int = 0,
    *,
    sizes: EvaluationSizes | None = None,
    meter: Meter | None = None,
    **settings: Any,
) -> tuple[Trace, Curves]:
    """Simulate and train together, for a scheduler that looks at the models; returns the trace and the curves.

    For any other scheduler, ``simulate`` and ``train`` give the same trace and curves faster.

    ``network``, ``scheduler``, ``rounds``, ``instances`` and ``seed`` are as in ``simulate``, ``task``, ``sizes`` and
    ``settings`` as in ``train``. The tolerance has no effect: which training matters is not known in advance. ``meter``
    is called with 1 after every round. The curves hold the final weights.

    Arrays of the trace are ``[round, instance, device]``, those of the curves ``[round, instance]``:

    >>> import fedwave as fw
    >>> task = fw.task("synthetic:train=100,test=50", model="logistic", epochs=1)
    >>> trace, curves = fw.train_in_lock_step(fw.random_network(3, 1), "update-aware", task, rounds=4, instances=2)
    >>> trace.scheduled.shape, curves.accuracy.shape
    ((4, 2, 3), (4, 2))
    """
    check_network(network)
    chosen = find_scheduler(scheduler)
    learnt, how, images = what_to_train("train_in_lock_step", task, sizes, settings)
    rounds, seed = as_int("rounds", rounds, 1), as_int("seed", seed, 0)
    numbers = list(instance_numbers(instances))
    learner = LockStep(network, learnt, rounds, numbers, seed, chosen.name, how, images)
    trace = simulate(network, chosen, rounds, numbers, seed, meter=meter, labels=learnt.labels(), learner=learner)
    return trace, learner.replay.curves(weights=True)[0]


def _arrays(schedule: TrainingSchedule) -> list[Array]:
    """Arrays of the rounds that were played."""
    return [schedule.scheduled, schedule.shards, schedule.heard, *vars(schedule.uploads).values()]


def _blank(label: str, seed: int, instance: int, rounds: int, devices: int, misses: bool) -> TrainingRun:
    """An empty run, filled while it is played."""
    shape = (rounds, devices)
    return TrainingRun(
        label,
        seed,
        instance,
        scheduled=np.zeros(shape, np.bool_),
        delivered=np.zeros(shape, np.bool_),
        shards=np.zeros(shape, np.int64),
        heard=np.full(shape, not misses),  # if a broadcast can be missed, Replay keeps a model for every device
        delay=np.ones(shape, np.int64),
        learned=np.zeros(shape, np.int64),
    )
