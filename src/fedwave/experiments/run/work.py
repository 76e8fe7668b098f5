"""Run one unit of work, from its last checkpoint if there is one."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.build import metrics_of, network_of, prepare, schedulers_of, settings_of, task_of
from fedwave.experiments.config.experiment import TaskConfig
from fedwave.experiments.config.units import Unit
from fedwave.experiments.run.checkpoints import Checkpointer, Write
from fedwave.experiments.run.signals import NoRound, Stopped, is_interrupt
from fedwave.experiments.store.checkpoint_file import check_checkpoint_file, write_checkpoint_file
from fedwave.experiments.store.dataset import unit_dataset
from fedwave.experiments.store.inputs import check_dataset, check_pins
from fedwave.network.network import Network
from fedwave.parts.user_code import failure_in_user_code
from fedwave.schedulers.base import Scheduler
from fedwave.simulation import Meter, Simulation, make_setup, simulate
from fedwave.trace import Trace

if TYPE_CHECKING:
    import xarray as xr

    from fedwave.learning.lockstep import LockStep
    from fedwave.learning.replay import Replay
    from fedwave.learning.task import Task

Warn = Callable[[str], object]  # called with a sentence

# Between two checks whether a checkpoint is due: at most so many device-rounds, and of a slow scheduler fewer.
_PIECE = 5_000_000
_PIECE_SECONDS = 1.0


class UnitFailed(FedwaveError):
    """A unit failed by itself, in the user's code: the others need not."""

    @property
    def why(self) -> str:
        return str(self).rstrip(".")


def run_unit(unit: Unit, checkpointer: Checkpointer, meter: Meter, warn: Warn) -> xr.Dataset:
    """The results of the unit; raises Stopped, with a checkpoint, if it is asked to stop."""
    try:
        return _results(unit, checkpointer, meter, warn)
    except (FedwaveError, Stopped, MemoryError, NoRound):
        raise
    except BaseException as error:  # also sys.exit() and a KeyboardInterrupt that nobody has caused
        told = None if is_interrupt(error) else failure_in_user_code(error)
        if told is None:
            raise
        raise UnitFailed(str(told)) from error


@contextmanager
def _played() -> Iterator[None]:
    """What is refused while rounds are played (a decision, a state) is the fault of the unit's own parts."""
    try:
        yield
    except FedwaveError as error:
        raise UnitFailed(str(error)) from error


def _results(unit: Unit, checkpointer: Checkpointer, meter: Meter, warn: Warn) -> xr.Dataset:
    checkpointer.stop_if_asked()
    named, unit = unit.experiment, replace(unit, experiment=unit.located())
    prepare(unit.experiment, unit.sources)
    check_pins(unit.pins, unit.places)
    network = network_of(unit.experiment.network)
    every = dict(zip(named.labels, schedulers_of(unit.experiment).values(), strict=True))
    chosen = {label: every[label] for label in unit.schedulers}
    if unit.experiment.task is None or named.task is None:
        (label, one), *_ = chosen.items()
        return unit_dataset({label: _simulate(unit, network, one, checkpointer, meter, warn)})
    pinned = unit.pins.get(f"dataset {named.task.dataset}")
    task = _task(unit.experiment.task, tuple(unit.sources.values()), pinned)
    if any("learner" in one.needs for one in chosen.values()):
        (label, one), *_ = chosen.items()
        return _in_lock_step(unit, network, label, one, task, checkpointer, meter, warn)
    return _replay(unit, network, chosen, task, checkpointer, meter, warn)


@lru_cache(maxsize=2)
def _task(config: TaskConfig, sources: tuple[str, ...], pinned: str | None) -> Task:
    """The units of one worker share the data: reading them takes longer than a small unit.

    A changed file of the user may give other data, so ``sources`` are part of the key. ``pinned`` is the sum of
    the data that the run was begun with.
    """
    task = task_of(config)
    if pinned is not None:
        check_dataset(str(config.dataset), task.dataset, pinned)
    return task


