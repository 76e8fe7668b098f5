"""Units of work, one after another in this process or spread over workers.

A unit that fails in the user's code, or finishes no round for the time-out, is abandoned: the others go on. A worker
that crashes is replaced, and its unit goes on from its last checkpoint (retries.py says how often). After a request to
stop (signals.py), Stopped is raised as soon as every unit at work has stopped.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from multiprocessing import connection, resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.experiments.config.units import Unit
from fedwave.experiments.run.retries import LIMITS, Queue, no_round_in
from fedwave.experiments.run.signals import TIMEOUT, NoRound, Stopped, StopRequest, limited, signals_held
from fedwave.experiments.run.work import UnitFailed, run_unit
from fedwave.experiments.run.worker import (
    HEADER,
    ONE_THREAD,
    Message,
    Report,
    check_exit,
    check_script,
    checkpointer,
    environment,
    out_of_memory,
    result_of,
    serve,
)

if TYPE_CHECKING:
    import xarray as xr

Finished = tuple[Unit, "xr.Dataset", float]  # with the seconds it took
PathOf = Callable[[Unit], Path | None]  # the checkpoint file of a unit; None: no checkpoints
STOPPED_SECONDS = 60.0  # a worker that is stopped (SIGSTOP) for longer is replaced
_STARTING_SECONDS = 60.0  # that a new process may take more than the time-out for its first message
_LOOK_SECONDS = 0.1  # between two looks at the workers
_AWAKE_SECONDS = 1.0  # a longer gap between two looks: this process did not run either


def run_here(
    units: list[Unit], checkpoint: PathOf, report: Report, stop: StopRequest | None = None, timeout: float = TIMEOUT
) -> Generator[Finished, None, None]:
    """One unit after another in this process."""
    queue, stop = Queue(units), stop or StopRequest()
    while (unit := queue.take([])) is not None:
        report(Message("begun", unit))
        start = time.monotonic()
        try:
            data = _do_here(unit, checkpoint(unit), report, stop, timeout)
        except NoRound:
            report(Message("abandoned", unit, no_round_in(timeout, unit)))
        except UnitFailed as error:
            for one in (unit, *queue.failed(unit, error.why)):
                report(Message("abandoned", one, error.why, error))
        except Exception as error:
            cause = out_of_memory(error)
            if cause is None:
                raise
            report(Message("abandoned", unit, f"{cause}: lower block, or make the experiment smaller"))
        else:
            queue.succeeded(unit)
            yield unit, data, time.monotonic() - start


def _do_here(unit: Unit, path: Path | None, report: Report, stop: StopRequest, timeout: float) -> xr.Dataset:
    def leave() -> None:  # the unit's code catches every interrupt, so only the end of this process ends it
        why = f"{no_round_in(timeout, unit)}. It catches every interrupt: with --workers 2 the others would go on"
        stop.leave(1, f"unit {unit.name} is abandoned: {why}.")

    with stop.at_work_here(), limited(timeout, leave) as finished_a_round:

        def count(rounds: int) -> None:
            finished_a_round()
            report(Message("rounds", unit, rounds))

        def warn(text: str) -> None:
            report(Message("warning", unit, text))

        return run_unit(unit, checkpointer(unit, path, lambda: stop.requested), count, warn)


def run_in_pool(
    units: list[Unit],
    checkpoint: PathOf,
    report: Report,
    stop: StopRequest | None = None,
    *,
    workers: int,
    gpus: int = 0,
    timeout: float = TIMEOUT,
) -> Generator[Finished, None, None]:
    """Units spread over ``workers`` processes; with GPUs, worker k has GPU k to itself."""
    check_script()

    def new(number: int) -> Worker | None:
        return _Process(number, bool(gpus)) if number < workers else None

    def wait(watched: list[Any]) -> None:
        connection.wait(watched, _LOOK_SECONDS)

    return Pool(units, checkpoint, report, stop or StopRequest(), timeout, new, wait).results()


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
        """Ask it to stop its unit with a checkpoint; called again and again until it has."""

    @abstractmethod
    def watched(self) -> list[Any]:
        """The objects that the pool waits for while it has a unit."""

    @abstractmethod
    def messages(self, passed: float) -> list[tuple[str, Any]]:
        """The (kind, content) that have come, without waiting, ``passed`` seconds after the last call.

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
        looked = time.monotonic()
        try:
            while self._at_work() or (self._queue and not self._stop.requested):
                if self._stop.requested:
                    for worker in self._workers:
                        worker.ask_to_stop()
                else:
                    self._begin()
                self._wait([one for worker in self._workers if worker.unit is not None for one in worker.watched()])
                # A machine that sleeps, or Ctrl-Z, does not make its workers late.
                before, looked = looked, time.monotonic()
                for worker in list(self._workers):
                    yield from self._listen(worker, min(looked - before, _AWAKE_SECONDS))
            if self._stop.requested:
                raise Stopped
        finally:
            for worker in self._workers:
                worker.end()

    def _at_work(self) -> list[Unit]:
        return [worker.unit for worker in self._workers if worker.unit is not None]

    def _begin(self) -> None:
        while (unit := self._queue.look(self._at_work())) is not None:
            worker = next((one for one in self._workers if one.unit is None), None)
            if worker is None:
                with signals_held():  # it must be among the workers, which are ended, when a signal is answered
                    worker = self._new(min(set(range(len(self._workers) + 1)) - {one.number for one in self._workers}))
                    if worker is None:
                        return
                    self._workers.append(worker)
            self._queue.take(self._at_work())
            worker.begin(unit, self._checkpoint(unit))
        for worker in [one for one in self._workers if one.unit is None]:  # what it holds is memory too, or a CPU
            self._remove(worker)

    def _listen(self, worker: Worker, passed: float) -> Generator[Finished, None, None]:
        """Act on what a worker has sent, or has not."""
        worker.silent += passed
        for kind, content in worker.messages(passed):
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
            if kind == "abandoned":
                self._abandon(content, unit, *self._queue.failed(unit, content))
            elif kind != "stopped":
                self._queue.succeeded(unit)
                assert worker.since is not None
                yield unit, result_of(unit, kind, content), time.monotonic() - worker.since
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


