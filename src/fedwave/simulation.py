"""``fw.simulate``, ``fw.extend``, ``fw.remake`` and the only round loop.

A Setup (trace.py) says what is simulated. A Simulation draws its World, lets the scheduler decide round by round, and
records what happens as a Trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, as_int, is_list, is_whole, plural, short_repr
from fedwave.memory import check_memory
from fedwave.metrics import Metric, MetricSet
from fedwave.network.dynamics import accept, arriving, step, step_labels
from fedwave.network.network import Network, check_network
from fedwave.network.partition import Labels
from fedwave.network.world import World, block_bytes
from fedwave.parts import registry
from fedwave.parts.serialize import built, pack
from fedwave.rng import Draws
from fedwave.schedulers.base import Scheduler, checked_decision, decide_by_priority
from fedwave.schedulers.base import scheduler as find_scheduler
from fedwave.trace import PART_NAMES, Setup, Trace, same_parts
from fedwave.types import (
    DEVICE_ARRAYS,
    INFORMATION,
    Array,
    Decision,
    FloatArray,
    IntArray,
    LabelState,
    Learner,
    NetworkState,
    Observation,
    PlayedRound,
    Problem,
    State,
    WorldRound,
    checked_state,
    freeze,
)

# Called with the number of rounds just played; numerics never print.
Meter = Callable[[int], None]
SchedulerLike = str | Mapping[str, Any] | Scheduler
MetricLike = str | Mapping[str, Any] | Metric

# Bytes of every instance (generators) and of every device of it (counts, state, what a round computes).
_INSTANCE_BYTES, _DEVICE_BYTES = 3200, 100
_LABEL_BYTES = 40  # and of every class at a device: what waited, was delivered, arrived, and both after the round
_ROW_BYTES = sum(np.dtype(kind).itemsize for kind in DEVICE_ARRAYS.values())  # of a device in a round of a full record
_MOST_INSTANCES = 2**63 - 1  # the most that len() can return
_MOST_SHARDS = np.iinfo(np.int32).max  # of a device in a full record


def simulate(
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
) -> Trace:
    """Simulate one scheduler on a network.

    ``scheduler`` is a name, a name with parameters ("balsa:stage_rule=max1") or a Scheduler. ``instances`` is the
    number of independent repetitions, or a list of their numbers: instance 7 is the same whether 8 or 800 run.
    ``record="summary"`` keeps one number per round and instance instead of one per device, for large networks.
    ``beliefs`` records what a learning scheduler believed. ``metrics`` are measured in addition to the built-in ones.
    ``labels`` are the classes of the samples that arrive, for schedulers that see them: ``fw.partition.Labels``, or
    ``task.labels()``; other schedulers ignore them. ``learner`` trains in lock step, for schedulers that look at the
    models (``fw.train_in_lock_step`` makes one). ``meter`` is called with 1 after every round.

    >>> import fedwave as fw
    >>> trace = fw.simulate(fw.paper_network(), "alsa-pi", rounds=20, instances=3, seed=1)
    >>> trace.score.shape, trace.waiting.shape
    ((20, 3), (20, 3, 25))

    Two schedulers with the same seed meet the same world:

    >>> other = fw.simulate(fw.paper_network(), "age", rounds=20, instances=3, seed=1)
    >>> bool((other.gain == trace.gain).all()), bool((other.arrivals == trace.arrivals).all())
    (True, True)
    """
    setup = make_setup(
        network, scheduler, instances, seed, record=record, beliefs=beliefs, metrics=metrics, labels=labels
    )
    run = Simulation(setup, as_int("rounds", rounds, 1), learner=learner, meter=meter)
    run.play()
    return run.trace()


def extend(
    trace: Trace,
    rounds: int,
    *,
    network: Network | None = None,
    scheduler: Scheduler | None = None,
    metrics: Iterable[Metric] | None = None,
    labels: Labels | None = None,
    learner: Learner | None = None,
    meter: Meter | None = None,
) -> Trace:
    """Continue a trace until it has ``rounds`` rounds, as if it had never stopped.

    The trace holds everything that is needed, except a learner and, in a trace from a file, parts whose class is not
    registered: pass these again. A part that differs from that of the trace raises FedwaveError.

    >>> import fedwave as fw
    >>> begun = fw.simulate(fw.paper_network(), "balsa", rounds=10, instances=3)
    >>> fw.extend(begun, 20).same_as(fw.simulate(fw.paper_network(), "balsa", rounds=20, instances=3))
    True
    """
    setup = continued_setup(trace, network=network, scheduler=scheduler, metrics=metrics, labels=labels)
    rounds = as_int("rounds", rounds, 1)
    if rounds <= trace.rounds:
        raise FedwaveError(f"the trace has {trace.rounds} rounds already: ask for more than {rounds}.")
    try:
        run = Simulation(setup, rounds, begun=trace, learner=learner, meter=meter)
        run.play()
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise FedwaveError(
            f"scheduler {trace.label!r} cannot be continued from the state in the trace ({error})."
        ) from error
    return run.trace()


def remake(
    trace: Trace,
    *,
    network: Network | None = None,
    scheduler: Scheduler | None = None,
    labels: Labels | None = None,
    learner: Learner | None = None,
) -> Trace:
    """Run the simulation of a trace again, from its first round. The arguments are those of ``extend``.

    >>> import fedwave as fw
    >>> trace = fw.simulate(fw.paper_network(), "balsa", rounds=10, instances=3)
    >>> fw.remake(trace).same_as(trace)
    True
    """
    setup = continued_setup(trace, network=network, scheduler=scheduler, labels=labels)
    run = Simulation(setup, trace.rounds, learner=learner)
    run.play()
    return run.trace()


def make_setup(
    network: Network,
    scheduler: SchedulerLike,
    instances: int | Iterable[int],
    seed: int = 0,
    *,
    record: str = "full",
    beliefs: bool = False,
    metrics: Iterable[MetricLike] = (),
    labels: Labels | None = None,
) -> Setup:
    """The arguments of ``simulate``, checked, with names replaced by the parts."""
    check_network(network)
    if not isinstance(record, str) or record not in ("full", "summary"):
        raise FedwaveError(f"record is {short_repr(record)}, must be 'full' or 'summary'.")
    if not isinstance(beliefs, bool):
        raise FedwaveError(f"beliefs is {short_repr(beliefs)}, must be True or False.")
    chosen = find_scheduler(scheduler)
    label = registry.text(scheduler if isinstance(scheduler, (str, Mapping)) else chosen)
    if "labels" not in chosen.needs:
        labels = None  # its runs are the same with and without
    elif labels is not None and not isinstance(labels, Labels):
        raise FedwaveError(f"labels is {short_repr(labels)}, must be fw.partition.Labels(...) or task.labels().")
    numbers, seed = instance_numbers(instances), as_int("seed", seed, 0)
    more = MetricSet(metrics).more
    pack([network, chosen, more, labels], {}, "")  # raises FedwaveError for a part that no file could keep
    return Setup(network, chosen, label, numbers, seed, record, beliefs, more, labels)


def instance_numbers(instances: int | Iterable[int]) -> Sequence[int]:
    """Instance numbers: ``range(instances)``, or those of a list, which must differ."""
    ids: Any = range(int(instances)) if is_whole(instances) else instances  # type: ignore[arg-type]
    if isinstance(ids, range):  # it may be longer than memory allows
        ends = [*ids[:1], *ids[-1:]]
    else:
        ids = ends = list(ids) if is_list(ids) else []
    if not ends or not all(is_whole(i) and 0 <= i < _MOST_INSTANCES for i in ends):
        raise FedwaveError(
            f"instances is {short_repr(instances)}, must be a whole number >= 1 or a list of instance numbers "
            "from 0 to 2**63 - 2."
        )
    numbers: Sequence[int] = ids if isinstance(ids, range) else tuple(int(i) for i in ids)
    if not isinstance(numbers, range) and len(set(numbers)) < len(numbers):  # 0, 0.0 and False are one instance
        raise FedwaveError("instances holds a number twice: copies of an instance are not independent; name each once.")
    return numbers


def continued_setup(trace: Trace, **given: Any) -> Setup:
    """The setup of a trace with all parts built. A part that is given must be that of the trace.

    Raises FedwaveError otherwise, and if a part from a file is neither registered nor given.
    """
    if not isinstance(trace, Trace):
        raise FedwaveError(f"trace is {short_repr(trace)}, must be a Trace, as fw.simulate or fw.Trace.load returns.")
    parts: dict[str, Any] = {}
    for name in PART_NAMES:
        theirs, part = getattr(trace.setup, name), given.get(name)
        if part is None or (name == "labels" and theirs is None):  # its scheduler sees none
            parts[name] = built(theirs)
            continue
        if name == "network":
            check_network(part)
        parts[name] = MetricSet(part).more if name == "metrics" else part
        if not same_parts(name, parts[name], theirs):
            other = f"other {name}" if name.endswith("s") else f"another {name}"
            raise FedwaveError(
                f"the trace was made with {other} than {short_repr(part)}: pass the same, or simulate again."
            )
    return replace(trace.setup, **parts)


class Simulation:
    """A simulation that can be played in pieces. ``trace()`` returns what has happened so far.

    With ``begun``, a trace of the same setup, it continues after the last round of the trace.
    """

    def __init__(
        self,
        setup: Setup,
        rounds: int,
        *,
        begun: Trace | None = None,
        learner: Learner | None = None,
        meter: Meter | None = None,
    ) -> None:
        network, scheduler = setup.network, setup.scheduler
        self.setup, self.network, self.scheduler, self.rounds = setup, network, scheduler, rounds
        self._learner, self._meter, self._metrics = learner, meter, MetricSet(setup.metrics)
        _check_needs(setup, learner)
        self._check_memory({} if begun is None else {name: rows[0] for name, rows in begun.beliefs.items()})
        ids = np.array(setup.instances, dtype=np.int64)
        network.check_run(rounds, ids)
        self._problem = network.problem(ids.size)
        self._recorder = Recorder(rounds, full=setup.record == "full")
        self._draws = Draws(setup.seed, ids)
        self._world = World(network, setup.seed, ids, setup.labels)
        self._state = checked_state(
            f"scheduler {scheduler.name!r}: the state from start", scheduler.start(self._problem), ids.size
        )
        self._memories = self._metrics.start(self._problem)
        self.measured: Mapping[str, Array] = {}  # every metric's number in the last round
        if begun is None:
            self.round = 0  # the last one played
            self._counts = NetworkState.initial(ids.size, network.size)
            self._labels: LabelState | None = None
            if setup.labels is not None:
                self._labels = LabelState.initial(ids.size, network.size, setup.labels.classes)
        else:
            _check_continues(begun, scheduler, self._state, self._memories)
            self.round, self._counts, self._state, self._labels = begun.rounds, begun.final, begun.state, begun.labels
            self._memories = {name: begun.metric_memory(name) for name in self._memories}
            self._recorder.restore(begun)
            self._world.restore_channel(begun.rounds, begun.channel)
        freeze(self._state, self._memories)
        self._world_rounds = self._world.rounds(self.round + 1, rounds)
        self._begun: tuple[WorldRound, IntArray]  # the round that was observed and not yet finished
        limit = np.asarray(network.table.buffer_limit)
        self._buffer_limit = limit if np.isfinite(limit).any() else None

    def play(self, rounds: int | None = None) -> None:
        """Play this many more rounds, or all that are left."""
        last = self.rounds if rounds is None else min(self.round + rounds, self.rounds)
        while self.round < last:
            seen = self.observe()
            self.finish(seen, self.decide(seen))
            if self._meter is not None:
                self._meter(1)

    def observe(self) -> Observation:
        """Begin the next round: draw its world, train the devices if there is a learner, and return what is seen."""
        world, counts, learner = next(self._world_rounds), self._counts, self._learner
        accepted = accept(counts, world.arrivals, self._buffer_limit, world.available)
        freeze(accepted)
        signals: Mapping[str, Array] = {}
        if learner is not None:
            signals = learner.train(world.round, accepted, world.heard, counts.delay)
        self._begun = world, accepted
        if self._labels is not None:
            signals = {**signals, "label_counts": self._labels.learned}
        return observation(self.scheduler, self.network, self._problem, world, counts, signals)

    def decide(self, seen: Observation) -> Decision:
        """The decision of the scheduler, whose state it updates."""
        decision, self._state = self.scheduler.decide({**self._state}, seen, self._draws.at(seen.round))
        freeze(self._state)
        return decision

    def decide_by_priority(self, seen: Observation, priority: FloatArray) -> Decision:
        """The decision by priorities ``[I, U]`` from elsewhere; the state of the scheduler stays as it is."""
        return decide_by_priority(self.scheduler, priority, seen, self._draws.at(seen.round))

    def finish(self, seen: Observation, decision: Decision) -> PlayedRound:
        """Play the round that ``observe`` began with a decision, the scheduler's or another, and record it."""
        (world, accepted), counts, learner = self._begun, self._counts, self._learner
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
        played = PlayedRound(world, decision, counts, after, accepted, score, self.network)
        self._memories, self.measured = self._metrics.measure(self._memories, played)
        beliefs = self.scheduler.beliefs(self._state) if self.setup.beliefs else {}
        if beliefs and not self._recorder.beliefs:  # before memory is taken for them
            self._check_memory(beliefs)
        self._recorder.write(self._metrics.metrics, self.measured, played, beliefs)
        self._counts, self.round = after, world.round
        return played

    def trace(self) -> Trace:
        """The rounds played so far."""
        return Trace(
            self.setup,
            self._metrics.descriptions(),
            tuple(self.network.table.name or ()),
            **self._recorder.until(self.round),
            final=self._counts,
            state=self._state,
            memories={f"{m}.{k}": v for m, own in self._memories.items() for k, v in own.items()},
            labels=self._labels,
            channel=self._world.channel_after(self.round),
        )

    def _check_memory(self, beliefs: State) -> None:
        """Raises FedwaveError if the simulation does not fit into memory; ``beliefs`` are those of one round."""
        setup, labels, full = self.setup, self.setup.labels, self.setup.record == "full"
        instances, devices = len(setup.instances), self.network.size
        need = simulation_bytes(devices, self.rounds, instances, len(self._metrics.metrics), full=full)
        if labels is not None:
            need += _LABEL_BYTES * float(instances) * devices * labels.classes
        sizes = (self.rounds, "round"), (instances, "instance"), (devices, "device")
        what = f"a simulation of {', '.join(plural(*one) for one in sizes)}"
        lower = "lower one of them" + (', or record="summary"' if full else "")
        if beliefs:
            what, lower = f"{what} with beliefs", f"{lower}, or beliefs=False"
            need += float(self.rounds) * sum(np.asarray(value).nbytes for value in beliefs.values())
        check_memory(what, need, lower)


