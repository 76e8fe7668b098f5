"""Units of work, one after another in this process or spread over workers.

A unit that fails in the user's code, or finishes no round for the time-out, is abandoned: the others go on. A worker
that crashes is replaced, and its unit goes on from its last checkpoint (retries.py says how often). After a request to
stop (signals.py), Stopped is raised as soon as every unit at work has stopped.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.units import Unit
from fedwave.experiments.run.retries import LIMITS, LOWER, Queue, no_round_in
from fedwave.experiments.run.signals import TIMEOUT, NoRound, Stopped, StopRequest, signals_held
from fedwave.experiments.run.work import UnitFailed, run_unit
from fedwave.experiments.run.worker import out_of_memory

if TYPE_CHECKING:
    import xarray as xr

Finished = tuple[Unit, "xr.Dataset", float]  # with the seconds it took
PathOf = Callable[[Unit], Path | None]  # the checkpoint file of a unit; None: no checkpoints
_AWAKE_SECONDS = 1.0  # a longer gap between two looks at the workers: this process did not run either


@dataclass(frozen=True)
class Message:
    """News about a unit at work."""

    # "begun", "rounds" (how many more were played; 0: it works), "warning" (a sentence), "crashed" (why its worker did,
    # and the unit is retried), "abandoned" (why)
    kind: str
    unit: Unit
    content: Any = None
    cause: BaseException | None = None  # of a unit that failed in this process


Report = Callable[[Message], None]
# Does units of work, in any order and place; yields each when it is finished. When a stop is requested it stops with
# checkpoints and raises Stopped.
Engine = Callable[[list[Unit], PathOf, Report, StopRequest], Generator[Finished, None, None]]


def run_here(
    units: list[Unit], checkpoint: PathOf, report: Report, stop: StopRequest | None = None, timeout: float = TIMEOUT
) -> Generator[Finished, None, None]:
    """One unit after another in this process."""
    queue, stop = Queue(units), stop or StopRequest()
    while (unit := queue.take()) is not None:
        report(Message("begun", unit))
        start = time.monotonic()
        try:
            data = _do_here(unit, checkpoint(unit), report, stop, timeout)
        except NoRound:
            report(Message("abandoned", unit, no_round_in(timeout, unit)))
        except UnitFailed as error:
            for one in queue.failed(unit, str(error)):
                report(Message("abandoned", one, str(error), error))
        except Exception as error:
            cause = out_of_memory(error)
            if cause is None:
                raise
            report(Message("abandoned", unit, f"{cause}: {LOWER}"))
        else:
            queue.succeeded(unit)
            yield unit, data, time.monotonic() - start


def _do_here(unit: Unit, path: Path | None, report: Report, stop: StopRequest, timeout: float) -> xr.Dataset:
    why = f"{no_round_in(timeout, unit)}. It catches every interrupt: with --workers 2 the others would go on"
    with stop.at_work_here(timeout, f"unit {unit.name} is abandoned: {why}.") as finished_a_round:

        def meter(rounds: int) -> None:
            finished_a_round()
            report(Message("rounds", unit, rounds))

        return run_unit(unit, path, meter, lambda text: report(Message("warning", unit, text)), lambda: stop.requested)


class Worker(ABC):
    """A worker as its pool sees it: a process of this machine, or an actor on a Ray cluster."""

    def __init__(self, number: int) -> None:
        self.number = number  # among the workers of its pool
        self.unit: Unit | None = None
        self.since: float | None = None  # when it began with the unit; None: it has not said so
        self.silent = 0.0  # seconds without a message, as far as this process was awake

    def begin(self, unit: Unit, path: Path | None) -> None:
        """Give it a unit; ``path`` is that of the checkpoint."""
        self.unit, self.since = unit, None

    @abstractmethod
    def ask_to_stop(self) -> None:
        """Ask it to stop its unit with a checkpoint."""

    @abstractmethod
    def watched(self) -> list[Any]:
        """The objects that the pool waits for while it has a unit."""

    @abstractmethod
    def messages(self) -> list[tuple[str, Any]]:
        """The (kind, content) that have come, without waiting.

        Besides those of a worker (worker.py), one of retries.LIMITS and the cause: it is of no use any more.
        """

    @abstractmethod
    def end(self) -> None:
        """Kill it."""


class Pool:
    """Gives units to workers, reads their messages, and retries or abandons the units of those that are gone.

    ``new`` makes the worker of a number, or returns None if there are enough; ``wait`` waits a moment for what workers
    watch.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        checkpoint: PathOf,
        report: Report,
        stop: StopRequest,
        timeout: float,
        new: Callable[[int], Worker | None],
        wait: Callable[[list[Any]], object],
    ) -> None:
        self._queue = Queue(units)
        self._checkpoint, self._report, self._stop, self._timeout = checkpoint, report, stop, timeout
        self._new, self._wait = new, wait
        self._workers: list[Worker] = []

    def results(self) -> Generator[Finished, None, None]:
        """Every unit when it is finished."""
        looked, asked = time.monotonic(), False
        try:
            while self._at_work() or (self._queue and not self._stop.requested):
                if not self._stop.requested:
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
            if self._stop.requested:
                raise Stopped
        finally:
            for worker in self._workers:
                worker.end()

    def _at_work(self) -> list[Unit]:
        return [worker.unit for worker in self._workers if worker.unit is not None]

    def _begin(self) -> None:
        while (unit := self._queue.take(self._at_work())) is not None:
            worker = next((one for one in self._workers if one.unit is None), None) or self._added()
            if worker is None:
                self._queue.put_back(unit)
                return
            worker.begin(unit, self._checkpoint(unit))
        for worker in [one for one in self._workers if one.unit is None]:  # what it holds is memory too, or a CPU
            self._remove(worker)

    def _added(self) -> Worker | None:
        taken = {one.number for one in self._workers}
        with signals_held():  # it must be among the workers, which are ended, when a signal is answered
            worker = self._new(next(number for number in count() if number not in taken))
            if worker is not None:
                self._workers.append(worker)
        return worker

    def _listen(self, worker: Worker) -> Generator[Finished, None, None]:
        """Act on what a worker has sent, or has not."""
        for kind, content in worker.messages():
            worker.silent, unit = 0.0, worker.unit
            if kind in LIMITS:
                self._crashed(worker, kind, content)
                return
            if unit is None:
                continue
            if worker.since is None and kind == "rounds":
                worker.since = time.monotonic()
                self._report(Message("begun", unit))
            if kind in ("rounds", "warning"):
                self._report(Message(kind, unit, content))
                continue
            worker.unit = None
            if kind == "done":
                self._queue.succeeded(unit)
                assert worker.since is not None
                yield unit, content, time.monotonic() - worker.since
            elif kind == "abandoned":
                self._abandon(content, *self._queue.failed(unit, content))
            elif kind == "refused":
                raise FedwaveError(content)
            elif kind == "failed":
                raise RuntimeError(f"unit {unit.name} failed in its worker:\n{content}")
        if worker.unit is not None and worker.silent > self._timeout:
            self._remove(worker)
            self._abandon(no_round_in(self._timeout, worker.unit), worker.unit)

    def _crashed(self, worker: Worker, kind: str, cause: str) -> None:
        self._remove(worker)
        if worker.unit is None or self._stop.requested:  # it keeps its last checkpoint
            return
        why = self._queue.crashed(worker.unit, kind, cause)
        if why is None:
            self._report(Message("crashed", worker.unit, cause))
        else:
            self._abandon(why, worker.unit)

    def _abandon(self, why: str, *units: Unit) -> None:
        for unit in units:
            self._report(Message("abandoned", unit, why))

    def _remove(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.end()
