"""Units of work, one after another in this process or spread over workers.

A unit that fails in the user's code, or finishes no round within the time-out, is abandoned: the others continue, and
`fedwave resume` tries it again. A worker that has ended is replaced, and its unit continues from its last checkpoint. A
unit that ran out of memory is retried once, after all others and with no other unit beside it. After a request to stop
(signals.py), Stopped is raised as soon as every unit at work has stopped.

A worker sends messages (kind, content) to the pool, which reports some of them; the run makes events of these:

    kind       sender        content                    the pool                                 event
    begun      pool          None                       reports it at the first "rounds"         unit-begun
    rounds     unit          rounds played; 0: at work  reports it                               progress, unless 0
    warning    unit, worker  a sentence                 reports it                               unit-warning
    done       unit          the Dataset                yields it                                unit-finished
    stopped    unit, worker  None                       frees the worker                         none
    memory     unit, worker  the cause                  ends the worker, retries the unit alone  unit-crashed
    crashed    worker        the cause                  ends the worker, retries the unit twice  unit-crashed
    abandoned  unit, pool    the cause                  reports it; also after the last retry    unit-abandoned
    refused    unit          a sentence                 raises FedwaveError                      none
    failed     unit          a traceback                raises RuntimeError                      none

"unit" is ``process.do_unit``, in a process or on a Ray cluster; "worker" is a class derived from Worker.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.units import Unit
from fedwave.experiments.run.signals import TIMEOUT, NoRound, Stopped, StopRequest, signals_held
from fedwave.experiments.run.work import OutOfMemory, UnitFailed, run_unit

if TYPE_CHECKING:
    import xarray as xr

Finished = tuple[Unit, "xr.Dataset", float]  # with the seconds it took
# How often a unit may lose its worker before it is abandoned: for lack of memory, and in any other way.
_LIMITS = {"memory": 2, "crashed": 3}
_LOWER = "lower block, or make the experiment smaller"
_AWAKE_SECONDS = 1.0  # a longer gap between two looks at the workers: this process did not run either


@dataclass(frozen=True)
class Message:
    """A report about a unit at work."""

    kind: str  # begun, rounds, warning, crashed or abandoned
    unit: Unit
    content: Any = None
    cause: BaseException | None = None  # the error, if the unit failed in this process


@dataclass(frozen=True)
class Job:
    """Units of work to do, and the function that gets reports about them."""

    units: list[Unit]
    report: Callable[[Message], object]
    checkpoint: Callable[[Unit], Path | None] = lambda unit: None  # its file; None: no checkpoints
    stop: StopRequest = field(default_factory=StopRequest)
    timeout: float = TIMEOUT  # seconds without a finished round before a unit is abandoned


# Does the units in any order and place; yields each when it is finished. When a stop is requested it stops with
# checkpoints and raises Stopped.
Engine = Callable[[Job], Generator[Finished, None, None]]


def no_round_in(timeout: float, unit: Unit) -> str:
    """The reason for abandoning a unit that finishes no round."""
    names = ", ".join(unit.schedulers)
    return f"no round of {names} was finished in {timeout:g} s: raise --timeout if one takes longer"


def run_here(job: Job) -> Generator[Finished, None, None]:
    """One unit after another in this process."""
    for unit in job.units:
        job.report(Message("begun", unit))
        start = time.monotonic()
        try:
            data = _do_here(unit, job)
        except (UnitFailed, NoRound) as error:
            fix = f": {_LOWER}" if isinstance(error, OutOfMemory) else ""
            job.report(Message("abandoned", unit, f"{error}{fix}", error))
        else:
            yield unit, data, time.monotonic() - start


def _do_here(unit: Unit, job: Job) -> xr.Dataset:
    with job.stop.at_work_here(job.timeout, no_round_in(job.timeout, unit)) as finished_a_round:

        def meter(rounds: int) -> None:
            finished_a_round()
            job.report(Message("rounds", unit, rounds))

        def warn(sentence: str) -> None:
            job.report(Message("warning", unit, sentence))

        return run_unit(unit, job.checkpoint(unit), meter, warn, lambda: job.stop.requested)


class Worker(ABC):
    """The pool's side of a worker: a process of this machine, or an actor on a Ray cluster."""

    def __init__(self, number: int) -> None:
        self.number = number  # among the workers of its pool
        self.unit: Unit | None = None
        self.since: float | None = None  # when it began with the unit; None: it has not said so
        self.silent = 0.0  # seconds without a message, as far as this process was awake

    def begin(self, unit: Unit, path: Path | None) -> None:
        """Give it a unit; ``path`` is that of the checkpoint."""
        self.unit, self.since, self.silent = unit, None, 0.0

    @abstractmethod
    def ask_to_stop(self) -> None:
        """Ask it to stop its unit with a checkpoint."""

    @abstractmethod
    def watched(self) -> list[Any]:
        """The objects that the pool waits for while it has a unit."""

    @abstractmethod
    def messages(self) -> list[tuple[str, Any]]:
        """The messages that have arrived, as (kind, content). Does not wait."""

    @abstractmethod
    def end(self) -> None:
        """Kill it."""


