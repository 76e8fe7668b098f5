"""A time-out for units that are done in this process, where nobody else could end them.

SIGALRM interrupts Python code and the calls that wait (sleep, read), in the main thread. It cannot interrupt a
library that computes for ever; a worker process (``--workers 2``) is killed in any case. Code that catches the
interrupt is interrupted again, and a command that cannot get out of it ends.
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from fedwave.errors import FedwaveError, is_number

TIMEOUT = 3600.0  # seconds without a finished round: one round of a large model can take many minutes
SHORTEST = 0.1  # seconds
_TRIES = 4  # interrupts that the code may catch
_PARTS = 4  # the alarm rings so often in a time-out, so that a machine that slept rings once, not at the end
_LONGEST = 1e8  # seconds; years, and system calls refuse more


class NoRound(BaseException):
    """No round was finished in time. Not an Exception: a scheduler that catches every error must not catch it."""


def checked_timeout(value: float) -> float:
    """Seconds, or inf for no time-out. Alarms in quick succession would leave no time for anything else."""
    if not (is_number(value) or value == math.inf) or value < SHORTEST:
        raise FedwaveError(f"timeout is {value!r}, must be {SHORTEST:g} or more seconds (inf: no time-out).")
    return float(value)


@contextmanager
def limited(timeout: float, give_up: Callable[[], None] = lambda: None) -> Iterator[Callable[[], None]]:
    """NoRound is raised in the block if what it yields is not called for so many seconds.

    It is raised again and again as long as the block goes on; from the fifth time on ``give_up`` is called before.
    Without any effect outside the main thread, on Windows, or where the program has an alarm of its own.
    """
    if timeout > _LONGEST or not _alarm_is_free():
        yield lambda: None
        return
    rung = 0

    def ring(number: int, frame: FrameType | None) -> None:
        nonlocal rung
        rung += 1
        if rung > _PARTS + _TRIES:
            give_up()
        if rung > _PARTS:
            raise NoRound

    def finished_a_round() -> None:
        nonlocal rung
        rung = 0

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, timeout / _PARTS, timeout / _PARTS)
        yield finished_a_round
    finally:
        rung = -1_000_000  # an alarm on its way must not end the next unit
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _alarm_is_free() -> bool:
    return (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )
