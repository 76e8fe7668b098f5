"""One worker process of the pool: the unit that it does, its messages, and how long nothing has come from it.

A thread of this process talks with each worker, because a worker can be stopped (SIGSTOP) in the middle of a message:
whoever reads from it then waits for ever, and the run must not.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from fedwave.experiments.run.checkpoints import Asked, Checkpointer, FileCheckpointer
from fedwave.experiments.run.stopping import ignore_signals, signals_held
from fedwave.experiments.run.units import Unit
from fedwave.experiments.run.worker import ONE_THREAD, Answer, Reporter, answer, environment

STARTING_SECONDS = 60.0  # that a new process may take more than the time-out for its first message
_ENDINGS = ("done", "stopped", "refused", "failed", "memory", "given-up")
_SECONDS = 0.1  # between two looks for a request to stop
News = tuple["Worker", str, Any]  # the worker, the kind of its message, the content


class Worker:
    """A process and the unit that it does now."""

    def __init__(self, gpu: int | None, news: SimpleQueue[News]) -> None:
        context = multiprocessing.get_context("spawn")  # torch in a forked process can deadlock
        self._pipe, theirs = context.Pipe()
        device = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": str(gpu)}
        resource_tracker.ensure_running()  # first: it would let go of the signals that are held
        with environment({**ONE_THREAD, **device}), signals_held():
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
        theirs.close()  # the pipe must close when the process ends
        self._news = news
        self._talk: threading.Thread | None = None
        self._told = threading.Event()  # the unit has been sent
        self._asked = False
        self.unit: Unit | None = None
        self.since = 0.0
        self.silent = -STARTING_SECONDS  # seconds without a round, as far as this process was awake
        self.halted = 0.0  # seconds that the process was stopped, counted in the same way

    def begin(self, unit: Unit, path: Path | None) -> None:
        self.unit, self.since = unit, time.monotonic()
        self.silent = min(self.silent, 0.0)
        self._told.clear()
        self._talk = threading.Thread(target=self._converse, args=(unit, path), daemon=True)
        self._talk.start()

    def _converse(self, unit: Unit, path: Path | None) -> None:
        """Send a unit, and pass on what comes back until it is finished; "ended": the process is no more."""
        kind = ""
        try:
            self._pipe.send((unit, path))
            self._told.set()
            while kind not in _ENDINGS:
                kind, content = self._pipe.recv()
                self._news.put((self, kind, content))
        except (EOFError, OSError):
            self._news.put((self, "ended", None))

    def ask_to_stop(self) -> None:
        if self.unit is not None and not self._asked and self._told.is_set():
            self._asked = True
            with suppress(OSError):
                self._pipe.send(None)

    def wait(self, seconds: float) -> None:
        """So many more seconds have passed without news."""
        self.silent += seconds
        self.halted = self.halted + seconds if self._is_stopped() else 0.0

    def _is_stopped(self) -> bool:
        """Is the process stopped by a signal (SIGSTOP, Ctrl-Z), so that nothing in it can run?"""
        if not hasattr(os, "waitid"):
            return False  # the time-out finds it
        how = os.WSTOPPED | os.WNOHANG | os.WNOWAIT  # only look: multiprocessing waits for its end
        try:
            return os.waitid(os.P_PID, self._process.pid or 0, how) is not None
        except ChildProcessError:  # it has ended
            return False

    def exit_status(self) -> int | None:
        self._process.join(timeout=5)
        return self._process.exitcode

    def exit_code(self) -> str:
        code = self.exit_status()
        return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        if self._talk is not None:
            self._talk.join(timeout=5)  # it sees that the pipe has ended
            if self._talk.is_alive():  # a process that the user's code started holds the pipe open
                return  # closed under the thread, its number could be that of another pipe next
        self._pipe.close()


class AwakeClock:
    """Time that this process has seen pass: a machine that sleeps, or Ctrl-Z, does not make its workers late."""

    _MOST = 1.0  # a longer gap between two looks: this process did not run either

    def __init__(self) -> None:
        self._last = time.monotonic()

    def passed(self) -> float:
        """Seconds since the last call."""
        before, self._last = self._last, time.monotonic()
        return min(self._last - before, self._MOST)


def checkpointer(unit: Unit, path: Path | None, asked: Asked) -> Checkpointer:
    """Of a unit that is done on this machine; ``path`` None: it keeps no checkpoints."""
    if path is None:
        return Checkpointer(asked=asked)
    return FileCheckpointer(path, unit.experiment.checkpoint_seconds, asked)


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
    reporter.flush()  # at work: from now on the time-out counts
    found = answer(unit, checkpointer(unit, path, _now_and_then(pipe.poll)), reporter)
    reporter.flush()
    return found


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
