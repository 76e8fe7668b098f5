"""Run an experiment: cut it into units, spread them over workers, collect their results.

With a folder, finished units are stored there, and a stopped run is resumed.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.errors import WorkFailed, as_int, extra_for, plural
from fedwave.experiments.config.build import check_buildable, network_of, prepare
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.sweep import points
from fedwave.experiments.config.units import Unit, cut_into_units, resolve
from fedwave.experiments.run.memory_needs import check_results, workers_that_fit
from fedwave.experiments.run.pool import Engine, Job, Message, run_here
from fedwave.experiments.run.process import leave_if_imported_by_a_worker, run_in_pool
from fedwave.experiments.run.signals import TIMEOUT, StopRequest, checked_timeout
from fedwave.experiments.store.checksums import Corrupt
from fedwave.experiments.store.dataset import Results
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.inputs import resume_command
from fedwave.experiments.store.load import collect_results
from fedwave.experiments.store.lock import make_run_folder
from fedwave.parts.user_code import imported_sources

if TYPE_CHECKING:
    import xarray as xr

Event = dict[str, Any]
Watcher = Callable[[Event], None]  # called with every event of a run, which itself prints nothing
# A simulation of fewer device-rounds takes less time than starting workers.
_WORTH_WORKERS = 50_000_000
_NAMED = 5  # units that were abandoned for the same reason, and reasons, in the sentence at the end


class _RunEvents:
    """Turns the messages of an engine into events. ``keeps``: the others go on if a unit is abandoned."""

    def __init__(self, units: list[Unit], watch: Watcher, keeps: bool) -> None:
        self.units, self.keeps, self._watch = units, keeps, watch
        self.finished = 0
        self.abandoned: dict[str, str] = {}  # why, by unit
        self.cause: BaseException | None = None  # the error of the first of these
        self._played: Counter[str] = Counter()  # rounds, by unit
        self._total, self._start = sum(unit.rounds for unit in units), time.monotonic()

    def emit(self, name: str, **more: Any) -> None:
        self._watch(
            {
                "event": name,
                "seconds": round(time.monotonic() - self._start, 3),
                "units": len(self.units),
                "finished": self.finished,
                "rounds": self._played.total(),
                "of": self._total,
                **more,
            }
        )

    def report(self, message: Message) -> None:
        unit, kind, content = message.unit.name, message.kind, message.content
        if kind == "rounds":
            self._played[unit] += content
            if content:  # 0: at work, which only the engine needs to know
                self.emit("progress", unit=unit)
            return
        if kind != "warning":
            self._played[unit] = 0
        more: dict[str, Any] = {} if content is None else {"message": content}
        if kind == "abandoned":
            self.abandoned[unit] = content
            self.cause = self.cause or message.cause
            left = len(self.units) - self.finished - len(self.abandoned)
            more["others_go_on"] = self.keeps and left > 0
        self.emit(f"unit-{kind}", unit=unit, **more)
        if kind == "abandoned" and not self.keeps:
            raise WorkFailed(f"unit {unit} is abandoned: {content}.") from message.cause

    def note_finished(self, unit: Unit) -> None:
        """Counts a unit as finished."""
        self.finished += 1
        self._played[unit.name] = unit.rounds


def run_experiment(experiment: Experiment, folder: Path | None = None, **how: Any) -> Results:
    """Run an experiment, or resume it in its folder; ``how`` as in ``running``."""
    with running(experiment, folder, **how) as results:
        return results


@contextmanager
def running(
    experiment: Experiment,
    folder: Path | None = None,
    *,
    workers: int | None = None,
    engine: Engine | None = None,
    watch: Watcher = lambda event: None,
    timeout: float = TIMEOUT,
    stop: StopRequest | None = None,
) -> Iterator[Results]:
    """Run an experiment, or resume it in its folder, which stays locked until the end of the block.

    ``workers`` is a number of processes; None: one per core, or no extra process for a small run. With a folder,
    Ctrl-C and SIGTERM are raised (KeyboardInterrupt, Terminated) after all units at work have written a checkpoint.
    A unit that finishes no round in ``timeout`` seconds is abandoned. ``stop`` is that of a command, which may end the
    process.
    """
    leave_if_imported_by_a_worker()
    workers = None if workers is None else as_int("workers", workers, 1)
    timeout, stop = checked_timeout(timeout), stop or StopRequest()
    if folder is not None:
        make_run_folder(folder)
    prepare(experiment, imported_sources(experiment.imports))
    check_buildable(experiment)
    if experiment.task is not None:
        with extra_for("a task"):
            import_module("fedwave.learning.replay")  # before a run folder is made
    experiment = resolve(experiment)
    check_results(experiment)
    if engine is None:
        workers_that_fit([at for _, at in points(experiment)], 1)
    if folder is None:
        events = _RunEvents(cut_into_units(experiment), watch, keeps=False)
        found: dict[str, xr.Dataset] = {}

        def keep(unit: Unit, data: xr.Dataset, seconds: float) -> None:
            found[unit.name] = data

        with stop.listening(at_once=True):
            job = Job(events.units, events.report, stop=stop, timeout=timeout)
            _do(job, engine or _engine(events, workers), events, keep)
        yield collect_results(experiment, events.units, lambda unit: found.pop(unit.name))
        return
    store = RunFolder(folder)
    with store.locked():
        events = _RunEvents(store.begin(experiment), watch, keeps=True)
        job = Job(_unfinished(store, events), events.report, store.checkpoint, stop, timeout)
        with stop.listening():
            _do(job, engine or _engine(events, workers), events, store.keep)
        _check_complete(events, resume_command(folder, experiment.imports))
        with suppress(OSError):  # there is none, or it holds files of the user's
            (folder / "checkpoints").rmdir()
        yield collect_results(store.experiment_as_run, events.units, store.data)


def _engine(events: _RunEvents, workers: int | None) -> Engine:
    units = events.units
    gpus, experiment = 0, units[0].experiment
    if experiment.task is not None and experiment.training.device != "cpu":
        from fedwave.learning.settings import gpu_count

        gpus = gpu_count()
        workers = min(gpus, workers or gpus)
    elif workers is None:
        size = sum(unit.rounds * network_of(unit.local_experiment().network).size for unit in units)
        worth = experiment.task is not None or size > _WORTH_WORKERS
        workers = min(len(units), os.cpu_count() or 1) if worth else 1
    if workers > 1 and not gpus:
        wanted, workers = workers, workers_that_fit(_points(units), workers)
        if workers < wanted:
            text = f"workers: {workers} of {wanted}, because the units of more do not fit in memory together."
            events.emit("warning", message=text)
    return run_here if workers <= 1 else partial(run_in_pool, workers=workers, gpus=gpus)


def _points(units: list[Unit]) -> list[Experiment]:
    return list({unit.point: unit.local_experiment() for unit in units}.values())


def _unfinished(store: RunFolder, events: _RunEvents) -> list[Unit]:
    """The units that are not finished."""
    left = []
    for text in store.warnings:
        events.emit("warning", message=text)
    for unit in events.units:
        try:
            kept = store.finished(unit)
        except Corrupt as damage:
            events.emit("damaged", unit=unit.name, message=str(damage))
            kept = False
        if kept:
            events.note_finished(unit)
        else:
            left.append(unit)
    return left


def _do(job: Job, engine: Engine, events: _RunEvents, keep: Callable[[Unit, xr.Dataset, float], object]) -> None:
    events.emit("started")
    # Closed here and not when a traceback is forgotten: workers must end before anything else happens.
    with closing(engine(job)) as finished:
        for unit, data, seconds in finished:
            keep(unit, data, seconds)
            events.note_finished(unit)
            events.emit("unit-finished", unit=unit.name, took=round(seconds, 3))
    if not events.abandoned:
        events.emit("finished")


def _check_complete(events: _RunEvents, go_on: str) -> None:
    """Raises WorkFailed if a unit was abandoned: tables of the others would look complete."""
    units_of_reason: dict[str, list[str]] = {}
    for unit, why in sorted(events.abandoned.items()):
        units_of_reason.setdefault(why, []).append(unit)
    if units_of_reason:
        said = [f"{_some(names, ', ')}: {why}" for why, names in units_of_reason.items()]
        raise WorkFailed(
            f"abandoned {len(events.abandoned)} of {plural(len(events.units), 'unit')} ({_some(said, '; ')}); "
            f"{events.finished} finished. `{go_on}` tries again."
        ) from events.cause


def _some(texts: list[str], between: str) -> str:
    more = len(texts) - _NAMED
    return between.join([*texts[:_NAMED], *([f"and {more:,} more"] if more > 0 else [])])
