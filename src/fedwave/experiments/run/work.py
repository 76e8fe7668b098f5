"""Run one unit of work, from its last checkpoint if there is one."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.build import metrics_of, network_of, prepare, schedulers_of, settings_of, task_of
from fedwave.experiments.config.experiment import Experiment, TaskConfig
from fedwave.experiments.config.units import Unit
from fedwave.experiments.run.checkpoints import Asked, Checkpointer, Warn, never
from fedwave.experiments.run.signals import Interrupted, NoRound, Stopped, Terminated
from fedwave.experiments.store.dataset import unit_dataset
from fedwave.experiments.store.inputs import check_dataset, check_pins
from fedwave.network.network import Network
from fedwave.parts.user_code import failure_in_user_code
from fedwave.schedulers.base import Scheduler
from fedwave.simulation import Meter, Simulation, make_setup, simulate
from fedwave.trace import Setup, Trace

if TYPE_CHECKING:
    import xarray as xr

    from fedwave.learning.lockstep import LockStep
    from fedwave.learning.task import Task

# The most device-rounds between two checks whether a checkpoint is due; a slow scheduler is checked more often.
_PIECE = 5_000_000
_PIECE_SECONDS = 1.0


class UnitFailed(FedwaveError):
    """A unit failed by itself, in the user's code: the others need not. Its text is a reason, without a full stop."""


class OutOfMemory(UnitFailed):
    """A unit failed for lack of memory."""


def run_unit(unit: Unit, path: Path | None, meter: Meter, warn: Warn, asked: Asked = never) -> xr.Dataset:
    """The results of the unit, from its checkpoint at ``path`` on; None: it keeps no checkpoints.

    Raises Stopped, with a checkpoint, if it is ``asked`` to stop; UnitFailed for whatever the user's code raises.
    """
    try:
        work = _Work(replace(unit, experiment=unit.local_experiment()), Checkpointer(unit, path, asked), meter, warn)
        return work.results(unit.experiment)
    except (FedwaveError, Stopped, NoRound, Interrupted, Terminated):
        raise
    except BaseException as error:  # also sys.exit() and a KeyboardInterrupt without Ctrl-C
        if _is_lack_of_memory(error):
            text = " ".join(str(error).split())[:200]
            raise OutOfMemory("there was too little memory" + (f" ({text})" if text else "")) from error
        if (told := failure_in_user_code(error)) is None:
            raise
        raise UnitFailed(str(told).rstrip(".")) from error


def _is_lack_of_memory(error: BaseException) -> bool:
    """PyTorch has errors of its own for it."""
    torch = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and torch)


@contextmanager
def _played() -> Iterator[None]:
    """Turns a FedwaveError of the block into UnitFailed: the unit's own scheduler or metric caused it."""
    try:
        yield
    except FedwaveError as error:
        raise UnitFailed(str(error).rstrip(".")) from error


@lru_cache(maxsize=2)
def _task(config: TaskConfig, sources: tuple[str, ...], pinned: str | None) -> Task:
    """The units of one worker share the data: reading them takes longer than a small unit.

    A changed file of the user may give other data, so ``sources`` are part of the key. ``pinned`` is the
    checksum of the data at the start of the run.
    """
    task = task_of(config)
    if pinned is not None:
        check_dataset(str(config.dataset), task.dataset, pinned)
    return task


