"""Units of work on this machine: in this process, or in several that each do one unit after another.

A unit that fails by itself, because the user's code does, is given up: the others go on.
A worker that dies is replaced, and its unit goes on from its last checkpoint (waiting.py says how often). A worker that
is stopped (SIGSTOP) is killed after a minute, which is a death too. A unit that finishes no round for the time-out is
given up: the others go on. Workers exit when their parent does.
A request to stop (stopping.py) is sent to every worker at work; Stopped is raised when all of them have stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from fedwave.experiments.run.processes import AwakeClock, News, Worker, checkpointer
from fedwave.experiments.run.script import check_exit, check_script
from fedwave.experiments.run.stopping import Stopped, at_work_here, leave, requested
from fedwave.experiments.run.time_limit import TIMEOUT, NoRound, limited
from fedwave.experiments.run.units import Unit
from fedwave.experiments.run.waiting import Waiting, no_round_in
from fedwave.experiments.run.work import UnitFailed, run_unit
from fedwave.experiments.run.worker import Message, Report, out_of_memory, result_of

if TYPE_CHECKING:
    import xarray as xr

Finished = tuple[Unit, "xr.Dataset", float]  # with the seconds it took
PathOf = Callable[[Unit], Path | None]  # the checkpoint file of a unit; None: no checkpoints
STOPPED_SECONDS = 60.0  # a worker that is stopped for longer is replaced
_SECONDS = 0.1  # between two looks at the workers


def run_here(
    units: list[Unit], checkpoint: PathOf, report: Report, timeout: float = TIMEOUT
) -> Generator[Finished, None, None]:
    """One unit after another in this process."""
    waiting = Waiting(units)
    while (unit := waiting.take([])) is not None:
        report(Message("begun", unit))
        start = time.monotonic()
        try:
            data = _here(unit, checkpoint(unit), report, timeout)
        except NoRound:
            report(Message("given-up", unit, no_round_in(timeout, unit)))
        except UnitFailed as error:
            for one in (unit, *waiting.failed(unit, error.why)):
                report(Message("given-up", one, error.why, error))
        except Exception as error:
            cause = out_of_memory(error)
            if cause is None:
                raise
            report(Message("given-up", unit, f"{cause}: lower block, or make the experiment smaller"))
        else:
            waiting.succeeded(unit)
            yield unit, data, time.monotonic() - start


def _here(unit: Unit, path: Path | None, report: Report, timeout: float) -> xr.Dataset:
    with at_work_here(), limited(timeout, partial(_never_comes_back, unit, timeout)) as finished_a_round:

        def count(rounds: int) -> None:
            finished_a_round()
            report(Message("rounds", unit, rounds))

        def warn(text: str) -> None:
            report(Message("warning", unit, text))

        return run_unit(unit, checkpointer(unit, path, requested), count, warn)


def _never_comes_back(unit: Unit, timeout: float) -> None:
    """Its code catches every interrupt, so nothing but the end of this process ends it."""
    why = f"{no_round_in(timeout, unit)}. It catches every interrupt: with --workers 2 the others would go on"
    leave(2, f"unit {unit.name} is given up: {why}.")


def run_in_pool(
    units: list[Unit], checkpoint: PathOf, report: Report, workers: int, gpus: int = 0, timeout: float = TIMEOUT
) -> Generator[Finished, None, None]:
    """Units spread over ``workers`` processes; with GPUs, worker k has GPU k to itself."""
    check_script()
    pool = _Pool(Waiting(units), checkpoint, report, bool(gpus), timeout)
    try:
        pool.start(min(workers, len(units)))
        yield from pool.results()
    finally:
        pool.stop()


class _Pool:
    """The workers and the units that wait for one."""

    def __init__(self, waiting: Waiting, checkpoint: PathOf, report: Report, on_gpus: bool, timeout: float) -> None:
        self._waiting, self._checkpoint, self._report = waiting, checkpoint, report
        self._on_gpus, self._timeout = on_gpus, timeout
        self._news: SimpleQueue[News] = SimpleQueue()
        self._workers: list[Worker] = []

    def start(self, workers: int) -> None:
        for number in range(workers):
            self._workers.append(self._new(number))

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()

    def results(self) -> Generator[Finished, None, None]:
        clock = AwakeClock()
        while self._at_work() or (self._waiting and not requested()):
            if requested():
                for worker in self._workers:
                    worker.ask_to_stop()
            else:
                self._begin()
            self._wait(clock.passed())
            try:
                worker, kind, content = self._news.get(timeout=_SECONDS)
            except Empty:
                continue
            unit = worker.unit
            if worker not in self._workers or unit is None:
                continue  # the last words of a worker that was killed
            if kind in ("rounds", "warning"):
                worker.silent = 0.0
                self._report(Message(kind, unit, content))
            elif kind == "ended":
                self._ended(worker, unit)
            elif kind == "memory":
                self._lost(worker, unit, content, memory=True)
            elif kind == "given-up":
                worker.unit = None
                for one in (unit, *self._waiting.failed(unit, content)):
                    self._report(Message("given-up", one, content))
            else:
                worker.unit, since = None, worker.since
                if kind != "stopped":
                    self._waiting.succeeded(unit)
                    yield unit, result_of(unit, kind, content), time.monotonic() - since
        if requested():
            raise Stopped

    def _at_work(self) -> list[Unit]:
        return [worker.unit for worker in self._workers if worker.unit is not None]

    def _begin(self) -> None:
        if self._waiting.only_alone and not self._at_work():
            while len(self._workers) > 1:  # what idle workers hold is memory too
                self._workers.pop().stop()
        for worker in self._workers:
            if worker.unit is not None:
                continue
            unit = self._waiting.take(self._at_work())
            if unit is None:
                return
            worker.begin(unit, self._checkpoint(unit))
            self._report(Message("begun", unit))

    def _wait(self, seconds: float) -> None:
        """So much time has passed: kill the workers that will not come back."""
        for worker in list(self._workers):
            unit = worker.unit
            if unit is None:
                continue
            worker.wait(seconds)
            if worker.halted > STOPPED_SECONDS:
                self._lost(worker, unit, f"it was stopped for {STOPPED_SECONDS:g} s")
            elif worker.silent > self._timeout:
                self._replace(worker)
                self._report(Message("given-up", unit, no_round_in(self._timeout, unit)))

    def _ended(self, worker: Worker, unit: Unit) -> None:
        if requested():
            worker.unit = None
            return
        check_exit(worker.exit_status())
        cause = worker.exit_code()
        # The system ends a process with signal 9 when there is no memory left.
        self._lost(worker, unit, cause, memory=cause == "signal 9")

    def _lost(self, worker: Worker, unit: Unit, cause: Any, memory: bool = False) -> None:
        """A worker is of no use any more: another one takes its place, and its unit waits or is given up."""
        self._replace(worker)
        given_up = self._waiting.died(unit, cause, memory=memory)
        if given_up is None:
            self._report(Message("died", unit, cause))
        else:
            self._report(Message("given-up", unit, given_up))

    def _replace(self, worker: Worker) -> None:
        number = self._workers.index(worker)
        worker.stop()
        self._workers[number] = self._new(number)

    def _new(self, number: int) -> Worker:
        return Worker(number if self._on_gpus else None, self._news)
