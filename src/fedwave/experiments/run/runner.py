"""Run an experiment: cut it into units, spread them over workers, keep what each brings.

With a folder, everything finished is kept there, and a run that was stopped goes on where it stopped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import points
from fedwave.experiments.results.container import Point, Results, joined
from fedwave.experiments.results.folder import Damaged, RunFolder
from fedwave.experiments.results.provenance import write_provenance
from fedwave.experiments.run.pool import Finished, Tell, run_here, run_in_pool
from fedwave.experiments.run.units import Unit, resolved, units_of

if TYPE_CHECKING:
    import xarray as xr

Event = dict[str, Any]
# Simulations of fewer device-rounds are over before workers have started.
_WORTH_WORKERS = 50_000_000


class Watcher(Protocol):
    """Told how a run goes: numerics never print."""

    def __call__(self, event: Event) -> None: ...


class Engine(Protocol):
    """Does units of work wherever it likes; yields each when it is finished."""

    def __call__(
        self, units: list[Unit], checkpoint: Callable[[Unit], Path | None], tell: Tell
    ) -> Iterator[Finished]: ...


@dataclass
class _Progress:
    """Turns what engines tell into events."""

    watch: Watcher
    units: int
    total: int  # rounds over all runs
    finished: int = 0
    played: dict[str, int] = field(default_factory=dict)  # by unit
    start: float = field(default_factory=time.monotonic)

    def event(self, name: str, **more: Any) -> None:
        self.watch(
            {
                "event": name, "seconds": round(time.monotonic() - self.start, 3), "units": self.units,
                "finished": self.finished, "rounds": sum(self.played.values()), "of": self.total, **more,
            }
        )  # fmt: skip

    def tell(self, kind: str, unit: Unit, more: Any) -> None:
        if kind == "rounds":
            self.played[unit.name] = self.played.get(unit.name, 0) + more
            self.event("progress", unit=unit.name)
            return
        if kind in ("begun", "died"):
            self.played[unit.name] = 0
        self.event(f"unit-{kind}", unit=unit.name, **({} if more is None else {"told": more}))

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
) -> Results:
    """Run it, or go on with it. ``workers`` are processes; None: one per core, or none for a small run."""
    experiment = resolved(experiment)
    units = units_of(experiment)
    progress = _Progress(watch or (lambda event: None), len(units), sum(u.rounds for u in units))
    run = engine or _engine(experiment, units, workers)
    if folder is None:
        found = _in_memory(units, run, progress)
        return _results(experiment, units, lambda unit: found[unit.name])
    store = RunFolder(folder)
    with store.locked():
        store.begin(experiment)
        write_provenance(store.path, experiment)
        _in_folder(store, units, run, progress)
        return _results(experiment, units, store.data)


def stored_results(folder: Path) -> Results:
    """The results in a run folder, all of which must be there."""
    store = RunFolder(folder)
    experiment = store.experiment()
    units = units_of(experiment)
    missing = [unit for unit in units if not store.finished(unit)]
    if missing:
        raise FedwaveError(
            f"{folder} is not finished ({len(missing)} of {len(units)} units are missing): "
            f"run `fedwave resume {folder}`."
        )
    return _results(experiment, units, store.data)


def _engine(experiment: Experiment, units: list[Unit], workers: int | None) -> Engine:
    gpus = 0
    if experiment.task is not None and experiment.training.device != "cpu":
        from fedwave.learning.replay import gpu_count

        gpus = gpu_count()
        workers = min(gpus, workers or gpus)
    elif workers is None:
        worth = experiment.task is not None or _size(units) > _WORTH_WORKERS
        workers = min(len(units), os.cpu_count() or 1) if worth else 1
    if workers <= 1:
        return run_here
    return lambda units, checkpoint, tell: run_in_pool(units, checkpoint, tell, workers, gpus)


def _size(units: list[Unit]) -> int:
    from fedwave.experiments.config.build import network_of

    return sum(u.rounds * network_of(u.experiment.network).size for u in units)


def _in_memory(units: list[Unit], run: Engine, progress: _Progress) -> dict[str, xr.Dataset]:
    progress.event("started")
    found: dict[str, xr.Dataset] = {}
    for unit, data, seconds in run(units, lambda unit: None, progress.tell):
        found[unit.name] = data
        progress.done(unit, took=round(seconds, 3))
    progress.event("finished")
    return found


def _in_folder(store: RunFolder, units: list[Unit], run: Engine, progress: _Progress) -> None:
    left = []
    for unit in units:
        try:
            kept = store.finished(unit)
        except Damaged as damage:
            progress.event("damaged", unit=unit.name, told=str(damage))
            kept = False
        if kept:
            progress.finished += 1
            progress.played[unit.name] = unit.rounds
        else:
            left.append(unit)
    progress.event("started")
    for unit, data, seconds in run(left, store.checkpoint, progress.tell):
        store.keep(unit, data, seconds)
        progress.done(unit, took=round(seconds, 3))
    progress.event("finished")


def _results(
    experiment: Experiment, units: list[Unit], data_of: Callable[[Unit], xr.Dataset]
) -> Results:
    """Units put together again: for every point, every scheduler in its order with all its instances."""
    parts: dict[int, list[xr.Dataset]] = {}
    for unit in units:
        parts.setdefault(unit.point, []).append(data_of(unit))
    return Results(
        experiment,
        [
            Point(where, point, joined(parts[number], point.schedulers))
            for number, (where, point) in enumerate(points(experiment))
        ],
    )
