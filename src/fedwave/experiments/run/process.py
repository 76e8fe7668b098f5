"""Workers that are processes of this machine: both ends of the pipe between such a worker and its pool.

``do_unit``, a worker's side of a unit, also serves the workers on Ray (adapters/ray.py).
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.units import Unit
from fedwave.experiments.run.checkpoints import Asked
from fedwave.experiments.run.pool import Finished, Job, Pool, Worker
from fedwave.experiments.run.signals import Stopped, ignore_signals
from fedwave.experiments.run.work import OutOfMemory, UnitFailed, run_unit

# Without these, each of several numerical libraries starts a thread per core in every worker.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
STOPPED_SECONDS = 60.0  # a worker that is stopped (SIGSTOP), and silent for longer, is replaced
_LOOK_SECONDS = 0.1  # between two looks at the workers
_NEWS_SECONDS = 0.2  # between two messages about rounds
_UNGUARDED = 87  # exit status of a worker in which the script has called for a run


def run_in_pool(job: Job, workers: int, gpus: int = 0) -> Generator[Finished, None, None]:
    """Units spread over ``workers`` processes; with GPUs, worker k has GPU k to itself."""
    script = _script()
    if script is not None and not Path(script).exists():
        raise FedwaveError(
            f"this program is {script}, which worker processes cannot import: save it as a file, or pass workers=1."
        )

    def new(number: int) -> Worker | None:
        return _Process(number, bool(gpus)) if number < workers else None

    return Pool(job, new, lambda watched: connection.wait(watched, _LOOK_SECONDS)).results()


class _Process(Worker):
    """A process that does one unit after another."""

    def __init__(self, number: int, on_gpu: bool) -> None:
        super().__init__(number)
        self._pipe, theirs = multiprocessing.Pipe()
        device = {"CUDA_VISIBLE_DEVICES": str(number)} if on_gpu else {}
        context = multiprocessing.get_context("spawn")  # torch in a forked process can deadlock
        resource_tracker.ensure_running()  # first: it would let go of the signals that are held
        with theirs, environment({**ONE_THREAD, **device}):
            self._process = context.Process(target=serve, args=(theirs,), daemon=True)
            self._process.start()

    def begin(self, unit: Unit, path: Path | None) -> None:
        super().begin(unit, path)
        self._send((unit, path))

    def ask_to_stop(self) -> None:
        self._send(None)

    def watched(self) -> list[Any]:
        return [self._pipe, self._process.sentinel]

    def messages(self) -> list[tuple[str, Any]]:
        status = self._process.exitcode  # asked first: then nothing that it has sent is missed
        found = []
        with suppress(EOFError, OSError):  # it has ended, perhaps in the middle of a message
            while self._pipe.poll():
                found.append(self._pipe.recv())
        if status == _UNGUARDED:
            raise FedwaveError(
                f"{_script() or 'the script'} starts this run whenever it is imported, and each worker process imports "
                'it: put the call below `if __name__ == "__main__":`, or pass workers=1.'
            )
        if status is not None:
            # The system ends a process with signal 9 when there is no memory left.
            kind = "memory" if status == -9 else "crashed"
            found.append((kind, f"signal {-status}" if status < 0 else f"exit status {status}"))
        elif not found and self.silent > STOPPED_SECONDS and self._is_stopped():
            found.append(("crashed", f"it was stopped for {STOPPED_SECONDS:g} s"))
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _send(self, message: object) -> None:
        with suppress(OSError):  # it has ended
            self._pipe.send(message)

    def _is_stopped(self) -> bool:
        """Is the process stopped by a signal (SIGSTOP, Ctrl-Z), so that nothing in it can run?"""
        if not hasattr(os, "waitid"):
            return False  # the time-out finds it
        how = os.WSTOPPED | os.WNOHANG | os.WNOWAIT  # only look: multiprocessing waits for its end
        with suppress(ChildProcessError):  # it has ended
            return os.waitid(os.P_PID, self._process.pid or 0, how) is not None
        return False


def serve(parent: Connection) -> None:
    """A worker process: does units until its parent ends."""
    ignore_signals()
    units: SimpleQueue[tuple[Unit, Path | None]] = SimpleQueue()
    asked = threading.Event()
    threading.Thread(target=_listen, args=(parent, units, asked), daemon=True).start()
    with suppress(OSError):  # the parent has ended
        while True:
            parent.send(do_unit(*units.get(), asked.is_set, lambda *message: parent.send(message)))


def _listen(parent: Connection, units: SimpleQueue[Any], asked: threading.Event) -> None:
    """A thread, so that a parent that is killed ends its worker whatever the unit's code does."""
    with suppress(EOFError, OSError):
        while True:
            if (message := parent.recv()) is None:
                asked.set()
            else:
                units.put(message)
    os._exit(1)


def do_unit(unit: Unit, path: Path | None, asked: Asked, send: Callable[[str, Any], None]) -> tuple[str, Any]:
    """Do the unit on one thread. Sends messages (pool.py lists their kinds), and returns the last one."""
    waiting, last = 0, 0.0

    def count(rounds: int) -> None:  # they are added up and sent a few times a second
        nonlocal waiting, last
        waiting += rounds
        if time.monotonic() - last > _NEWS_SECONDS:
            send("rounds", waiting)
            waiting, last = 0, time.monotonic()

    send("rounds", 0)  # at work: from now on the time-out counts
    answer: tuple[str, Any]
    try:
        if unit.experiment.task is not None:
            from fedwave.learning.settings import use_threads

            use_threads(1)
        answer = "done", run_unit(unit, path, count, lambda text: send("warning", text), asked)
    except Stopped:
        answer = "stopped", None
    except OutOfMemory as error:
        answer = "memory", str(error)
    except UnitFailed as error:
        answer = "abandoned", str(error)
    except FedwaveError as error:
        answer = "refused", str(error)
    except BaseException:  # a process that ends here would be begun again
        answer = "failed", traceback.format_exc()
    send("rounds", waiting)
    return answer


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while, so that new processes and imports see them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def leave_if_imported_by_a_worker() -> None:
    """End this process if it is a worker that is still importing the script: the script lacks its guard."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(_UNGUARDED)  # the process that started it says why


def _script() -> str | None:
    """The file that multiprocessing makes each worker import, if it is one."""
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is not None:
        return None  # python -m module
    return getattr(main, "__file__", None)
