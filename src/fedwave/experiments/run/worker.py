"""How a worker does a unit: the messages that it sends, and its answer at the end.

This is common to the process pool of one machine (pool.py) and to Ray (adapters/ray.py).
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.run.checkpoints import Checkpointer
from fedwave.experiments.run.stopping import Stopped
from fedwave.experiments.run.units import Unit
from fedwave.experiments.run.work import UnitFailed, run_unit

# Without these, each of several numerical libraries starts a thread per core in every worker.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
_SECONDS = 0.2  # between two messages about rounds


@dataclass(frozen=True)
class Message:
    """News about a unit at work."""

    # "begun", "rounds" (how many more were played; 0: it works), "warning" (a sentence), "died" (why), "given-up" (why)
    kind: str
    unit: Unit
    content: Any = None
    cause: BaseException | None = None  # of a unit that failed in this process


Report = Callable[[Message], None]
# "done" and the result, "stopped", "memory" and a sentence, "given-up" and why the unit failed by itself; what ends
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
        return "given-up", error.why
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