def observation(
    scheduler: Scheduler,
    network: Network,
    problem: Problem,
    world: WorldRound,
    counts: NetworkState,
    signals: Mapping[str, Array],
) -> Observation:
    """The Observation of a round, with only what the scheduler declared."""
    everything = {
        "gain": world.gain,
        "snr": world.snr,
        "success": world.success,
        "waiting": counts.waiting,
        "rates": network.rates,
        "planning": network.planning,
        **signals,
    }
    return Observation(
        problem=problem,
        round=world.round,
        slots=network.slots_in(world.round),
        delay=counts.delay,
        delivered=counts.delivered,
        reported=counts.reported,
        **({} if world.available is None else {"available": world.available}),
        **{name: everything[name] for need in scheduler.needs for name in INFORMATION[need]},
    )


def simulation_bytes(devices: int, rounds: int, instances: int, series: int, *, full: bool) -> float:
    """About how much memory a simulation takes at its most, beside the network; ``series``: its metrics."""
    small = float(instances) * (_INSTANCE_BYTES + _DEVICE_BYTES * devices)
    record = float(rounds) * instances * (8 * series + (_ROW_BYTES * devices if full else 0))
    return small + block_bytes(instances, devices) + record


def _check_needs(setup: Setup, learner: Learner | None) -> None:
    """Raises FedwaveError if the scheduler needs labels or a learner and there is none."""
    name, needs = setup.scheduler.name, setup.scheduler.needs
    if "labels" in needs and setup.labels is None:
        raise FedwaveError(
            f"scheduler {name!r} sees the labels that devices report: give them by "
            "labels=fw.partition.Labels('dirichlet:alpha=0.2') or labels=task.labels(), or name a task."
        )
    if learner is not None and not all(callable(getattr(learner, method, None)) for method in ("train", "deliver")):
        raise FedwaveError(f"learner is {short_repr(learner)}, must have train and deliver: use fw.train_in_lock_step.")
    if "learner" in needs and learner is None:
        raise FedwaveError(
            f"scheduler {name!r} looks at the models, so it runs only while they are trained: "
            "use fedwave train, or fw.train_in_lock_step."
        )


