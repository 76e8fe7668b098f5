"""Units of work on this machine: in this process, or in several that each do one unit after another.

A worker that dies is replaced, and its unit goes on from its last checkpoint. Workers exit when their parent does.
A request to stop (stopping.py) is sent to every worker at work; Stopped is raised when all of them have stopped.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.errors import FedwaveError
from fedwave.experiments.run.checkpoints import Asked, Checkpointer, FileCheckpointer
from fedwave.experiments.run.script import check_exit, check_script
from fedwave.experiments.run.stopping import Stopped, ignore_signals, requested, signals_held
from fedwave.experiments.run.units import Unit
from fedwave.experiments.run.work import run_unit
from fedwave.experiments.run.worker import (
    ONE_THREAD,
    Answer,
    Message,
    Report,
    Reporter,
    answer,
    environment,
    result_of,
)

if TYPE_CHECKING:
    import xarray as xr

Finished = tuple[Unit, "xr.Dataset", float]  # with the seconds it took
PathOf = Callable[[Unit], Path | None]  # the checkpoint file of a unit; None: no checkpoints
DEATHS = 3  # of workers at the same unit before the run ends
_SECONDS = 0.1  # between two looks for a request to stop


def run_here(
    units: list[Unit], checkpoint: PathOf, report: Report
) -> Generator[Finished, None, None]:
    """One unit after another in this process."""
    for unit in units:
        report(Message("begun", unit))
        start = time.monotonic()
        count, warn = (partial(_send, report, unit, kind) for kind in ("rounds", "warning"))
        data = run_unit(unit, _checkpointer(unit, checkpoint(unit), requested), count, warn)
        yield unit, data, time.monotonic() - start


def run_in_pool(
    units: list[Unit], checkpoint: PathOf, report: Report, workers: int, gpus: int = 0
) -> Generator[Finished, None, None]:
    """Units spread over ``workers`` processes; with GPUs, worker k has GPU k to itself."""
    check_script()
    waiting = list(reversed(units))
    deaths: Counter[str] = Counter()
    pool = [_Worker(k if gpus else None) for k in range(min(workers, len(units)))]
    try:
        while any(worker.unit for worker in pool) or (waiting and not requested()):
            for worker in pool:
                if requested():
                    worker.ask_to_stop()
                elif worker.unit is None and waiting:
                    unit = waiting.pop()
                    worker.begin(unit, checkpoint(unit))
                    report(Message("begun", unit))
            ready = wait([worker.pipe for worker in pool if worker.unit], _SECONDS)
            for k, worker in enumerate(pool):
                if worker.unit is None or worker.pipe not in ready:
                    continue
                unit = worker.unit
                try:
                    kind, content = worker.pipe.recv()
                except (EOFError, OSError):
                    if requested():
                        worker.unit = None
                        continue
                    check_exit(worker.exit_status())
                    deaths[unit.name] += 1
                    report(Message("died", unit, worker.exit_code()))
                    if deaths[unit.name] == DEATHS:
                        raise FedwaveError(
                            f"unit {unit.name} has ended {DEATHS} workers ({worker.exit_code()}): is there too "
                            "little memory? Try fewer workers, or a smaller block."
                        ) from None
                    waiting.append(unit)
                    pool[k] = _Worker(k if gpus else None)
                    continue
                if kind in ("rounds", "warning"):
                    report(Message(kind, unit, content))
                elif kind == "stopped":
                    worker.unit = None
                else:
                    worker.unit = None
                    yield unit, result_of(unit, kind, content), time.monotonic() - worker.since
        if requested():
            raise Stopped
    finally:
        for worker in pool:
            worker.stop()


class _Worker:
    """A process and the unit that it does now."""

    def __init__(self, gpu: int | None) -> None:
        context = multiprocessing.get_context("spawn")  # torch in a forked process can deadlock
        self.pipe, theirs = context.Pipe()
        device = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": str(gpu)}
        resource_tracker.ensure_running()  # first: it would let go of the signals that are held
        with environment({**ONE_THREAD, **device}), signals_held():
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
        theirs.close()  # the pipe must close when the process ends
        self.unit: Unit | None = None
        self.since = 0.0
        self._asked = False

    def begin(self, unit: Unit, path: Path | None) -> None:
        self.unit, self.since = unit, time.monotonic()
        with suppress(ConnectionError):  # the worker has died: reading from the pipe will show it
            self.pipe.send((unit, path))

    def ask_to_stop(self) -> None:
        if self.unit is not None and not self._asked:
            self._asked = True
            with suppress(ConnectionError):
                self.pipe.send(None)

    def exit_status(self) -> int | None:
        self._process.join(timeout=5)
        return self._process.exitcode

    def exit_code(self) -> str:
        code = self.exit_status()
        return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _serve(pipe: Connection) -> None:
    """The worker process: does units until the pipe closes."""
    ignore_signals()
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError):  # the parent process has exited
        while True:
            work = pipe.recv()
            if work is not None:  # None: asked to stop a unit that was finished by then
                unit, path = work
                pipe.send(_answer(unit, path, pipe))


def _answer(unit: Unit, path: Path | None, pipe: Connection) -> Answer:
    reporter = Reporter(lambda kind, content: pipe.send((kind, content)))
    found = answer(unit, _checkpointer(unit, path, _now_and_then(pipe.poll)), reporter)
    reporter.flush()
    return found


def _send(report: Report, unit: Unit, kind: str, content: Any) -> None:
    report(Message(kind, unit, content))


def _checkpointer(unit: Unit, path: Path | None, asked: Asked) -> Checkpointer:
    if path is None:
        return Checkpointer(asked=asked)
    return FileCheckpointer(path, unit.experiment.checkpoint_seconds, asked)


def _now_and_then(asked: Asked) -> Asked:
    """Asks only a few times a second: a look into a pipe takes a while, and rounds can be many."""
    last = 0.0

    def asked_lately() -> bool:
        nonlocal last
        if time.monotonic() - last < _SECONDS:
            return False
        last = time.monotonic()
        return asked()

    return asked_lately


def _exit_with_parent() -> None:
    """A parent that is killed cannot stop its workers, so each worker waits for the parent's end."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
