"""How people and machines follow a run: bars on standard error if it is a terminal, lines of JSON in a file."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from fedwave.errors import FedwaveError
from fedwave.experiments.run.runner import Event, Watcher

_SECONDS = 1.0  # between two lines about progress


@contextmanager
def watching(description: str, events: str | None = None) -> Iterator[Watcher]:
    """Follow a run: a bar with the time left if standard error is a terminal, and ``events`` (a file, or -)."""
    with ExitStack() as stack:
        watchers: list[Watcher] = [stack.enter_context(_bar(description)), _warn]
        if events is not None:
            watchers.append(_JsonLines(stack.enter_context(_opened(events))))

        def watch(event: Event) -> None:
            for watcher in watchers:
                watcher(event)

        yield watch


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Show which part is being worked on, and for how long."""
    with _progress(SpinnerColumn(), _text("{task.description}"), TimeElapsedColumn()) as bar:
        task = bar.add_task("")
        yield lambda text: bar.update(task, description=text)


@contextmanager
def rounds_bar(label: str, rounds: int) -> Iterator[Callable[[int], None]]:
    """A bar over the rounds of one simulation, with the time left; called with the rounds just played."""
    columns = (
        _text("{task.description:<18}"),
        BarColumn(),
        _text("{task.completed}/{task.total} rounds, time left"),
    )
    with _progress(*columns, TimeRemainingColumn()) as bar:
        task = bar.add_task(label, total=rounds)
        yield lambda played: bar.update(task, advance=played)


@contextmanager
def _bar(description: str) -> Iterator[Watcher]:
    """A bar over the rounds of all units of a run."""
    units = _text("{task.percentage:>3.0f} %  {task.fields[units]} units, time left")
    columns = _text("{task.description:<14}"), BarColumn(), units, TimeRemainingColumn()
    with _progress(*columns) as bar:
        task = bar.add_task(description, total=None, units="-")

        def watch(event: Event) -> None:
            bar.update(
                task, completed=event["rounds"], total=event["of"],
                units=f"{event['finished']} of {event['units']}",
            )  # fmt: skip

        yield watch


def _progress(*columns: ProgressColumn) -> Progress:
    error = Console(stderr=True)
    return Progress(*columns, console=error, transient=True, disable=not error.is_terminal)


def _text(form: str) -> TextColumn:
    return TextColumn(form, markup=False)  # names are shown as they are


def _warn(event: Event) -> None:
    """Warnings, which are shown whether or not there is a terminal."""
    if event["event"] in ("damaged", "unit-warning", "unit-died"):
        died = event["event"] == "unit-died"
        text = f"a worker died ({event['message']}), started again" if died else event["message"]
        print(f"fedwave: unit {event['unit']}: {text}", file=sys.stderr)


class _JsonLines:
    """One event per line; progress at most once a second."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self._last, self._broken = file, 0.0, False

    def __call__(self, event: Event) -> None:
        if event["event"] == "progress":
            if time.monotonic() - self._last < _SECONDS:
                return
            self._last = time.monotonic()
        if self._broken:
            return
        try:
            self._file.write(json.dumps(event) + "\n")
            self._file.flush()
        except OSError as error:
            self._broken = True  # a run does not fail because nobody can follow it
            print(f"fedwave: events can no longer be written: {error.strerror}.", file=sys.stderr)


@contextmanager
def _opened(events: str) -> Iterator[IO[str]]:
    if events == "-":
        yield sys.stderr
        return
    try:
        Path(events).touch()
    except OSError as error:
        raise FedwaveError(
            f"--events {events} cannot be written: {error.strerror}; choose another place."
        ) from None
    with Path(events).open("a", encoding="utf-8") as file:
        yield file
