"""Signals of a run: Ctrl-C, SIGTERM and a closed terminal ask units to stop; SIGALRM ends a unit that hangs.

The first signal only asks: every unit at work writes a checkpoint at the end of its round and stops. The second one
stops at once. A StopRequest holds what was asked; nothing is kept in this module.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from fedwave.errors import FedwaveError, is_number
from fedwave.plain_text import visible

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last one: the terminal was closed
TIMEOUT = 3600.0  # seconds without a finished round: one round of a large model can take many minutes
_NOTICE = "\nfedwave: stopping at the end of the round, with a checkpoint; a second signal stops at once.\n"
_SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it
_SHORTEST = 0.1  # seconds: alarms in quick succession would leave no time for anything else
_LONGEST = 1e8  # seconds; years, and system calls refuse more
_TRIES = 4  # interrupts that the code may catch
_PARTS = 4  # alarms in a time-out, so that a machine that slept rings once, not at the end


class Stopped(Exception):
    """A unit was asked to stop and has written its checkpoint."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; a plain KeyboardInterrupt may also come from code that raises one."""


class Terminated(SystemExit):
    """SIGTERM or SIGHUP as a SystemExit, with status 128 + the signal."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__(128 + number)


class NoRound(BaseException):
    """No round was finished in time. Not an Exception: a scheduler that catches every error must not catch it."""


def stop_at_once(number: int, frame: FrameType | None = None) -> NoReturn:
    """A signal handler: raises Interrupted or Terminated."""
    raise (Interrupted() if number == signal.SIGINT else Terminated(number)) from None


class StopRequest:
    """A request to stop a run, made by signals.

    ``last_words`` makes the last sentence of a command. With it, the process may be ended in the middle of a unit's
    code, which could catch any exception; a program that calls fedwave is never ended.
    """

    def __init__(self, last_words: Callable[[], str] | None = None) -> None:
        self._last_words = last_words
        self._at_once = False  # is nothing kept, so that the first signal ends the run?
        self._first: int | None = None  # the signal that asked
        self._unit_here = False  # is a unit at work in the main thread?

    @property
    def requested(self) -> bool:
        """Has the run been asked to stop?"""
        return self._first is not None

    @contextmanager
    def listening(self, at_once: bool = False) -> Iterator[None]:
        """Within the block the first signal asks units to stop; after it, Interrupted or Terminated is raised.

        ``at_once``: the first signal raises it already, since nothing is kept.
        Handlers that a program has set for itself are left alone, and so is a signal that it ignores.
        """
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may set signal handlers
            return
        self._at_once = at_once
        usual = (signal.SIG_DFL, signal.default_int_handler, stop_at_once)
        before = {one: handler for one in SIGNALS if (handler := signal.getsignal(one)) in usual}
        try:
            for one in before:
                signal.signal(one, self._answer)
            yield
        except Stopped:
            if not self.requested:
                raise
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
            first, self._first = self._first, None
        if first is not None:
            stop_at_once(first)

    @contextmanager
    def at_work_here(self, timeout: float, late: str) -> Iterator[Callable[[], None]]:
        """Within the block a unit is done in this process; the function that it yields is called after each round.

        NoRound is raised, with the text ``late``, after ``timeout`` seconds without a round, and again and again as
        long as the block lasts. From the fifth time on a command is ended instead. SIGALRM interrupts Python code and
        the calls that wait (sleep, read); it cannot interrupt a library that computes for ever. There is no time-out
        outside the main thread, or where the program has an alarm of its own.
        """
        rung = 0

        def ring(number: int, frame: FrameType | None) -> None:
            nonlocal rung
            rung += 1
            if rung > _PARTS + _TRIES:
                self._leave(1, f"{late}. It catches every interrupt: with --workers 2 the other units would go on.")
            if rung > _PARTS:
                raise NoRound(late)

        def finished_a_round() -> None:
            nonlocal rung
            rung = 0

        free = signal.getsignal(signal.SIGALRM) == signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL)[0] == 0
        limited = free and threading.current_thread() is threading.main_thread()
        self._unit_here = True
        try:
            if limited:
                signal.signal(signal.SIGALRM, ring)
                signal.setitimer(signal.ITIMER_REAL, *[min(timeout, _LONGEST) / _PARTS] * 2)
            yield finished_a_round
        finally:
            self._unit_here = False
            rung = -1_000_000  # an alarm on its way must not end the next unit
            if limited:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def _answer(self, number: int, frame: FrameType | None) -> None:
        again = self.requested
        self._first = number
        if again and self._unit_here:
            self._leave(128 + number)
        if again or self._at_once:
            stop_at_once(number)
        with suppress(OSError):  # not print: a handler may interrupt another print
            os.write(2, _NOTICE.encode())

    def _leave(self, status: int, *sentences: str) -> None:
        """End a command without another step of Python, as ``kill -9`` would: files are whole at any moment."""
        if self._last_words is None:
            return
        try:
            lines = "".join(f"fedwave: {visible(sentence)}\n" for sentence in (*sentences, self._last_words()))
            text = (_SHOW_CURSOR if os.isatty(2) else "") + lines
            os.write(2, text.encode("utf-8", "backslashreplace"))
        finally:
            os._exit(status)  # workers end when this process does


@contextmanager
def signals_held() -> Iterator[None]:
    """Processes started within the block are born with these signals blocked, until ``ignore_signals``."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_signals() -> None:
    """Makes a worker ignore signals: they reach the whole group, but only the parent of the workers answers them."""
    for one in SIGNALS:  # SIG_IGN would be inherited by programs that users start
        signal.signal(one, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def checked_timeout(value: float) -> float:
    """Seconds, or inf for no time-out."""
    if not (is_number(value) or value == math.inf) or value < _SHORTEST:
        raise FedwaveError(f"timeout is {value!r}, must be {_SHORTEST:g} or more seconds (inf: no time-out).")
    return float(value)
