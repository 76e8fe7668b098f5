"""Ctrl-C and SIGTERM while a run folder is filled: checkpoints first, then the end.

The first signal only asks: units at work write a checkpoint at the end of their round and stop. The second one stops
at once. Signals reach a whole process, so what was asked is kept here once, not in every object.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_NOTICE = (
    "\nfedwave: stopping at the end of the round, with a checkpoint; once more stops at once.\n"
)
_asked: int | None = None  # the first signal


class Stopped(Exception):
    """A unit was asked to stop and has written its checkpoint."""


class Terminated(SystemExit):
    """What SIGTERM ends in: the process exits with the status that a shell gives to it."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


def requested() -> bool:
    """Has this process been asked to stop?"""
    return _asked is not None


def stop_at_once(number: int, frame: FrameType | None = None) -> None:
    """A signal handler: KeyboardInterrupt or Terminated, now."""
    raise (KeyboardInterrupt if number == signal.SIGINT else Terminated) from None


@contextmanager
def stoppable() -> Iterator[None]:
    """Within the block the first signal asks units to stop; after it, KeyboardInterrupt or Terminated is raised.

    Handlers that a program has set for itself are left alone, and so is a signal that it ignores.
    """
    global _asked
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    before: dict[signal.Signals, Any] = {one: signal.getsignal(one) for one in SIGNALS}
    usual = (signal.SIG_DFL, signal.default_int_handler, stop_at_once)
    ours = [one for one in SIGNALS if before[one] in usual]
    _asked = None
    try:
        for one in ours:
            signal.signal(one, _ask)
        yield
    except Stopped:
        if _asked is None:
            raise
    finally:
        for one in ours:
            signal.signal(one, before[one])
        first, _asked = _asked, None
    if first is not None:
        stop_at_once(first)


def _ask(number: int, frame: FrameType | None) -> None:
    global _asked
    if _asked is not None:
        stop_at_once(number)
    _asked = number
    with suppress(OSError):  # not print: a handler may interrupt another print
        os.write(2, _NOTICE.encode())


@contextmanager
def signals_held() -> Iterator[None]:
    """Processes started within the block are born with these signals blocked, until ``ignore_signals``."""
    if not hasattr(signal, "pthread_sigmask"):  # not on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_signals() -> None:
    """For a worker: signals reach the whole group, but only the process that started the workers decides."""
    for one in SIGNALS:
        signal.signal(
            one, lambda number, frame: None
        )  # SIG_IGN would be inherited by programs that users start
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