@dataclass(frozen=True)
class _Work:
    """A unit at work, its checkpoints, and the functions that get its progress and warnings."""

    unit: Unit  # its experiment has the paths of files on this machine
    checkpointer: Checkpointer
    meter: Meter
    warn: Warn

    def results(self, named: Experiment) -> xr.Dataset:
        """``named`` is the stored form of the experiment, with the names of its files."""
        self.checkpointer.stop_if_asked()
        unit, how = self.unit, self.unit.experiment
        prepare(how, unit.sources)
        check_pins(unit.pins, unit.paths)
        network = network_of(how.network)
        every = dict(zip(named.labels, schedulers_of(how).values(), strict=True))
        chosen = {label: every[label] for label in unit.schedulers}
        label, first = next(iter(chosen.items()))
        if how.task is None or named.task is None:
            setup = make_setup(network, first, unit.instances, how.seed, record="summary", metrics=metrics_of(how))
            return unit_dataset({label: self.simulated(setup)[0]})
        task = _task(how.task, tuple(unit.sources.values()), unit.pins.get(f"dataset {named.task.dataset}"))
        if any("learner" in one.needs for one in chosen.values()):
            return self.in_lock_step(network, label, first, task)
        return self.replayed(network, chosen, task)

    def simulated(
        self, setup: Setup, make_learner: Callable[[], LockStep | None] = lambda: None
    ) -> tuple[Trace, LockStep | None]:
        """The whole trace, and the learner that was trained in lock step with it, if there is one."""
        rounds, runs = self.unit.experiment.rounds, len(setup.instances)

        def resumed(raw: IO[bytes]) -> tuple[Simulation, LockStep | None]:
            learner = make_learner()
            run = Simulation(setup, rounds, begun=_read(raw, learner), learner=learner)
            run.play(1)  # a state that does not fit fails here
            self.meter(run.round * runs)
            return run, learner

        found = self.checkpointer.load(resumed, self.warn)
        if found is None:
            learner = make_learner()
            found = Simulation(setup, rounds, learner=learner), learner
        run, learner = found
        piece = max(1, _PIECE // (runs * setup.network.size)) if learner is None else 1
        while run.round < rounds:
            _play_piece(run, piece, lambda: self.meter(runs))
            if run.round < rounds:
                self.checkpointer.between_rounds(lambda file: _write(file, run.trace(), learner))
        return run.trace(), learner

    def in_lock_step(self, network: Network, label: str, scheduler: Scheduler, task: Task) -> xr.Dataset:
        """Simulate and train together, for a scheduler that looks at the models."""
        from fedwave.learning.lockstep import LockStep

        how, instances = self.unit.experiment, self.unit.instances
        settings, sizes = settings_of(how.training)
        metrics, labels = metrics_of(how, task.aggregation), task.labels()
        setup = make_setup(network, scheduler, instances, how.seed, metrics=metrics, labels=labels)
        trace, learner = self.simulated(
            setup, lambda: LockStep(network, task, how.rounds, instances, how.seed, label, settings, sizes)
        )
        assert learner is not None
        return unit_dataset({label: trace}, {label: learner.replay.curves()[0]})

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
        self.checkpointer.load(lambda raw: read_checkpoint(replay, raw, "its checkpoint"), self.warn)
        runs = len(replay.runs)
        self.meter(replay.round * runs)
        while replay.round < replay.rounds:
            with _played():
                replay.advance()
            self.meter(runs)
            if replay.round < replay.rounds:
                self.checkpointer.between_rounds(lambda file: write_checkpoint(replay, file))
        return unit_dataset(traces, {curves.label: curves for curves in replay.curves()})


def _play_piece(run: Simulation, rounds: int, tick: Callable[[], None]) -> None:
    """At most this many rounds, and about a second: some schedulers take thousands of times as long as others."""
    last, until = min(run.round + rounds, run.rounds), time.monotonic() + _PIECE_SECONDS
    while run.round < last and time.monotonic() < until:
        with _played():
            run.play(1)
        tick()


def _write(file: IO[bytes], trace: Trace, learner: LockStep | None) -> None:
    """The trace; with a learner, the trace and the models of the same moment in one archive."""
    if learner is None:
        trace.write(file)
        return
    from fedwave.learning.checkpoint import write_checkpoint

    with zipfile.ZipFile(file, "w") as archive:
        with archive.open("trace.npz", "w", force_zip64=True) as part:
            trace.write(part)
        with archive.open("models.npz", "w", force_zip64=True) as part:
            write_checkpoint(learner.replay, part)


def _read(raw: IO[bytes], learner: LockStep | None) -> Trace:
    """The trace of a checkpoint; the learner is restored too."""
    if learner is None:
        return Trace.read(raw, "its checkpoint")
    from fedwave.learning.checkpoint import read_checkpoint

    with zipfile.ZipFile(raw) as archive:
        with archive.open("trace.npz") as part:
            trace = Trace.read(part, "its checkpoint")
        learner.resume(trace)
        with archive.open("models.npz") as part:
            read_checkpoint(learner.replay, part, "its checkpoint")
    return trace
