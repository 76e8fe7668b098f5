"""Doing one unit of work, from its last checkpoint if there is one."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import IO, TYPE_CHECKING, Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.build import network_of, schedulers_of, settings_of, task_of
from fedwave.experiments.config.experiment import TaskConfig
from fedwave.experiments.results.container import unit_dataset
from fedwave.experiments.run.checkpoints import Keeper
from fedwave.experiments.run.units import Unit
from fedwave.network.network import Network
from fedwave.schedulers.base import Scheduler
from fedwave.simulate import extend, simulate
from fedwave.trace import Trace

if TYPE_CHECKING:
    import xarray as xr

    from fedwave.learning.replay import Replay
    from fedwave.learning.task import Task

Meter = Callable[[int], None]  # told the rounds played, over all runs of the unit
Warn = Callable[[str], None]
# Device-rounds between two looks at the clock: some seconds of work.
_PIECE = 5_000_000


def run_unit(unit: Unit, keeper: Keeper, meter: Meter, warn: Warn) -> xr.Dataset:
    """The results of the unit."""
    network = network_of(unit.experiment.network)
    every = schedulers_of(unit.experiment)
    chosen = {label: every[label] for label in unit.schedulers}
    if unit.experiment.task is None:
        (label, one), *_ = chosen.items()
        return unit_dataset({label: _simulate(unit, network, one, keeper, meter, warn)})
    task = _task(unit.experiment.task)
    if any("learner" in one.needs for one in chosen.values()):
        (label, one), *_ = chosen.items()
        return _in_lock_step(unit, network, label, one, task, keeper, meter, warn)
    return _replay(unit, network, chosen, task, keeper, meter, warn)


@lru_cache(maxsize=2)
def _task(config: TaskConfig) -> Task:
    """Units of one worker share the data: reading them takes longer than a small unit."""
    return task_of(config)


def _simulate(
    unit: Unit, network: Network, scheduler: Scheduler, keeper: Keeper, meter: Meter, warn: Warn
) -> Trace:
    trace = _read(keeper, lambda raw: Trace.read(raw, "its checkpoint"), warn)
    runs = len(unit.instances)
    if trace is not None:
        meter(trace.rounds * runs)
    return _in_pieces(
        unit, network, scheduler, trace, {"record": "summary"}, meter, keeper,
        lambda so_far, file: so_far.write(file),
    )  # fmt: skip


def _in_pieces(
    unit: Unit, network: Network, scheduler: Scheduler, trace: Trace | None, how: Mapping[str, Any],
    meter: Meter, keeper: Keeper, write: Callable[[Trace, IO[bytes]], None], piece: int | None = None,
) -> Trace:  # fmt: skip
    """Simulate, stopping now and then to keep what there is."""
    runs, rounds = len(unit.instances), unit.experiment.rounds
    piece = piece or max(1, _PIECE // (runs * network.size))
    tick = lambda played: meter(played * runs)  # noqa: E731
    learner = how.get("learner")
    while trace is None or trace.rounds < rounds:
        if trace is None:
            trace = simulate(
                network, scheduler, min(piece, rounds), unit.instances, unit.experiment.seed, meter=tick, **how
            )  # fmt: skip
        else:
            until = min(trace.rounds + piece, rounds)
            trace = extend(trace, until, scheduler=scheduler, meter=tick, learner=learner)
        if trace.rounds < rounds and keeper.due():
            keeper.save(partial(write, trace))
    return trace


def _replay(
    unit: Unit, network: Network, chosen: Mapping[str, Scheduler], task: Task, keeper: Keeper,
    meter: Meter, warn: Warn,
) -> xr.Dataset:  # fmt: skip
    """Simulate, then train on what happened: the schedule does not depend on the models."""
    from fedwave.learning import checkpoint
    from fedwave.learning.replay import Replay, labelled_runs

    point = unit.experiment
    traces = {
        label: simulate(network, one, point.rounds, unit.instances, point.seed)
        for label, one in chosen.items()
    }
    settings, sizes = settings_of(point.training)
    replay = Replay(labelled_runs(traces), task, settings, sizes)
    _read(keeper, lambda raw: checkpoint.read(replay, raw, "its checkpoint"), warn)
    runs = len(replay.runs)
    meter(replay.round * runs)
    while replay.round < replay.rounds:
        replay.advance()
        meter(runs)
        if replay.round < replay.rounds and keeper.due():
            keeper.save(lambda file: checkpoint.write(replay, file))
    return unit_dataset(traces, {curves.label: curves for curves in replay.curves()})


def _in_lock_step(
    unit: Unit, network: Network, label: str, scheduler: Scheduler, task: Task, keeper: Keeper,
    meter: Meter, warn: Warn,
) -> xr.Dataset:  # fmt: skip
    """Simulate and train together, for a scheduler that looks at the models."""
    from fedwave.learning.lockstep import LockStep

    settings, sizes = settings_of(unit.experiment.training)

    def fresh() -> LockStep:
        point = unit.experiment
        return LockStep(
            network, task, point.rounds, unit.instances, point.seed, label, settings, sizes
        )

    learner = fresh()
    trace = _read(keeper, lambda raw: _go_on_in_lock_step(learner, raw), warn)
    if trace is None:
        learner = fresh()  # whatever a damaged checkpoint may have left in the other
    else:
        meter(trace.rounds * len(unit.instances))
    trace = _in_pieces(
        unit, network, scheduler, trace, {"learner": learner}, meter, keeper,
        lambda so_far, file: _write_lock_step(so_far, learner.replay, file), piece=1,
    )  # fmt: skip
    return unit_dataset({label: trace}, {label: learner.replay.curves()[0]})


def _write_lock_step(trace: Trace, replay: Replay, file: IO[bytes]) -> None:
    """The trace and the models of the same moment, in one file."""
    from fedwave.learning import checkpoint

    with zipfile.ZipFile(file, "w") as archive:
        with archive.open("trace.npz", "w", force_zip64=True) as part:
            trace.write(part)
        with archive.open("models.npz", "w", force_zip64=True) as part:
            checkpoint.write(replay, part)


def _go_on_in_lock_step(learner: Any, raw: IO[bytes]) -> Trace:
    from fedwave.learning import checkpoint

    with zipfile.ZipFile(raw) as archive:
        with archive.open("trace.npz") as part:
            trace = Trace.read(part, "its checkpoint")
        learner.go_on(trace)
        with archive.open("models.npz") as part:
            checkpoint.read(learner.replay, part, "its checkpoint")
    return trace


def _read(keeper: Keeper, read: Callable[[IO[bytes]], Any], warn: Warn) -> Any:
    """What ``read`` makes of the checkpoint; None if there is none or it is damaged."""
    raw = keeper.saved()
    if raw is None:
        return None
    with raw:
        try:
            return read(raw)
        except (FedwaveError, zipfile.BadZipFile, OSError, KeyError) as error:
            warn(f"the checkpoint cannot be used, so the unit starts anew ({error})")
            return None