class Pool:
    """Gives units to workers, reads their messages, and retries or abandons the units of those that are gone.

    ``new`` makes the worker of a number, or returns None if there are enough; ``wait`` waits a moment for what workers
    watch.
    """

    def __init__(self, job: Job, new: Callable[[int], Worker | None], wait: Callable[[list[Any]], object]) -> None:
        self._job, self._new, self._wait = job, new, wait
        self._waiting = deque(job.units)
        self._losses: Counter[tuple[str, str]] = Counter()  # by the unit's name, and the kind of loss
        self._workers: list[Worker] = []

    def results(self) -> Generator[Finished, None, None]:
        """Every unit when it is finished."""
        looked, asked, stop = time.monotonic(), False, self._job.stop
        try:
            while self._at_work() or (self._waiting and not stop.requested):
                if not stop.requested:
                    self._begin()
                elif not asked:
                    asked = True
                    for worker in self._workers:
                        worker.ask_to_stop()
                self._wait([one for worker in self._workers if worker.unit is not None for one in worker.watched()])
                # A machine that sleeps, or Ctrl-Z, does not make its workers late.
                before, looked = looked, time.monotonic()
                for worker in list(self._workers):
                    worker.silent += min(looked - before, _AWAKE_SECONDS)
                    yield from self._listen(worker)
            if stop.requested:
                raise Stopped
        finally:
            for worker in self._workers:
                worker.end()

    def _at_work(self) -> list[Unit]:
        return [worker.unit for worker in self._workers if worker.unit is not None]

    def _begin(self) -> None:
        """Gives waiting units to free workers. A unit that needs all memory waits until it is alone."""
        while self._waiting:
            at_work = self._at_work()
            if at_work and any(self._losses[unit.name, "memory"] for unit in (*at_work, self._waiting[0])):
                break
            worker = next((one for one in self._workers if one.unit is None), None) or self._added()
            if worker is None:
                break
            unit = self._waiting.popleft()
            worker.begin(unit, self._job.checkpoint(unit))
        for worker in [one for one in self._workers if one.unit is None]:  # it would hold memory, or a CPU
            self._remove(worker)

    def _added(self) -> Worker | None:
        taken = {one.number for one in self._workers}
        with signals_held():  # it must be among the workers, which are ended, when a signal is answered
            worker = self._new(next(number for number in count() if number not in taken))
            if worker is not None:
                self._workers.append(worker)
        return worker

    def _listen(self, worker: Worker) -> Generator[Finished, None, None]:
        """Acts on the messages of a worker, and on its silence."""
        for kind, content in worker.messages():
            worker.silent, unit = 0.0, worker.unit
            if kind in _LIMITS:
                self._lost(worker, kind, content)
                return
            if unit is None:
                continue
            if worker.since is None and kind == "rounds":
                worker.since = time.monotonic()
                self._job.report(Message("begun", unit))
            if kind in ("rounds", "warning"):
                self._job.report(Message(kind, unit, content))
                continue
            worker.unit = None
            if kind == "done":
                assert worker.since is not None
                yield unit, content, time.monotonic() - worker.since
            elif kind == "abandoned":
                self._job.report(Message("abandoned", unit, content))
            elif kind == "refused":
                raise FedwaveError(content)
            elif kind == "failed":
                raise RuntimeError(f"unit {unit.name} failed in its worker:\n{content}")
        if worker.unit is not None and worker.since is not None and worker.silent > self._job.timeout:
            self._remove(worker)
            self._job.report(Message("abandoned", worker.unit, no_round_in(self._job.timeout, worker.unit)))

    def _lost(self, worker: Worker, kind: str, cause: str) -> None:
        """Removes a worker that has ended; retries or abandons its unit."""
        self._remove(worker)
        unit = worker.unit
        if unit is None or self._job.stop.requested:  # it keeps its last checkpoint
            return
        self._losses[unit.name, kind] += 1
        if self._losses[unit.name, kind] < _LIMITS[kind]:
            self._waiting.append(unit)
            self._job.report(Message("crashed", unit, cause))
            return
        why = f"it crashed {_LIMITS[kind]} workers ({cause})"
        if kind == "memory":
            why = f"its worker ended for lack of memory, also with no other beside it ({cause}): {_LOWER}"
        self._job.report(Message("abandoned", unit, why))

    def _remove(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.end()
