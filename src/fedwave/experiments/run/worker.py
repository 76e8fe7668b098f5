"""The worker's side: it does a unit, sends messages about it and its answer at the end.

This is common to the processes of one machine (process.py) and to Ray (adapters/ray.py).
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.units import Unit
from fedwave.experiments.run.checkpoints import Asked
from fedwave.experiments.run.signals import Stopped
from fedwave.experiments.run.work import UnitFailed, run_unit
from fedwave.simulation import Meter

# Without these, each of several numerical libraries starts a thread per core in every worker.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
_SECONDS = 0.2  # between two messages about rounds

# Messages are (kind, content). While a unit is at work: "rounds" (how many more were played; 0: it works) and "warning"
# (a sentence). Its answer: "done" and the result, "stopped", "memory" and a sentence, "abandoned" and why the unit
# failed by itself; what ends all units: "refused" and a sentence, "failed" and a traceback.
Send = Callable[[str, Any], None]


def do_unit(unit: Unit, path: Path | None, asked: Asked, send: Send) -> tuple[str, Any]:
    """Do the unit on one thread; returns its answer. Rounds are added up and sent a few times a second."""
    waiting, last = 0, 0.0

    def count(rounds: int) -> None:
        nonlocal waiting, last
        waiting += rounds
        if time.monotonic() - last > _SECONDS:
            send("rounds", waiting)
            waiting, last = 0, time.monotonic()

    send("rounds", 0)  # at work: from now on the time-out counts
    answer = _answer(unit, path, asked, count, send)
    send("rounds", waiting)
    return answer


def _answer(unit: Unit, path: Path | None, asked: Asked, meter: Meter, send: Send) -> tuple[str, Any]:
    try:
        if unit.experiment.task is not None:
            from fedwave.learning.settings import use_threads

            use_threads(1)
        return "done", run_unit(unit, path, meter, lambda text: send("warning", text), asked)
    except Stopped:
        return "stopped", None
    except UnitFailed as error:
        return "abandoned", str(error)
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
