"""The round loop: the only one. Network + seed -> World; scheduler and dynamics -> Trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, is_whole, whole
from fedwave.network.dynamics import accept, step
from fedwave.network.network import Network
from fedwave.network.world import Weather, World
from fedwave.recording import Recorder
from fedwave.rng import Draws
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.base import scheduler as find_scheduler
from fedwave.serialize import pack, unpack
from fedwave.trace import Trace
from fedwave.types import (
    INFORMATION,
    Array,
    FloatArray,
    IntArray,
    Learner,
    NetworkState,
    Observation,
    Problem,
    State,
)
from fedwave.version import __version__

# Called with the number of rounds just played; numerics never print.
Meter = Callable[[int], None]


def simulate(
    network: Network,
    scheduler: str | Scheduler,
    rounds: int = 500,
    instances: int | Sequence[int] = 50,
    seed: int = 0,
    *,
    record: str = "full",
    beliefs: bool = False,
    meter: Meter | None = None,
    learner: Learner | None = None,
) -> Trace:
    """Run one scheduler on a network.

    ``instances`` is how many independent repetitions to run, or their numbers: instance 7 is the same
    whether 8 or 800 run. ``record="summary"`` keeps one number per round and instance instead of one
    per device, for large networks. ``beliefs`` keeps what a learning scheduler thought. ``learner`` trains
    in lock step, for schedulers that need it (learning/lockstep.py makes one).

    >>> import fedwave as fw
    >>> trace = fw.simulate(fw.paper_network(), "alsa-pi", rounds=20, instances=3, seed=1)
    >>> trace.score.shape, trace.waiting.shape
    ((20, 3), (20, 3, 25))
    """
    if not isinstance(network, Network):
        raise FedwaveError(f"network is {network!r}, must be a Network, such as paper_network().")
    rounds, seed = whole("rounds", rounds, 1), whole("seed", seed, 0)
    if record not in ("full", "summary"):
        raise FedwaveError(f"record is {record!r}, must be 'full' or 'summary'.")
    ids = _instance_numbers(instances)
    network.check_run(rounds, ids)
    chosen = find_scheduler(scheduler)
    _check_learner(chosen, learner)
    constants: dict[str, Array] = {}
    provenance = {
        "fedwave": __version__,
        "network": pack(network, constants, "network"),
        "scheduler": pack(chosen, constants, "scheduler"),
        "scheduler_name": chosen.name,
        "seed": seed,
        "instances": ids.tolist(),
        "record": record,
        "keep_beliefs": beliefs,
    }
    counts = NetworkState.initial(ids.size, network.size)
    state = chosen.start(network.problem(ids.size))
    uploads = np.zeros(counts.delay.shape, dtype=np.int64)
    new, counts, state, uploads = _play(
        network, chosen, provenance, 1, rounds, counts, state, uploads, meter, learner
    )
    return Trace(
        new.series, new.devices, new.beliefs, counts, uploads, state, provenance, constants
    )


def extend(
    trace: Trace,
    rounds: int,
    *,
    scheduler: Scheduler | None = None,
    meter: Meter | None = None,
    learner: Learner | None = None,
) -> Trace:
    """Go on with a trace until it has ``rounds`` rounds: the same as if it had never stopped.

    A scheduler of your own that is not registered must be passed in, and so must a learner if the scheduler
    needs one; what else is needed is in the trace.
    """
    rounds = whole("rounds", rounds, 1)
    if rounds <= trace.rounds:
        raise FedwaveError(
            f"the trace has {trace.rounds} rounds already: ask for more than {rounds}."
        )
    network, chosen = _recall(trace, scheduler)
    _check_learner(chosen, learner)
    network.check_run(rounds, np.array(trace.provenance["instances"]))
    new, counts, state, uploads = _play(
        network, chosen, trace.provenance, trace.rounds + 1, rounds,
        trace.final, trace.scheduler_state, trace.uploads, meter, learner,
    )  # fmt: skip

    def joined(before: State, after: State) -> State:
        return {name: np.concatenate([before[name], after[name]]) for name in after}

    return Trace(
        joined(trace.series, new.series), joined(trace.devices, new.devices),
        joined(trace.beliefs, new.beliefs), counts, uploads, state,
        trace.provenance, trace.constants,
    )  # fmt: skip


def remake(
    trace: Trace, *, scheduler: Scheduler | None = None, learner: Learner | None = None
) -> Trace:
    """Run again what made this trace."""
    network, chosen = _recall(trace, scheduler)
    made = trace.provenance
    return simulate(
        network, chosen, trace.rounds, made["instances"], made["seed"],
        record=made["record"], beliefs=made["keep_beliefs"], learner=learner,
    )  # fmt: skip


def network_of(trace: Trace) -> Network:
    """The network that a trace was run on."""
    network: Network = unpack(trace.provenance["network"], trace.constants)
    return network


def _recall(trace: Trace, scheduler: Scheduler | None) -> tuple[Network, Scheduler]:
    if scheduler is None:
        scheduler = unpack(trace.provenance["scheduler"], trace.constants)
    return network_of(trace), scheduler


def _play(
    network: Network,
    scheduler: Scheduler,
    how: Mapping[str, Any],
    first: int,
    last: int,
    counts: NetworkState,
    state: State,
    uploads: IntArray,
    meter: Meter | None,
    learner: Learner | None,
) -> tuple[Recorder, NetworkState, State, IntArray]:
    """Rounds ``first`` to ``last``, from the given counts and scheduler state."""
    ids = np.array(how["instances"], dtype=np.int64)
    problem = network.problem(ids.size)
    limit = np.asarray(network.table.buffer_limit)
    buffer_limit = limit if np.isfinite(limit).any() else None
    draws = Draws(how["seed"], ids)
    recorder = Recorder(first, last - first + 1, whole=how["record"] == "full")
    for weather in World(network, how["seed"], ids).rounds(first, last):
        accepted = accept(counts, weather.arrivals, buffer_limit)
        signals: Mapping[str, FloatArray] = {}
        if learner is not None:
            signals = learner.train(weather.round, accepted, weather.heard, counts.delay)
        seen = _observe(scheduler, network, problem, weather, counts, signals)
        scheduled, state = scheduler.decide(state, seen, draws.at(weather.round))
        delivered = scheduled if scheduler.ideal else scheduled & weather.goes_through
        after, outcome = step(counts, delivered, weather.arrivals, accepted, network.gamma)
        if learner is not None:
            learner.deliver(scheduled, after)
        beliefs = scheduler.beliefs(state) if how["keep_beliefs"] else {}
        recorder.write(weather, scheduled, counts, after, outcome, beliefs)
        uploads = uploads + delivered
        counts = after
        if meter is not None:
            meter(1)
    return recorder, counts, state, uploads


def _observe(
    scheduler: Scheduler,
    network: Network,
    problem: Problem,
    weather: Weather,
    counts: NetworkState,
    signals: Mapping[str, FloatArray],
) -> Observation:
    """Only what the scheduler declared goes in: what is not there cannot be reached."""
    everything = {
        "gain": weather.gain, "snr": weather.snr, "success": weather.success,
        "waiting": counts.waiting, "rates": network.rates, "planning": network.planning, **signals,
    }  # fmt: skip
    allowed = {name: everything[name] for need in scheduler.needs for name in INFORMATION[need]}
    return Observation(
        problem=problem, round=weather.round, slots=network.slots_in(weather.round),
        delay=counts.delay, delivered=counts.delivered, reported=counts.reported, **allowed,
    )  # fmt: skip


def _check_learner(scheduler: Scheduler, learner: Learner | None) -> None:
    if "learner" in scheduler.needs and learner is None:
        raise FedwaveError(
            f"scheduler {scheduler.name!r} looks at the models, so it runs only while they are trained: "
            "use fedwave train, or fw.train_in_lock_step."
        )


def _instance_numbers(instances: int | Iterable[int]) -> IntArray:
    ids: list[Any] = []
    if is_whole(instances):
        ids = list(range(int(instances)))  # type: ignore[arg-type]
    elif isinstance(instances, Iterable):
        ids = list(instances)
    if not ids or not all(is_whole(i) and 0 <= i < 2**63 for i in ids):
        raise FedwaveError(
            f"instances is {instances!r}, must be a whole number >= 1 or a list of instance numbers >= 0."
        )
    return np.array(ids, dtype=np.int64)