class _Process(Worker):
    """A process that does one unit after another. It can be stopped (SIGSTOP) in the middle of a message, in either
    direction, so this end of the socket never waits.
    """

    def __init__(self, number: int, on_gpu: bool) -> None:
        super().__init__(number)
        self.silent = -_STARTING_SECONDS
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        self._incoming, self._outgoing = bytearray(), bytearray()
        self._asked = False
        self._halted = 0.0  # seconds that the process was stopped
        device = {"CUDA_VISIBLE_DEVICES": str(number)} if on_gpu else {}
        context = multiprocessing.get_context("spawn")  # torch in a forked process can deadlock
        resource_tracker.ensure_running()  # first: it would let go of the signals that are held
        with theirs, environment({**ONE_THREAD, **device}):
            self._process = context.Process(target=serve, args=(theirs,), daemon=True)
            self._process.start()

    def watched(self) -> list[Any]:
        return [self._socket, self._process.sentinel]

    def begin(self, unit: Unit, path: Path | None) -> None:
        super().begin(unit, path)
        self.silent = min(self.silent, 0.0)
        self._outgoing += pickle.dumps((unit, path))
        self._send()

    def ask_to_stop(self) -> None:
        if not self._asked:
            self._asked = True
            self._outgoing += pickle.dumps(None)

    def messages(self, passed: float) -> list[tuple[str, Any]]:
        status = self._process.exitcode  # asked first: then nothing that it has sent is missed
        self._send()
        found = self._receive()
        self._halted = self._halted + passed if self._is_stopped() else 0.0
        if status is not None:
            check_exit(status)
            # The system ends a process with signal 9 when there is no memory left.
            kind = "memory" if status == -9 else "crashed"
            found.append((kind, f"signal {-status}" if status < 0 else f"exit status {status}"))
        elif self._halted > STOPPED_SECONDS:
            found.append(("crashed", f"it was stopped for {STOPPED_SECONDS:g} s"))
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._socket.close()

    def _send(self) -> None:
        with suppress(OSError):  # it does not read now, or has ended
            while self._outgoing:
                del self._outgoing[: self._socket.send(self._outgoing)]

    def _receive(self) -> list[tuple[str, Any]]:
        with suppress(OSError):  # nothing more has come
            while part := self._socket.recv(1 << 20):
                self._incoming += part
        found = []
        while len(self._incoming) >= HEADER.size:
            end = HEADER.size + HEADER.unpack_from(self._incoming)[0]
            if len(self._incoming) < end:
                break
            found.append(pickle.loads(self._incoming[HEADER.size : end]))
            del self._incoming[:end]
        return found

    def _is_stopped(self) -> bool:
        """Is the process stopped by a signal (SIGSTOP, Ctrl-Z), so that nothing in it can run?"""
        if not hasattr(os, "waitid"):
            return False  # the time-out finds it
        how = os.WSTOPPED | os.WNOHANG | os.WNOWAIT  # only look: multiprocessing waits for its end
        try:
            return os.waitid(os.P_PID, self._process.pid or 0, how) is not None
        except ChildProcessError:  # it has ended
            return False
