"""Bars on standard error for people who wait; nothing if it is no terminal, or plain lines where asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
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

from fedwave.terminal import error_console, tell

Watcher = Callable[[dict[str, Any]], None]  # called with every event of a run


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
                tell(f"{label}: round {done} of {rounds}", start="")

        yield played


@contextmanager
def run_bar(description: str, lines: bool = False) -> Iterator[Watcher]:
    """A bar over the rounds of all units of a run, and its warnings; ``lines``: without a terminal, a line per unit."""
    units = _Words("{task.percentage:>3.0f} %  {task.fields[units]} units,")
    columns = _Words("{task.description:<14}"), BarColumn(), units, _TimeLeft()
    with _progress(*columns) as bar:
        task = bar.add_task(description, total=None, units="-")
        said: set[str] = set()  # why units were given up

        def watch(event: dict[str, Any]) -> None:
            units = f"{event['finished']} of {event['units']}"
            bar.update(task, completed=event["rounds"], total=event["of"], units=units)
            if lines and bar.disable and event["event"] in ("started", "unit-finished"):
                tell(f"{description}: {units} units finished", start="")
            if event["event"] == "unit-given-up":
                # The reason is in the last sentence of the run, which all units of one reason share.
                if event["message"] not in said and event["others_go_on"]:
                    tell(f"unit {event['unit']} is given up, the others go on.")
                said.add(event["message"])
            _warn(event)

        yield watch


def _warn(event: dict[str, Any]) -> None:
    """Warnings are shown whether or not there is a terminal."""
    forms = {"damaged": "{}", "unit-warning": "{}", "unit-died": "a worker died ({}), started again"}
    if event["event"] in forms:
        tell(f"unit {event['unit']}: {forms[event['event']].format(event['message'])}")
    elif event["event"] == "warning":  # about the whole run
        tell(event["message"])


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