def _simulate(
    unit: Unit, network: Network, scheduler: Scheduler, checkpointer: Checkpointer, meter: Meter, warn: Warn
) -> Trace:
    how, runs = unit.experiment, len(unit.instances)
    setup = make_setup(network, scheduler, unit.instances, how.seed, record="summary", metrics=metrics_of(how))
    fresh = Simulation(setup, how.rounds)

    def resumed(raw: IO[bytes]) -> Simulation:
        begun = _beginning_of(fresh, Trace.read(raw, "its checkpoint"))
        run = Simulation(setup, how.rounds, begun=begun)
        run.play(1)  # a state that does not fit fails here
        meter(begun.rounds * runs)
        meter(runs)
        return run

    run: Simulation = _read(unit, checkpointer, resumed, warn) or fresh
    while run.round < run.rounds:
        _play_piece(run, max(1, _PIECE // (runs * network.size)), lambda: meter(runs))
        if run.round < run.rounds:
            checkpointer.between_rounds(_enclosed(unit, lambda file: run.trace().write(file)))
    return run.trace()


def _play_piece(run: Simulation, rounds: int, tick: Callable[[], None]) -> None:
    """At most this many rounds, and about a second: some schedulers take thousands of times as long as others."""
    last, until = min(run.round + rounds, run.rounds), time.monotonic() + _PIECE_SECONDS
    while run.round < last and time.monotonic() < until:
        with _played():
            run.play(1)
        tick()


def _replay(
    unit: Unit,
    network: Network,
    chosen: Mapping[str, Scheduler],
    task: Task,
    checkpointer: Checkpointer,
    meter: Meter,
    warn: Warn,
) -> xr.Dataset:
    """Simulate, then train on the traces: the schedule does not depend on the models."""
    from fedwave.learning.checkpoint import read_checkpoint, write_checkpoint
    from fedwave.learning.replay import Replay
    from fedwave.learning.schedule import labelled_runs

    how = unit.experiment
    metrics = metrics_of(how, task.aggregation)

    def tick(rounds: int) -> None:
        meter(0)  # it works: simulated rounds are not yet trained ones
        checkpointer.stop_if_asked()

    labels = task.labels()
    traces = {
        label: simulate(network, one, how.rounds, unit.instances, how.seed, metrics=metrics, meter=tick, labels=labels)
        for label, one in chosen.items()
    }
    settings, sizes = settings_of(how.training)
    replay = Replay(labelled_runs(traces), task, settings, sizes)
    _read(unit, checkpointer, lambda raw: read_checkpoint(replay, raw, "its checkpoint"), warn)
    runs = len(replay.runs)
    meter(replay.round * runs)
    while replay.round < replay.rounds:
        with _played():
            replay.advance()
        meter(runs)
        if replay.round < replay.rounds:
            checkpointer.between_rounds(_enclosed(unit, lambda file: write_checkpoint(replay, file)))
    return unit_dataset(traces, {curves.label: curves for curves in replay.curves()})


def _in_lock_step(
    unit: Unit,
    network: Network,
    label: str,
    scheduler: Scheduler,
    task: Task,
    checkpointer: Checkpointer,
    meter: Meter,
    warn: Warn,
) -> xr.Dataset:
    """Simulate and train together, for a scheduler that looks at the models."""
    from fedwave.learning.lockstep import LockStep

    how, runs = unit.experiment, len(unit.instances)
    settings, sizes = settings_of(how.training)

    def fresh() -> LockStep:
        return LockStep(network, task, how.rounds, unit.instances, how.seed, label, settings, sizes)

    metrics, labels = metrics_of(how, task.aggregation), task.labels()
    setup = make_setup(network, scheduler, unit.instances, how.seed, metrics=metrics, labels=labels)

    def begun() -> tuple[LockStep, Simulation]:
        learner = fresh()
        return learner, Simulation(setup, how.rounds, learner=learner)

    def resumed(raw: IO[bytes]) -> tuple[LockStep, Simulation]:
        learner, run = begun()
        trace = _resume_lock_step(learner, run, raw)
        run = Simulation(setup, how.rounds, begun=trace, learner=learner)
        run.play(1)  # a state that does not fit fails here
        meter(trace.rounds * runs)
        meter(runs)
        return learner, run

    learner, run = _read(unit, checkpointer, resumed, warn) or begun()
    while run.round < run.rounds:
        with _played():
            run.play(1)
        meter(runs)
        if run.round < run.rounds:
            checkpointer.between_rounds(
                _enclosed(unit, lambda file: _write_lock_step(run.trace(), learner.replay, file))
            )
    return unit_dataset({label: run.trace()}, {label: learner.replay.curves()[0]})


def _write_lock_step(trace: Trace, replay: Replay, file: IO[bytes]) -> None:
    """The trace and the models of the same moment, in one file."""
    from fedwave.learning.checkpoint import write_checkpoint

    with zipfile.ZipFile(file, "w") as archive:
        with archive.open("trace.npz", "w", force_zip64=True) as part:
            trace.write(part)
        with archive.open("models.npz", "w", force_zip64=True) as part:
            write_checkpoint(replay, part)


def _resume_lock_step(learner: LockStep, run: Simulation, raw: IO[bytes]) -> Trace:
    from fedwave.learning.checkpoint import read_checkpoint

    with zipfile.ZipFile(raw) as archive:
        with archive.open("trace.npz") as part:
            trace = _beginning_of(run, Trace.read(part, "its checkpoint"))
        learner.resume(trace)
        with archive.open("models.npz") as part:
            read_checkpoint(learner.replay, part, "its checkpoint")
    if learner.replay.round != trace.rounds:
        raise FedwaveError("its models are of another round than its counts")
    return trace


def _beginning_of(run: Simulation, trace: Trace) -> Trace:
    """The trace of a checkpoint, if it is the beginning of this run: what it says of it goes into the results."""
    if not trace.setup.same_as(run.setup) or trace.rounds >= run.rounds:
        raise FedwaveError("it is of another unit")
    return trace


def _enclosed(unit: Unit, write: Write) -> Write:
    return lambda file: write_checkpoint_file(file, unit, write)


def _read(unit: Unit, checkpointer: Checkpointer, read: Callable[[IO[bytes]], Any], warn: Warn) -> Any:
    """The checkpoint, read by ``read``; None if there is none, or it is damaged or of another unit."""
    try:
        raw = checkpointer.load()
        if raw is None:
            return None
        with raw:
            check_checkpoint_file(raw, unit)
            return read(raw)
    except Stopped:
        raise
    except Exception as error:  # whatever a damaged or forged file leads to
        warn(f"{checkpointer.name} cannot be used, so the unit starts anew ({error})")
        return None
