"""How people and machines follow a command's run: a bar if standard error is a terminal, lines of JSON in a file."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from fedwave.errors import FedwaveError
from fedwave.experiments.run.runner import Event, Watcher
from fedwave.progress import run_bar

_SECONDS = 1.0  # between two lines about progress


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
