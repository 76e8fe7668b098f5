"""Run an experiment: cut it into units, spread them over workers, collect their results.

With a folder, finished units are stored there, and a run that was stopped goes on where it stopped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fedwave.errors import WorkFailed, extra_for, plural
from fedwave.experiments.config.build import check, network_of, prepare, training_advice
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import points
from fedwave.experiments.config.units import Unit, resolved, units_of
from fedwave.experiments.run.memory_needs import check_results, workers_that_fit
from fedwave.experiments.run.pool import Finished, PathOf, run_here, run_in_pool
from fedwave.experiments.run.signals import TIMEOUT, StopRequest
from fedwave.experiments.run.worker import Message, Report, leave_if_imported_by_a_worker
from fedwave.experiments.store.checksums import Damaged
from fedwave.experiments.store.dataset import Results
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.load import put_together
from fedwave.experiments.store.trusted_code import resume_command
from fedwave.parts.user_code import imported_sources

if TYPE_CHECKING:
    import xarray as xr

Event = dict[str, Any]
Watcher = Callable[[Event], None]  # called with every event of a run, which itself prints nothing
# A simulation of fewer device-rounds takes less time than starting workers.
_WORTH_WORKERS = 50_000_000
_NAMED = 5  # units that were abandoned for the same reason, and reasons, in the sentence at the end


class Engine(Protocol):
    """Does units of work, in any order and place; yields each when it is finished.

    When a stop is requested (signals.py) it stops with checkpoints and raises Stopped.
    """

    def __call__(
        self, units: list[Unit], checkpoint: PathOf, report: Report, stop: StopRequest
    ) -> Generator[Finished, None, None]: ...


@dataclass
class _Progress:
    """Turns the messages of an engine into events."""

    watch: Watcher
    units: int
    total: int  # rounds over all runs
    keeps: bool = True  # are there results to go on for, if a unit is abandoned?
    finished: int = 0
    played: dict[str, int] = field(default_factory=dict)  # by unit
    abandoned: dict[str, str] = field(default_factory=dict)  # why, by unit
    cause: BaseException | None = None  # of the first of these
    start: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, units: list[Unit], watch: Watcher, keeps: bool = True) -> _Progress:
        return cls(watch, len(units), sum(unit.rounds for unit in units), keeps)

    def event(self, name: str, **more: Any) -> None:
        self.watch(
            {
                "event": name,
                "seconds": round(time.monotonic() - self.start, 3),
                "units": self.units,
                "finished": self.finished,
                "rounds": sum(self.played.values()),
                "of": self.total,
                **more,
            }
        )

    def report(self, message: Message) -> None:
        unit, content = message.unit.name, message.content
        if message.kind == "rounds":
            self.played[unit] = self.played.get(unit, 0) + content
            if content:  # 0: the unit is alive, which only its engine wants to know
                self.event("progress", unit=unit)
            return
        if message.kind in ("begun", "crashed", "abandoned"):
            self.played[unit] = 0
        if message.kind == "abandoned":
            self.abandoned[unit] = content
            self.cause = self.cause or message.cause
        more: dict[str, Any] = {} if content is None else {"message": content}
        if message.kind == "abandoned":
            left = self.units - self.finished - len(self.abandoned)
            more["others_go_on"] = self.keeps and left > 0
        self.event(f"unit-{message.kind}", unit=unit, **more)

    def done(self, unit: Unit, **more: Any) -> None:
        self.finished += 1
        self.played[unit.name] = unit.rounds
        self.event("unit-finished", unit=unit.name, **more)


def run_experiment(
    experiment: Experiment,
    folder: Path | None = None,
    *,
    workers: int | None = None,
    engine: Engine | None = None,
    watch: Watcher | None = None,
    timeout: float = TIMEOUT,
) -> Results:
    """Run an experiment, or resume it in its folder.

    ``workers`` is a number of processes; None: one per core, or no extra process for a small run. With a folder,
    Ctrl-C and SIGTERM are raised (KeyboardInterrupt, Terminated) after all units at work have written a checkpoint.
    A unit that finishes no round in ``timeout`` seconds is abandoned; an ``engine`` has a time-out of its own.
    """
    with running(experiment, folder, workers=workers, engine=engine, watch=watch, timeout=timeout) as results:
        return results


@contextmanager
def running(
    experiment: Experiment,
    folder: Path | None = None,
    *,
    workers: int | None = None,
    engine: Engine | None = None,
    watch: Watcher | None = None,
    timeout: float = TIMEOUT,
    stop: StopRequest | None = None,
) -> Iterator[Results]:
    """The same for those who write figures and tables: the folder stays locked until the end of the block.

    ``stop`` is that of a command, which may end the process.
    """
    leave_if_imported_by_a_worker()
    stop = stop or StopRequest()
    prepare(experiment, imported_sources(experiment.imports))
    check(experiment)
    if experiment.task is not None:
        with extra_for("a task"):
            import_module("fedwave.learning.replay")  # before a run folder is made
    experiment = resolved(experiment)
    watch = watch or (lambda event: None)
    check_results(experiment)
    if engine is None:
        workers_that_fit([at for _, at in points(experiment)], 1)
    if folder is None:
        units = units_of(experiment)
        progress = _Progress.of(units, watch, keeps=False)
        run = engine or _engine(units, workers, timeout, progress)
        found = _in_memory(units, run, progress, stop)
        yield put_together(experiment, units, lambda unit: found.pop(unit.name))
        return
    store = RunFolder(folder)
    with store.locked():
        units = store.begin(experiment)
        progress = _Progress.of(units, watch)
        run = engine or _engine(units, workers, timeout, progress)
        _in_folder(store, units, run, progress, stop)
        _check_complete(progress, resume_command(folder, experiment.imports))
        with suppress(OSError):  # there is none, or somebody put something there
            (folder / "checkpoints").rmdir()
        yield put_together(store.stored(), units, store.data)


def _engine(units: list[Unit], workers: int | None, timeout: float, progress: _Progress) -> Engine:
    gpus, experiment = 0, units[0].experiment
    if experiment.task is not None and experiment.training.device != "cpu":
        from fedwave.learning.settings import gpu_count

        gpus = gpu_count()
        workers = min(gpus, workers or gpus)
    elif workers is None:
        worth = experiment.task is not None or _size(units) > _WORTH_WORKERS
        workers = min(len(units), os.cpu_count() or 1) if worth else 1
    if workers > 1 and not gpus:
        located = {unit.point: unit.located() for unit in units}.values()
        wanted, workers = workers, workers_that_fit(located, workers)
        if workers < wanted:
            be = "is" if workers == 1 else "are"
            text = f"{workers} of {wanted} workers {be} used: the units of more do not fit in memory together."
            progress.event("warning", message=text)
    if workers <= 1:
        return partial(run_here, timeout=timeout)
    return partial(run_in_pool, workers=workers, gpus=gpus, timeout=timeout)


def _advise(units: list[Unit], progress: _Progress) -> None:
    """Say what to install, so that these units train faster."""
    points = {unit.point: unit.located() for unit in units}
    if advice := next(filter(None, map(training_advice, points.values())), None):
        progress.event("warning", message=advice)


def _size(units: list[Unit]) -> int:
    return sum(u.rounds * network_of(u.located().network).size for u in units)


def _in_memory(units: list[Unit], run: Engine, progress: _Progress, stop: StopRequest) -> dict[str, xr.Dataset]:
    progress.event("started")
    _advise(units, progress)
    found: dict[str, xr.Dataset] = {}

    def report(message: Message) -> None:
        progress.report(message)
        if message.kind == "abandoned":  # nothing is kept, so the others need not go on
            raise WorkFailed(f"unit {message.unit.name} is abandoned: {message.content}.") from message.cause

    # Closed here and not when a traceback is forgotten: workers must be gone before anything else goes on.
    with stop.listening(at_once=True), closing(run(units, lambda unit: None, report, stop)) as finished:
        for unit, data, seconds in finished:
            found[unit.name] = data
            progress.done(unit, took=round(seconds, 3))
    progress.event("finished")
    return found


def _in_folder(store: RunFolder, units: list[Unit], run: Engine, progress: _Progress, stop: StopRequest) -> None:
    left = []
    for text in store.warnings:
        progress.event("warning", message=text)
    for unit in units:
        try:
            kept = store.finished(unit)
        except Damaged as damage:
            progress.event("damaged", unit=unit.name, message=str(damage))
            kept = False
        if kept:
            progress.finished += 1
            progress.played[unit.name] = unit.rounds
        else:
            left.append(unit)
    progress.event("started")
    _advise(left, progress)
    with stop.listening(), closing(run(left, store.checkpoint, progress.report, stop)) as finished:
        for unit, data, seconds in finished:
            store.keep(unit, data, seconds)
            progress.done(unit, took=round(seconds, 3))
    if not progress.abandoned:
        progress.event("finished")


def _check_complete(progress: _Progress, go_on: str) -> None:
    """A run of which units are missing ends in a sentence: tables of the others would look like those of all."""
    lost = progress.abandoned
    if not lost:
        return
    units_of_reason: dict[str, list[str]] = {}
    for unit in sorted(lost):
        units_of_reason.setdefault(lost[unit], []).append(unit)
    said = [f"{_some(names, ', ')}: {why}" for why, names in units_of_reason.items()]
    kept = {0: "No other is finished", 1: "The other one is kept"}
    raise WorkFailed(
        f"{len(lost)} of {plural(progress.units, 'unit')} {'is' if len(lost) == 1 else 'are'} abandoned "
        f"({_some(said, '; ')}). {kept.get(progress.finished, f'The other {progress.finished} are kept')}: "
        f"`{go_on}` tries again."
    ) from progress.cause


def _some(texts: list[str], between: str) -> str:
    more = len(texts) - _NAMED
    return between.join([*texts[:_NAMED], *([f"and {more:,} more"] if more > 0 else [])])
