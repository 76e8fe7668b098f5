"""Run one unit of work, from its last checkpoint if there is one."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
        return _Work(unit, checkpointer, meter, warn).results()
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


@dataclass(frozen=True)
class _Work:
    """A unit at work: what it is, and whom it tells about its progress."""

    unit: Unit
    checkpointer: Checkpointer
    meter: Meter
    warn: Warn

    def results(self) -> xr.Dataset:
        self.checkpointer.stop_if_asked()
        named, unit = self.unit.experiment, replace(self.unit, experiment=self.unit.located())
        how = unit.experiment
        prepare(how, unit.sources)
        check_pins(unit.pins, unit.places)
        network = network_of(how.network)
        every = dict(zip(named.labels, schedulers_of(how).values(), strict=True))
        chosen = {label: every[label] for label in unit.schedulers}
        label, first = next(iter(chosen.items()))
        here = replace(self, unit=unit)
        if how.task is None or named.task is None:
            return unit_dataset({label: here.simulated(network, first)})
        task = _task(how.task, tuple(unit.sources.values()), unit.pins.get(f"dataset {named.task.dataset}"))
        if any("learner" in one.needs for one in chosen.values()):
            return here.in_lock_step(network, label, first, task)
        return here.replayed(network, chosen, task)

    def simulated(self, network: Network, scheduler: Scheduler) -> Trace:
        how, instances = self.unit.experiment, self.unit.instances
        runs = len(instances)
        setup = make_setup(network, scheduler, instances, how.seed, record="summary", metrics=metrics_of(how))
        fresh = Simulation(setup, how.rounds)

        def resumed(raw: IO[bytes]) -> Simulation:
            begun = _beginning_of(fresh, Trace.read(raw, "its checkpoint"))
            run = Simulation(setup, how.rounds, begun=begun)
            run.play(1)  # a state that does not fit fails here
            self.meter(begun.rounds * runs)
            self.meter(runs)
            return run

        run: Simulation = self.checkpoint(resumed) or fresh
        while run.round < run.rounds:
            _play_piece(run, max(1, _PIECE // (runs * network.size)), lambda: self.meter(runs))
            if run.round < run.rounds:
                self.may_stop(lambda file: run.trace().write(file))
        return run.trace()

    def replayed(self, network: Network, chosen: Mapping[str, Scheduler], task: Task) -> xr.Dataset:
        """Simulate, then train on the traces: the schedule does not depend on the models."""
        from fedwave.learning.checkpoint import read_checkpoint, write_checkpoint
        from fedwave.learning.replay import Replay
        from fedwave.learning.schedule import labelled_runs

        how, instances = self.unit.experiment, self.unit.instances
        settings, sizes = settings_of(how.training)

        def tick(rounds: int) -> None:
            self.meter(0)  # it works: simulated rounds are not yet trained ones
            self.checkpointer.stop_if_asked()

        more: dict[str, Any] = {"metrics": metrics_of(how, task.aggregation), "labels": task.labels(), "meter": tick}
        traces = {
            label: simulate(network, one, how.rounds, instances, how.seed, **more) for label, one in chosen.items()
        }
        replay = Replay(labelled_runs(traces), task, settings, sizes)
        self.checkpoint(lambda raw: read_checkpoint(replay, raw, "its checkpoint"))
        runs = len(replay.runs)
        self.meter(replay.round * runs)
        while replay.round < replay.rounds:
            with _played():
                replay.advance()
            self.meter(runs)
            if replay.round < replay.rounds:
                self.may_stop(lambda file: write_checkpoint(replay, file))
        return unit_dataset(traces, {curves.label: curves for curves in replay.curves()})

    def in_lock_step(self, network: Network, label: str, scheduler: Scheduler, task: Task) -> xr.Dataset:
        """Simulate and train together, for a scheduler that looks at the models."""
        from fedwave.learning.lockstep import LockStep

        how, instances = self.unit.experiment, self.unit.instances
        runs = len(instances)
        settings, sizes = settings_of(how.training)
        metrics, labels = metrics_of(how, task.aggregation), task.labels()
        setup = make_setup(network, scheduler, instances, how.seed, metrics=metrics, labels=labels)

        def begun() -> tuple[LockStep, Simulation]:
            learner = LockStep(network, task, how.rounds, instances, how.seed, label, settings, sizes)
            return learner, Simulation(setup, how.rounds, learner=learner)

        def resumed(raw: IO[bytes]) -> tuple[LockStep, Simulation]:
            learner, run = begun()
            trace = _resume_lock_step(learner, run, raw)
            run = Simulation(setup, how.rounds, begun=trace, learner=learner)
            run.play(1)  # a state that does not fit fails here
            self.meter(trace.rounds * runs)
            self.meter(runs)
            return learner, run

        learner, run = self.checkpoint(resumed) or begun()
        while run.round < run.rounds:
            with _played():
                run.play(1)
            self.meter(runs)
            if run.round < run.rounds:
                self.may_stop(lambda file: _write_lock_step(run.trace(), learner.replay, file))
        return unit_dataset({label: run.trace()}, {label: learner.replay.curves()[0]})

    def may_stop(self, write: Write) -> None:
        """Between two rounds; ``write`` writes a checkpoint of this moment."""
        self.checkpointer.between_rounds(_enclosed(self.unit, write))

    def checkpoint(self, read: Callable[[IO[bytes]], Any]) -> Any:
        return _read(self.unit, self.checkpointer, read, self.warn)


def _play_piece(run: Simulation, rounds: int, tick: Callable[[], None]) -> None:
    """At most this many rounds, and about a second: some schedulers take thousands of times as long as others."""
    last, until = min(run.round + rounds, run.rounds), time.monotonic() + _PIECE_SECONDS
    while run.round < last and time.monotonic() < until:
        with _played():
            run.play(1)
        tick()


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
