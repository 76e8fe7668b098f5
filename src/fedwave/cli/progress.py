"""Ways to follow a run: bars on standard error, if that is a terminal, and events as JSON lines."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from fedwave.cli.terminal import PlainConsole, print_error
from fedwave.errors import FedwaveError
from fedwave.experiments.run.runner import Event, Watcher
from fedwave.plain_text import brief, visible

_UNITS = "{task.percentage:>3.0f} %  {task.fields[units]} units,"
_SECONDS = 1.0  # between two lines about progress


@contextmanager
def _json_lines(events: Path | None) -> Iterator[Watcher]:
    """Appends an event per line to a file; progress at most once a second."""
    if events is None:
        yield lambda event: None
        return
    try:
        # O_NONBLOCK: opening a named pipe that nobody reads would never return.
        file = os.open(events, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise FedwaveError(
            f"--events {brief(events, 500)} cannot be written: {error.strerror}; choose another file."
        ) from None
    last, broken = -_SECONDS, False

    def write(event: Event) -> None:
        nonlocal last, broken
        if broken or (event["event"] == "progress" and time.monotonic() - last < _SECONDS):
            return
        if event["event"] == "progress":
            last = time.monotonic()
        try:
            os.write(file, (json.dumps(event) + "\n").encode())
        except OSError as error:
            broken = True  # a run does not fail because its events cannot be written
            print_error(f"events can no longer be written: {error.strerror}; the run continues without them.")

    try:
        yield write
    finally:
        os.close(file)


@contextmanager
def steps(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show which part is being worked on, and for how long."""
    with _progress(SpinnerColumn("line"), _words("{task.description}"), TimeElapsedColumn(), quiet=quiet) as bar:
        task = bar.add_task("")
        yield lambda text: bar.update(task, description=visible(text))


@contextmanager
def rounds_bar(label: str, rounds: int, lines: bool = False, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar over the rounds of one run, with the time left; called with the rounds just played.

    ``lines``: without a terminal, about ten lines.
    """
    columns = (_words("{task.description:<18}"), BarColumn(), _words("{task.completed}/{task.total} rounds,"))
    with _progress(*columns, _TimeLeft(), quiet=quiet) as bar:
        task = bar.add_task(visible(label), total=rounds)

        def played(count: int) -> None:
            bar.update(task, advance=count)
            done = int(bar.tasks[task].completed)
            if lines and bar.disable and (done * 10 // rounds > (done - count) * 10 // rounds):
                print_error(f"{label}: round {done} of {rounds}", start="")

        yield played


@contextmanager
def run_bar(
    description: str, lines: bool = False, quiet: bool = False, events: Path | None = None
) -> Iterator[Watcher]:
    """A bar over the rounds of all units of a run, its warnings, and a file of its events.

    ``lines``: without a terminal, a line per unit.
    """
    columns = (_words("{task.description:<14}"), BarColumn(), _words(_UNITS), _TimeLeft())
    with _progress(*columns, quiet=quiet) as bar, _json_lines(events) as write:
        task = bar.add_task(visible(description), total=None, units="-")
        reasons: set[str] = set()  # why units were abandoned

        def watch(event: Event) -> None:
            kind, message = event["event"], event.get("message")
            units = f"{event['finished']} of {event['units']}"
            bar.update(task, completed=event["rounds"], total=event["of"], units=units)
            if lines and bar.disable and kind in ("started", "unit-finished"):
                print_error(f"{description}: {units} units finished", start="")
            if kind == "warning":  # about the whole run
                print_error(event["message"])
            elif kind in ("damaged", "unit-warning"):
                print_error(f"unit {event['unit']}: {message}")
            elif kind == "unit-crashed":
                print_error(f"unit {event['unit']}: a worker crashed ({message}); the unit is retried")
            elif kind == "unit-abandoned":
                # The last sentence of the run gives the reason, once for all units that share it.
                if message not in reasons and event["others_go_on"]:
                    print_error(f"unit {event['unit']} is abandoned, the others continue.")
                reasons.add(str(message))
            write(event)

        yield watch


def _progress(*columns: ProgressColumn, quiet: bool = False) -> Progress:
    console = PlainConsole(stderr=True)
    seen = (console.is_terminal or console.is_jupyter) and not quiet
    return Progress(*columns, console=console, transient=True, disable=not seen)


def _words(form: str) -> TextColumn:
    return TextColumn(form, markup=False)


class _TimeLeft(TimeRemainingColumn):
    """The time left; before the first round is played, which may plan for all others, the time so far."""

    def render(self, task: Task) -> Text:
        if task.completed:
            return Text("time left ") + super().render(task)
        return Text(f"first round {timedelta(seconds=int(task.elapsed or 0))}")