def _check_continues(trace: Trace, scheduler: Scheduler, state: State, memories: Mapping[str, State]) -> None:
    """Raises FedwaveError if the states in a trace are not of this scheduler and these metrics.

    ``state`` and ``memories`` are theirs before round 1.
    """
    if memories.keys() != trace.metrics.keys():
        raise FedwaveError("the trace has other metrics than a simulation of this version: simulate again.")
    kept = [(f"state of {scheduler.name}", state, trace.state)]
    kept += [(f"memory of {name}", memory, trace.metric_memory(name)) for name, memory in memories.items()]
    for what, fresh, found in kept:
        for name, array in fresh.items():
            if name not in found or found[name].ndim != array.ndim:
                raise FedwaveError(f"the {what} has an array {name!r}, which the trace does not hold: simulate again.")
    beliefs = scheduler.beliefs(trace.state) if trace.setup.beliefs else {}
    last = {name: rows[-1] for name, rows in trace.beliefs.items()}
    if beliefs.keys() != last.keys() or not all(np.array_equal(beliefs[name], last[name]) for name in last):
        raise FedwaveError(f"the beliefs in the trace are not those of {scheduler.name}: simulate again.")


class Recorder:
    """Keeps the rounds of a simulation, in arrays that are allocated once."""

    def __init__(self, rounds: int, *, full: bool) -> None:
        self._rounds, self._full = rounds, full
        self.series: dict[str, Array] = {}  # [T, I]
        self.devices: dict[str, Array] = {}  # [T, I, U]
        self.beliefs: dict[str, Array] = {}  # [T, I, ...]
        self.accumulated: dict[str, Array] = {}  # [I, U]: per-device metrics so far

    def restore(self, begun: Trace) -> None:
        """Start with the rounds of a trace."""
        for name in ("series", "devices", "beliefs"):
            for key, rows in getattr(begun, name).items():
                self._all_rounds(getattr(self, name), key, rows[0])[: len(rows)] = rows
        self.accumulated = dict(begun.accumulated)

    def until(self, last: int) -> dict[str, dict[str, Array]]:
        """The groups of a Trace, up to a round."""
        groups = {name: getattr(self, name) for name in ("series", "devices", "beliefs")}
        found = {name: {key: rows[:last] for key, rows in group.items()} for name, group in groups.items()}
        return {**found, "accumulated": dict(self.accumulated)}

    def write(
        self, metrics: tuple[Metric, ...], values: Mapping[str, Array], played: PlayedRound, beliefs: State
    ) -> None:
        """Keep one round."""
        row = played.world.round - 1
        for metric in metrics:
            value = values[metric.name]
            if metric.per_device:
                before = self.accumulated.get(metric.name)
                self.accumulated[metric.name] = _accumulate(metric.over_rounds, before, value)
            else:
                self._all_rounds(self.series, metric.name, value)[row] = value
        if self._full:
            for name, value in _device_rows(played).items():
                if name not in self.devices:
                    self.devices[name] = np.empty((self._rounds, *value.shape), DEVICE_ARRAYS[name])
                self.devices[name][row] = value
        for name, value in beliefs.items():
            self._all_rounds(self.beliefs, name, value)[row] = value

    def _all_rounds(self, group: dict[str, Array], name: str, value: Array) -> Array:
        """The array that holds this number in every round, in a type that can hold ``value``."""
        if name not in group:
            group[name] = np.empty((self._rounds, *value.shape), dtype=value.dtype)
        elif group[name].dtype != value.dtype:  # whole numbers at first, fractions later
            group[name] = group[name].astype(np.promote_types(group[name].dtype, value.dtype))
        return group[name]


