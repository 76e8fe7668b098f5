"""Ctrl-C, SIGTERM and a closed terminal while units are at work: checkpoints first, then the end.

The first signal only asks: units at work write a checkpoint at the end of their round and stop. The second one stops
at once. Signals reach a whole process, so what was asked is kept here once, not in every object.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from fedwave.plain_text import visible

# A closed terminal (SIGHUP, not on Windows) is answered as SIGTERM is.
SIGNALS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
_NOTICE = "\nfedwave: stopping at the end of the round, with a checkpoint; once more stops at once.\n"
_SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it
_asked: int | None = None  # the first signal
_last_words: Callable[[], str] | None = None  # of a command; None: a program calls fedwave
_unit_here = False  # is a unit, with code of the user's, at work in the main thread?


class Stopped(Exception):
    """A unit was asked to stop and has written its checkpoint."""


class Terminated(SystemExit):
    """What SIGTERM ends in: the process exits with the status that a shell gives to it."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__(128 + number)


def requested() -> bool:
    """Has this process been asked to stop?"""
    return _asked is not None


def is_interrupt(error: BaseException) -> bool:
    """Does it come from a signal? If not, code has raised it by itself."""
    if isinstance(error, Terminated) or requested():
        return True
    noted = (_ask, _stop, _ignore, signal.SIG_IGN)  # by none of these it can come without a word
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) not in noted


def stop_at_once(number: int, frame: FrameType | None = None) -> None:
    """A signal handler: KeyboardInterrupt or Terminated, now."""
    raise (KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)) from None


@contextmanager
def stoppable(at_once: bool = False) -> Iterator[None]:
    """Within the block the first signal asks units to stop; after it, KeyboardInterrupt or Terminated is raised.

    ``at_once``: it is raised by the first signal already, since nothing is kept.
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
            signal.signal(one, _stop if at_once else _ask)
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
        _end(number)
    _asked = number
    with suppress(OSError):  # not print: a handler may interrupt another print
        os.write(2, _NOTICE.encode())


def _stop(number: int, frame: FrameType | None) -> None:
    global _asked
    first, _asked = _asked, number
    if first is None:
        stop_at_once(number)
    _end(number)


def _end(number: int) -> None:
    """Now. Code of the user's may catch any exception, so a command does not raise one there."""
    if _unit_here and _last_words is not None:
        leave(128 + number)
    stop_at_once(number)


@contextmanager
def at_work_here() -> Iterator[None]:
    """Within the block, a unit is done in this process."""
    global _unit_here
    before, _unit_here = _unit_here, True
    try:
        yield
    finally:
        _unit_here = before


@contextmanager
def last_words(sentence: Callable[[], str]) -> Iterator[None]:
    """For a command: within the block the process may be ended, with this sentence, where nothing else helps."""
    global _last_words
    before, _last_words = _last_words, sentence
    try:
        yield
    finally:
        _last_words = before


def leave(status: int, why: str | None = None) -> None:
    """End a command without another step of Python, as ``kill -9`` would: files are whole at any moment.

    A program that calls fedwave is not ended.
    """
    if _last_words is None:
        return
    try:
        said = [_last_words()] if why is None else [why, _last_words()]
        lines = "".join(f"fedwave: {visible(sentence)}\n" for sentence in said)
        text = (_SHOW_CURSOR if os.isatty(2) else "") + lines
        os.write(2, text.encode("utf-8", "backslashreplace"))
    finally:
        os._exit(status)  # workers end when this process does


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
        signal.signal(one, _ignore)  # SIG_IGN would be inherited by programs that users start
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _ignore(number: int, frame: FrameType | None) -> None:
    pass
