"""Training in lock step with the simulation, for schedulers that use the models.

The devices of a round train before the access point decides, because local training does not depend on the decision.
The results are an ordinary Trace and the curves; a replay of the trace gives the same curves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from fedwave.aggregation import after_delivery
from fedwave.errors import check_parameters, whole
from fedwave.learning.curves import Curves
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.replay import Meter, Replay, Settings, Trained
from fedwave.learning.schedule import Run, runs_of
from fedwave.learning.task import Task
from fedwave.learning.task import task as make_task
from fedwave.network.network import Network, check_network
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.base import scheduler as find_scheduler
from fedwave.simulate import simulate
from fedwave.trace import Trace
from fedwave.types import BoolArray, Decision, FloatArray, IntArray, NetworkState


class LockStep:
    """A Learner (types.py) that trains every instance of a run as the run is played."""

    def __init__(
        self, network: Network, task: Task, rounds: int, instances: Sequence[int], seed: int, label: str,
        settings: Settings, sizes: EvaluationSizes,
    ) -> None:  # fmt: skip
        misses = bool(np.any(np.asarray(network.table.miss_probability) > 0))
        runs = [_blank(label, seed, i, rounds, network.size, misses) for i in instances]
        # It is not known in advance which training matters, so none is left out.
        self.replay = Replay(runs, task, replace(settings, tolerance=0.0), sizes)
        self._trained: list[Trained] = []
        self._mass = np.zeros((len(instances), network.size))  # x, after the last round's uploads

    def go_on(self, trace: Trace) -> None:
        """Restore the counts of a trace; the models come from a checkpoint."""
        last = trace.rounds - 1
        for i, before in enumerate(runs_of(trace)):
            for name in ("scheduled", "delivered", "shards", "heard", "delay", "learned"):
                getattr(self.replay.runs[i], name)[: trace.rounds] = getattr(before, name)
            uploads = before.uploads(self.replay.task.aggregation)
            self._mass[i] = after_delivery(uploads.mass[last], uploads.delivered[last])

    def train(
        self, round_: int, shards: IntArray, heard: BoolArray | None, delay: IntArray
    ) -> Mapping[str, FloatArray]:
        t, rule = round_ - 1, self.replay.task.aggregation
        self._mass = rule.age(self._mass, shards)
        # If data wait, every device with waiting data trains, because any of them may be scheduled.
        trains = (self._mass if rule.waits else shards) > 0
        for i, run in enumerate(self.replay.runs):
            run.shards[t] = shards[i]
            run.heard[t] = True if heard is None else heard[i]
            run.delay[t] = delay[i]
            self.replay.uploads[i].mass[t] = self._mass[i]
            self.replay.needed[i][t] = trains[i]
        self._trained = self.replay.train_round()
        norms = np.zeros(shards.shape)
        for i, state in enumerate(self.replay.states):
            for u, psi in state.psi.items():
                norms[i, u] = sum(float((p.double() ** 2).sum()) for p in psi.values()) ** 0.5
        norms *= self.replay.task.eta * rule.rate(delay)
        return {"update_norm": np.nan_to_num(norms, nan=0.0, posinf=0.0)}

    def deliver(self, decision: Decision, after: NetworkState) -> None:
        scheduled = decision.transmits
        t = self.replay.round
        for i, run in enumerate(self.replay.runs):
            run.scheduled[t] = scheduled[i]
            run.delivered[t] = after.delivered[i]
            run.learned[t] = after.learned[i]
        self._mass = after_delivery(self._mass, after.delivered)
        if self.replay.task.aggregation.waits:
            # A device that was not scheduled would not have trained: its result is dropped.
            self._trained = [
                {u: result for u, result in mine.items() if scheduled[i, u]}
                for i, mine in enumerate(self._trained)
            ]
        self.replay.finish_round(self._trained)


def train_in_lock_step(
    network: Network,
    scheduler: str | Scheduler,
    task: Task | str | Mapping[str, Any],
    rounds: int,
    instances: int,
    seed: int = 0,
    *,
    sizes: EvaluationSizes | None = None,
    meter: Meter | None = None,
    **settings: Any,
) -> tuple[Trace, Curves]:
    """Simulate and train together; the trace and the curves. ``settings`` as in ``train``, less the tolerance."""
    check_network(network)
    chosen = find_scheduler(scheduler)
    check_parameters("train_in_lock_step", settings, [f.name for f in fields(Settings)])
    rounds, seed = whole("rounds", rounds, 1), whole("seed", seed, 0)
    instances = whole("instances", instances, 1)
    learner = LockStep(
        network,
        task if isinstance(task, Task) else make_task(task),
        rounds,
        range(instances),
        seed,
        chosen.name,
        Settings(**settings),
        sizes or EvaluationSizes(),
    )
    trace = simulate(network, chosen, rounds, instances, seed, meter=meter, learner=learner)
    curves = learner.replay.curves()[0]
    return trace, replace(curves, weights=learner.replay.weights_of(chosen.name))


def _blank(label: str, seed: int, instance: int, rounds: int, devices: int, misses: bool) -> Run:
    """An empty run, filled while it is played."""
    shape = (rounds, devices)
    heard = np.full(
        shape, not misses
    )  # False for now, so that Replay keeps where a device would start
    return Run(
        label, seed, instance, np.zeros(shape, np.bool_), np.zeros(shape, np.bool_),
        np.zeros(shape, np.int64), heard, np.ones(shape, np.int64), np.zeros(shape, np.int64),
    )  # fmt: skip
