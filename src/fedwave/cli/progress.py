"""How people and machines follow a run: bars on a terminal, plain lines where asked for, lines of JSON in a file.

Bars go to standard error; where that is no terminal, nothing is shown.
"""

from __future__ import annotations

import errno
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from rich.console import RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from fedwave.cli.terminal import error_console, print_error
from fedwave.errors import FedwaveError

Watcher = Callable[[dict[str, Any]], None]  # called with every event of a run
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

        def watch(event: dict[str, Any]) -> None:
            for watcher in watchers:
                watcher(event)

        yield watch


class _JsonLines:
    """One event per line; progress at most once a second."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write, self._last, self._broken = write, 0.0, False

    def __call__(self, event: dict[str, Any]) -> None:
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
            print_error(f"events can no longer be written: {reason}; the run goes on without them.")


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


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Show which part is being worked on, and for how long."""
    with _progress(SpinnerColumn("line"), _Words("{task.description}"), TimeElapsedColumn()) as bar:
        task = bar.add_task("")
        yield lambda text: bar.update(task, description=text)


@contextmanager
def rounds_bar(label: str, rounds: int, lines: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar over the rounds of one run, with the time left; called with the rounds just played.

    ``lines``: without a terminal, about ten lines.
    """
    columns = (_Words("{task.description:<18}"), BarColumn(), _Words("{task.completed}/{task.total} rounds,"))
    with _progress(*columns, _TimeLeft()) as bar:
        task = bar.add_task(label, total=rounds)

        def played(count: int) -> None:
            bar.update(task, advance=count)
            done = int(bar.tasks[task].completed)
            if lines and bar.disable and (done * 10 // rounds > (done - count) * 10 // rounds):
                print_error(f"{label}: round {done} of {rounds}", start="")

        yield played


@contextmanager
def run_bar(description: str, lines: bool = False) -> Iterator[Watcher]:
    """A bar over the rounds of all units of a run, and its warnings; ``lines``: without a terminal, a line per unit."""
    units = _Words("{task.percentage:>3.0f} %  {task.fields[units]} units,")
    columns = _Words("{task.description:<14}"), BarColumn(), units, _TimeLeft()
    with _progress(*columns) as bar:
        task = bar.add_task(description, total=None, units="-")
        said: set[str] = set()  # why units were abandoned

        def watch(event: dict[str, Any]) -> None:
            units = f"{event['finished']} of {event['units']}"
            bar.update(task, completed=event["rounds"], total=event["of"], units=units)
            if lines and bar.disable and event["event"] in ("started", "unit-finished"):
                print_error(f"{description}: {units} units finished", start="")
            if event["event"] == "unit-abandoned":
                # The reason is in the last sentence of the run, which all units of one reason share.
                if event["message"] not in said and event["others_go_on"]:
                    print_error(f"unit {event['unit']} is abandoned, the others go on.")
                said.add(event["message"])
            _warn(event)

        yield watch


def _warn(event: dict[str, Any]) -> None:
    """Warnings are shown whether or not there is a terminal."""
    forms = {"damaged": "{}", "unit-warning": "{}", "unit-crashed": "a worker crashed ({}); the unit is retried"}
    if event["event"] in forms:
        print_error(f"unit {event['unit']}: {forms[event['event']].format(event['message'])}")
    elif event["event"] == "warning":  # about the whole run
        print_error(event["message"])


def _progress(*columns: ProgressColumn) -> Progress:
    error = error_console()
    seen = error.is_terminal or error.is_jupyter
    return Progress(*columns, console=error, transient=True, disable=not seen)


class _TimeLeft(TimeRemainingColumn):
    """The time left; before the first round is played, which may plan for all others, the time so far."""

    def render(self, task: Task) -> Text:
        if task.completed:
            return Text("time left ") + super().render(task)
        return Text(f"first round {timedelta(seconds=int(task.elapsed or 0))}")


class _Words(ProgressColumn):
    """A column of words, printed by the console as they are."""

    def __init__(self, form: str) -> None:
        super().__init__(Column(no_wrap=True))
        self._form = form

    def render(self, task: Task) -> RenderableType:
        return self._form.format(task=task)
