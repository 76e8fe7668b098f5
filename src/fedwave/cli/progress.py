"""How people and machines follow a command's run: a bar if standard error is a terminal, lines of JSON in a file."""

from __future__ import annotations

import errno
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from fedwave.errors import FedwaveError
from fedwave.experiments.run.runner import Event, Watcher
from fedwave.progress import run_bar
from fedwave.terminal import tell

_SECONDS = 1.0  # between two lines about progress
_PATIENCE = 10.0  # seconds for the reader of a pipe that is full
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # Windows has neither this nor such pipes


@contextmanager
def watching(description: str, events: str | None = None) -> Iterator[Watcher]:
    """Follow a run: a bar with the time left if standard error is a terminal, and ``events`` (a file, or -)."""
    with ExitStack() as stack:
        watchers: list[Watcher] = [stack.enter_context(run_bar(description))]
        if events is not None:
            watchers.append(_JsonLines(stack.enter_context(_opened(events))))

        def watch(event: Event) -> None:
            for watcher in watchers:
                watcher(event)

        yield watch


class _JsonLines:
    """One event per line; progress at most once a second."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write, self._last, self._broken = write, 0.0, False

    def __call__(self, event: Event) -> None:
        if event["event"] == "progress":
            if time.monotonic() - self._last < _SECONDS:
                return
            self._last = time.monotonic()
        if self._broken:
            return
        try:
            self._write((json.dumps(event) + "\n").encode())
        except (OSError, ValueError) as error:
            self._broken = True  # a run does not fail because nobody can follow it
            reason = getattr(error, "strerror", None) or error
            tell(f"events can no longer be written: {reason}; the run goes on without them.")


@contextmanager
def _opened(events: str) -> Iterator[Callable[[bytes], None]]:
    """What writes a line to the file, to the pipe or to standard error."""
    if events == "-":
        yield _to_standard_error
        return
    try:
        # Not to wait: opening a named pipe that nobody reads would never return.
        file = os.open(events, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_WAIT, 0o666)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        if getattr(error, "errno", None) == errno.ENXIO:
            reason = "it is a pipe that nobody reads"
        raise FedwaveError(f"--events {events} cannot be written: {reason}; choose another place.") from None
    try:
        yield partial(_write_all, file)
    finally:
        os.close(file)


def _write_all(file: int, line: bytes) -> None:
    """Nothing is kept back: what a buffer holds could only fail later, when the file is closed."""
    while line:
        try:
            line = line[os.write(file, line) :]
        except BlockingIOError:  # the reader of a pipe is behind
            if not select.select([], [file], [], _PATIENCE)[1]:
                raise


def _to_standard_error(line: bytes) -> None:
    sys.stderr.write(line.decode())
    sys.stderr.flush()
