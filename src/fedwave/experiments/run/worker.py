"""The worker's side: it does a unit, sends messages about it and an answer at its end.

This is common to the process pool of one machine (pool.py) and to Ray (adapters/ray.py).
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from socket import socket
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.units import Unit
from fedwave.experiments.run.checkpoints import Asked, Checkpointer, FileCheckpointer
from fedwave.experiments.run.signals import Stopped, ignore_signals
from fedwave.experiments.run.work import UnitFailed, run_unit

# Without these, each of several numerical libraries starts a thread per core in every worker.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
HEADER = struct.Struct("!Q")  # the number of bytes of a message, before it
_SECONDS = 0.2  # between two messages about rounds
_UNGUARDED = 87  # exit status of a worker in which the script has called for a run


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
# "done" and the result, "stopped", "memory" and a sentence, "abandoned" and why the unit failed by itself; what ends
# all units: "refused" and a sentence, "failed" and a traceback
Answer = tuple[str, Any]


class Reporter:
    """The worker's end: sends (kind, content). Rounds are added up and sent a few times a second."""

    def __init__(self, send: Callable[[str, Any], Any]) -> None:
        self.send = send
        self._rounds, self._last = 0, 0.0

    def count(self, rounds: int) -> None:
        self._rounds += rounds
        if time.monotonic() - self._last > _SECONDS:
            self.flush()

    def warn(self, text: str) -> None:
        self.send("warning", text)

    def flush(self) -> Any:
        """Send the rounds since the last message; returns what ``send`` returns."""
        sent = self.send("rounds", self._rounds)
        self._rounds, self._last = 0, time.monotonic()
        return sent


def answer(unit: Unit, checkpointer: Checkpointer, reporter: Reporter) -> Answer:
    """Do the unit on one thread."""
    try:
        if unit.experiment.task is not None:
            from fedwave.learning.settings import use_threads

            use_threads(1)
        return "done", run_unit(unit, checkpointer, reporter.count, reporter.warn)
    except Stopped:
        return "stopped", None
    except UnitFailed as error:
        return "abandoned", error.why
    except FedwaveError as error:
        return "refused", str(error)
    except BaseException as error:  # a process that ends here would be begun again
        cause = out_of_memory(error)
        return ("failed", traceback.format_exc()) if cause is None else ("memory", cause)


def out_of_memory(error: BaseException) -> str | None:
    """What happened, if the error is that there is too little memory; PyTorch has errors of its own for it."""
    text = " ".join(str(error).split())
    torch = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in text
    if not isinstance(error, MemoryError) and not (isinstance(error, RuntimeError) and torch):
        return None
    return f"there was too little memory ({text[:200]})" if text else "there was too little memory"


def result_of(unit: Unit, kind: str, content: Any) -> Any:
    """The result in a worker's answer; raises if there is none."""
    if kind == "refused":
        raise FedwaveError(content)
    if kind == "failed":
        raise RuntimeError(f"unit {unit.name} failed in its worker:\n{content}")
    return content


def checkpointer(unit: Unit, path: Path | None, asked: Asked) -> Checkpointer:
    """Of a unit that is done on this machine; ``path`` None: it keeps no checkpoints."""
    if path is None:
        return Checkpointer(asked=asked)
    return FileCheckpointer(path, unit.experiment.checkpoint_seconds, asked)


def serve(parent: socket) -> None:
    """A worker process: does units until its parent ends."""
    ignore_signals()
    units: SimpleQueue[tuple[Unit, Path | None]] = SimpleQueue()
    asked = threading.Event()
    threading.Thread(target=_listen, args=(parent, units, asked), daemon=True).start()
    with suppress(OSError):  # the parent has ended
        while True:
            unit, path = units.get()
            reporter = Reporter(lambda kind, content: _send(parent, (kind, content)))
            reporter.flush()  # at work: from now on the time-out counts
            found = answer(unit, checkpointer(unit, path, asked.is_set), reporter)
            reporter.flush()
            _send(parent, found)


def _listen(parent: socket, units: SimpleQueue[Any], asked: threading.Event) -> None:
    """A thread, so that a parent that is killed ends its worker whatever the unit's code does."""
    with suppress(EOFError, OSError), parent.makefile("rb") as messages:
        while True:
            if (message := pickle.load(messages)) is None:
                asked.set()
            else:
                units.put(message)
    os._exit(1)


def _send(parent: socket, message: tuple[str, Any]) -> None:
    content = pickle.dumps(message)
    parent.sendall(HEADER.pack(len(content)))
    parent.sendall(content)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while, so that new processes and imports see them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def leave_if_imported_by_a_worker() -> None:
    """End this process if it is a worker that is still importing the script: the script lacks its guard."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(_UNGUARDED)  # the process that started it says why (check_exit)


def check_exit(status: int | None) -> None:
    """Refuse a script whose import in a worker has started the run again."""
    if status == _UNGUARDED:
        raise FedwaveError(
            f"{_script() or 'the script'} starts this run whenever it is imported, and each worker process imports it: "
            'put the call below `if __name__ == "__main__":`, or pass workers=1.'
        ) from None


def check_script() -> None:
    """Refuse a program that no worker can import."""
    script = _script()
    if script is not None and not Path(script).exists():
        raise FedwaveError(
            f"this program is {script}, which worker processes cannot import: save it as a file, or pass workers=1."
        )


def _script() -> str | None:
    """The file that multiprocessing makes each worker import, if it is one."""
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is not None:
        return None  # python -m module
    return getattr(main, "__file__", None)