def _accumulate(over_rounds: str, before: Array | None, value: Array) -> Array:
    wide = np.float64 if value.dtype.kind == "f" else np.int64  # enough for a sum
    if before is None or over_rounds == "last":
        return value.astype(wide)  # a copy: the metric may change its own array
    value = value.astype(wide, copy=False)
    return np.maximum(before, value) if over_rounds == "max" else before + value


def _device_rows(played: PlayedRound) -> dict[str, Array]:
    """The numbers of a round in a full record, ``[I, U]`` each; all fit into the types of DEVICE_ARRAYS."""
    world, before, after = played.world, played.before, played.after
    transmits = played.decision.transmits
    values = {
        "gain": world.gain,
        "scheduled": transmits,
        "delivered": after.delivered,
        "arrivals": world.arrivals,
        "waiting": before.waiting,
        "lost": world.arrivals - played.accepted,
        "heard": np.ones_like(transmits) if world.heard is None else world.heard,
        "delay": before.delay,
        "learned": after.learned,
    }
    if world.available is not None:
        values["available"] = world.available
    for name in ("arrivals", "waiting", "lost"):
        most = values[name].item(values[name].argmax())  # for few devices faster than max
        if most > _MOST_SHARDS:
            raise FedwaveError(
                f"a device has {most} shards, more than a full record can hold: "
                'lower the rates, limit the buffers, or use record="summary".'
            )
    return values
