"""The only round loop. Network + seed -> World; scheduler and dynamics -> Trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, counted, is_list, is_whole, length_of, shown, whole
from fedwave.memory import check_memory
from fedwave.metrics import Metric, Watch
from fedwave.network.dynamics import accept, step, step_labels
from fedwave.network.network import Network, check_network
from fedwave.network.partition import Labels
from fedwave.network.world import World, arriving, block_bytes
from fedwave.parts import registry
from fedwave.parts.serialize import pack
from fedwave.recalled import recalled
from fedwave.recording import Recorder, record_bytes
from fedwave.rng import Draws
from fedwave.schedulers.base import Scheduler, checked_decision
from fedwave.schedulers.base import scheduler as find_scheduler
from fedwave.trace import Trace
from fedwave.trace_check import check_continues
from fedwave.types import (
    INFORMATION,
    Array,
    FloatArray,
    IntArray,
    LabelState,
    Learner,
    NetworkState,
    Observation,
    PlayedRound,
    State,
    WorldRound,
    freeze,
)
from fedwave.version import __version__

# Called with the number of rounds just played; numerics never print.
Meter = Callable[[int], None]
SchedulerLike = str | Mapping[str, Any] | Scheduler
MetricLike = str | Mapping[str, Any] | Metric

# Bytes of every instance (generators) and of every device of it (counts, state, what a round computes).
_OF_INSTANCE, _OF_DEVICE = 3200, 100
_OF_LABEL = 40  # and of every class at a device: what waited, was delivered, arrived, and both after the round


def simulation_bytes(devices: int, rounds: int, instances: int, series: int, *, full: bool) -> float:
    """About how much memory a simulation takes at its most, beside the network; ``series``: its metrics."""
    small = float(instances) * (_OF_INSTANCE + _OF_DEVICE * devices)
    record = record_bytes(rounds, instances, devices, series, full=full)
    return small + block_bytes(instances, devices) + record


class Simulation:
    """A run that can be played in pieces; ``trace()`` is what happened so far."""

    def __init__(
        self,
        network: Network,
        scheduler: Scheduler,
        rounds: int,
        provenance: Mapping[str, Any],
        constants: Mapping[str, Array],
        watch: Watch,
        *,
        labels: Labels | None = None,
        learner: Learner | None = None,
        meter: Meter | None = None,
        begun: Trace | None = None,
    ) -> None:
        _check_learner(scheduler, learner)
        ids = np.array(provenance["instances"], dtype=np.int64)
        network.check_run(rounds, ids)
        self.network, self.scheduler, self.rounds = network, scheduler, rounds
        self.provenance, self._constants, self._watch = provenance, constants, watch
        self._learner, self._meter = learner, meter
        self._problem = network.problem(ids.size)
        self._recorder = Recorder(rounds, full=provenance["record"] == "full")
        self.round = 0  # the last one played
        if begun is None:
            self._counts = NetworkState.initial(ids.size, network.size)
            self._state = scheduler.start(self._problem)
            self._memories = watch.start(self._problem)
            self._labels = None if labels is None else LabelState.initial(ids.size, network.size, labels.classes)
        else:
            check_continues(begun, scheduler, watch, self._problem)
            self.round, self._counts, self._state = begun.rounds, begun.final, begun.scheduler_state
            self._memories = {m.name: begun.memory_of(m.name) for m in watch.metrics}
            self._recorder.restore(begun.groups())
            self._labels = None if labels is None else LabelState(**begun.labels)
        freeze(self._state, self._memories)
        self._draws = Draws(provenance["seed"], ids)
        self._world = World(network, provenance["seed"], ids, labels)
        if begun is not None:
            self._world.remember(begun.rounds, begun.channel)
        self._world_rounds = self._world.rounds(self.round + 1, rounds)
        limit = np.asarray(network.table.buffer_limit)
        self._buffer_limit = limit if np.isfinite(limit).any() else None

    @classmethod
    def begin(
        cls,
        network: Network,
        scheduler: SchedulerLike,
        rounds: int = 500,
        instances: int | Sequence[int] = 50,
        seed: int = 0,
        *,
        record: str = "full",
        beliefs: bool = False,
        metrics: Iterable[MetricLike] = (),
        labels: Labels | None = None,
        learner: Learner | None = None,
        meter: Meter | None = None,
    ) -> Simulation:
        """A run before its first round; the parameters are those of ``simulate``."""
        check_network(network)
        rounds, seed = whole("rounds", rounds, 1), whole("seed", seed, 0)
        if not isinstance(record, str) or record not in ("full", "summary"):
            raise FedwaveError(f"record is {shown(record)}, must be 'full' or 'summary'.")
        if not isinstance(beliefs, bool):
            raise FedwaveError(f"beliefs is {shown(beliefs)}, must be True or False.")
        chosen, watch = find_scheduler(scheduler), Watch(metrics)
        labels = _labels_for(chosen, labels)
        count = _how_many(instances)
        if count is not None:  # before they are counted out
            _check_memory(network, rounds, count, watch, record, labels=labels)
        ids = instance_numbers(instances)
        constants: dict[str, Array] = {}
        provenance = {
            "fedwave": __version__,
            "network": pack(network, constants, "network"),
            "scheduler": pack(chosen, constants, "scheduler"),
            "scheduler_name": chosen.name,
            "label": _label(scheduler, chosen),
            "seed": seed,
            "instances": ids.tolist(),
            "record": record,
            "keep_beliefs": beliefs,
            "chance": list(network.chance),
            # Training and labels are random too.
            "own_draws": chosen.random or bool({"learner", "labels"} & chosen.needs),
            "metrics": watch.descriptions(),
            "more_metrics": pack(list(watch.more), constants, "more_metrics"),
        }
        if labels is not None:
            provenance["labels"] = pack(labels, constants, "labels")
        return cls(network, chosen, rounds, provenance, constants, watch, labels=labels, learner=learner, meter=meter)

    @classmethod
    def resume(
        cls,
        trace: Trace,
        rounds: int,
        *,
        network: Network | None = None,
        scheduler: Scheduler | None = None,
        metrics: Iterable[Metric] | None = None,
        labels: Labels | None = None,
        learner: Learner | None = None,
        meter: Meter | None = None,
    ) -> Simulation:
        """A run where a trace stopped, until it has ``rounds`` rounds; the parameters are those of ``extend``."""
        more = None if metrics is None else list(Watch(metrics).more)
        watch, network = (Watch(recalled(trace, "more_metrics", more)), recalled(trace, "network", network))
        chosen = recalled(trace, "scheduler", scheduler)
        if "labels" not in chosen.needs:
            labels = None
        elif "labels" in trace.provenance:
            labels = recalled(trace, "labels", labels)
        else:
            raise FedwaveError(f"scheduler {chosen.name!r} sees labels, but the trace has none.")
        made = trace.provenance
        kept = sum(rows[0].nbytes for rows in trace.beliefs.values())
        _check_memory(network, rounds, len(made["instances"]), watch, made["record"], kept, labels=labels)
        return cls(
            network,
            chosen,
            rounds,
            made,
            trace.constants,
            watch,
            labels=labels,
            learner=learner,
            meter=meter,
            begun=trace,
        )

    def play(self, rounds: int | None = None) -> None:
        """Play this many more rounds; None: all that are left."""
        last = self.rounds if rounds is None else min(self.round + rounds, self.rounds)
        while self.round < last:
            self._play_round(next(self._world_rounds))
            if self._meter is not None:
                self._meter(1)

    def trace(self) -> Trace:
        """What happened so far."""
        kept = self._recorder

        def so_far(group: Mapping[str, Array]) -> dict[str, Array]:
            return {name: rows[: self.round] for name, rows in group.items()}

        return Trace(
            series=so_far(kept.series),
            devices=so_far(kept.devices),
            beliefs=so_far(kept.beliefs),
            accumulated=dict(kept.accumulated),
            final=self._counts,
            scheduler_state=self._state,
            memories={f"{m}.{k}": v for m, own in self._memories.items() for k, v in own.items()},
            provenance=self.provenance,
            constants=self._constants,
            channel=self._world.channel_after(self.round),
            labels=self._kept_labels(),
        )

    def _kept_labels(self) -> State:
        state = self._labels
        return {} if state is None else {"waiting": state.waiting, "learned": state.learned}

    def _play_round(self, world: WorldRound) -> None:
        counts, learner = self._counts, self._learner
        accepted = accept(counts, world.arrivals, self._buffer_limit)
        freeze(accepted)
        signals: Mapping[str, FloatArray] = {}
        if learner is not None:
            signals = learner.train(world.round, accepted, world.heard, counts.delay)
        seen = self._observe(world, signals)
        decision, self._state = self.scheduler.decide(self._state, seen, self._draws.at(world.round))
        freeze(self._state)
        decision = checked_decision(decision, seen, self.scheduler)
        ideal = self.scheduler.ideal
        delivered = decision.transmits if ideal else arriving(self.network, world, decision)
        after, score = step(counts, delivered, world.arrivals, accepted, self.network.gamma)
        if self._labels is not None:
            arrived = self._world.label_counts(world.round, accepted)
            self._labels = step_labels(self._labels, delivered, arrived)
        if learner is not None:
            learner.deliver(decision, after)
        freeze(score)
        played = PlayedRound(world, decision, counts, after, accepted, score)
        self._memories, values = self._watch.measure(self._memories, played)
        beliefs = self.scheduler.beliefs(self._state) if self.provenance["keep_beliefs"] else {}
        if beliefs and not self._recorder.beliefs:  # before memory is taken for them
            self._check_beliefs(beliefs)
        self._recorder.write(self._watch.metrics, values, played, beliefs)
        self._counts, self.round = after, world.round

    def _check_beliefs(self, beliefs: State) -> None:
        made, kept = self.provenance, sum(np.asarray(value).nbytes for value in beliefs.values())
        instances = len(made["instances"])
        _check_memory(self.network, self.rounds, instances, self._watch, made["record"], kept)

    def _observe(self, world: WorldRound, signals: Mapping[str, FloatArray]) -> Observation:
        """The Observation of a round, with only what the scheduler declared."""
        counts, network = self._counts, self.network
        everything = {
            "gain": world.gain,
            "snr": world.snr,
            "success": world.success,
            "waiting": counts.waiting,
            "rates": network.rates,
            "planning": network.planning,
            **signals,
        }
        if self._labels is not None:
            everything["label_counts"] = self._labels.learned
        allowed = {n: everything[n] for need in self.scheduler.needs for n in INFORMATION[need]}
        return Observation(
            problem=self._problem,
            round=world.round,
            slots=network.slots_in(world.round),
            delay=counts.delay,
            delivered=counts.delivered,
            reported=counts.reported,
            **allowed,
        )


def _label(given: SchedulerLike, chosen: Scheduler) -> str:
    """The scheduler with the parameters that it was given."""
    return registry.text(given if isinstance(given, (str, Mapping)) else registry.spec_of(chosen))


def _check_memory(
    network: Network,
    rounds: int,
    instances: int,
    watch: Watch,
    record: str,
    beliefs: int = 0,
    labels: Labels | None = None,
) -> None:
    """``beliefs`` are the bytes that are kept of them each round, which are known after the first one."""
    full, devices = record == "full", network.size
    need = simulation_bytes(devices, rounds, instances, len(watch.metrics), full=full)
    if labels is not None:
        need += _OF_LABEL * float(instances) * devices * labels.classes
    sizes = (rounds, "round"), (instances, "instance"), (devices, "device")
    what = f"a simulation of {', '.join(counted(*one) for one in sizes)}"
    lower = "lower one of them" + (', or record="summary"' if full else "")
    if beliefs:
        what, lower = (f"{what} and what the scheduler believed in each", f"{lower}, or beliefs=False")
    check_memory(what, need + float(rounds) * beliefs, lower)


def _labels_for(scheduler: Scheduler, labels: Labels | None) -> Labels | None:
    """The labels, where the scheduler sees them: other runs are the same with and without."""
    if "labels" not in scheduler.needs:
        return None
    if labels is None:
        raise FedwaveError(
            f"scheduler {scheduler.name!r} sees the labels that devices report: give them by "
            "labels=fw.partition.Labels('dirichlet:alpha=0.2') or labels=task.labels(), or name a task."
        )
    if not isinstance(labels, Labels):
        raise FedwaveError(f"labels is {shown(labels)}, must be fw.partition.Labels(...) or task.labels().")
    return labels


def _check_learner(scheduler: Scheduler, learner: Learner | None) -> None:
    if learner is not None and not all(callable(getattr(learner, name, None)) for name in ("train", "deliver")):
        raise FedwaveError(f"learner is {shown(learner)}, must have train and deliver: use fw.train_in_lock_step.")
    if "learner" in scheduler.needs and learner is None:
        raise FedwaveError(
            f"scheduler {scheduler.name!r} looks at the models, so it runs only while they are trained: "
            "use fedwave train, or fw.train_in_lock_step."
        )


def _how_many(instances: Any) -> int | None:
    """The number of instances, if it can be told before they are counted out."""
    if is_list(instances):
        return length_of(instances) if isinstance(instances, Sized) else None
    return int(instances) if is_whole(instances) else None


def instance_numbers(instances: int | Iterable[int]) -> IntArray:
    """The numbers of so many instances, or those in a list, each checked."""
    ids: list[Any] = []
    if is_whole(instances):
        ids = list(range(int(instances)))  # type: ignore[arg-type]
    elif is_list(instances):
        ids = list(instances)  # type: ignore[arg-type]
    if not ids or not all(is_whole(i) and 0 <= i < 2**63 for i in ids):
        raise FedwaveError(
            f"instances is {shown(instances)}, must be a whole number >= 1 or a list of instance numbers >= 0."
        )
    ids = [int(i) for i in ids]  # 0, 0.0 and False are one instance
    if len(set(ids)) < len(ids):
        raise FedwaveError("instances holds a number twice: copies of an instance are not independent; name each once.")
    return np.array(ids, dtype=np.int64)
