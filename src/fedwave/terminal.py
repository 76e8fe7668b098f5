"""Where text leaves for standard output and standard error.

Names are printed as they are: neither markup nor control codes, in characters that the terminal has. A stream that
cannot be written to ends a command in one sentence or quietly, never in a traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from rich.console import Console
from rich.text import Text

from fedwave.errors import FedwaveError
from fedwave.plain_text import in_encoding, visible


class OutputClosed(Exception):
    """Nobody reads standard output any more, as after `| head -1`."""


class OutputFailed(FedwaveError):
    """Standard output cannot be written to."""


class PlainConsole(Console):
    """A console on which every text is what it says: no markup, no emoji codes, no control characters."""

    def __init__(self, **more: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **more)

    def render_str(self, text: str, **more: Any) -> Text:
        """What rich calls for every text that it prints, in tables too."""
        more.update(markup=False, emoji=False, highlight=False)
        return super().render_str(in_encoding(visible(text), self.encoding), **more)


def error_console() -> PlainConsole:
    """Standard error, for progress: a terminal that has gone away does not stop a run."""
    return PlainConsole(file=_Forgiving(sys.stderr)) if sys.stderr else PlainConsole(stderr=True)


def tell(sentence: str, start: str = "fedwave: ") -> None:
    """One line on standard error; it is lost where that cannot be written to."""
    stream = sys.stderr
    if stream is None:  # print would take standard output instead
        return
    line = in_encoding(f"{start}{visible(sentence)}", getattr(stream, "encoding", None))
    try:
        print(line, file=stream, flush=True)
    except (OSError, ValueError):
        _discard(stream)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Within the block, a command may print: what cannot be printed raises OutputClosed or FedwaveError at once."""
    before = sys.stdout, sys.stderr
    with _all_open():
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, ValueError):  # no stream of the system, as in a notebook
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        sys.stdout = _Guarded(sys.stdout)
        try:
            yield
            sys.stdout.flush()
        except BaseException:
            with suppress(OutputClosed, FedwaveError):  # one reason to end is enough
                sys.stdout.flush()
            raise
        finally:
            sys.stdout, sys.stderr = before


@contextmanager
def _all_open() -> Iterator[None]:
    """No closed stream (`>&-`): else the first data file that is opened would be standard output to other programs."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
        yield


class _Stream:
    """A text stream that answers errors in a way of its own."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._answering():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._answering():
            self._stream.flush()

    @contextmanager
    def _answering(self) -> Iterator[None]:
        raise NotImplementedError


class _Forgiving(_Stream):
    """What cannot be written is lost."""

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):
            _discard(self._stream)


class _Guarded(_Stream):
    """What cannot be written ends the command. Not as an OSError: libraries catch those in ways of their own."""

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            _discard(self._stream)
            raise OutputClosed from None
        except OSError as error:
            _discard(self._stream)
            raise OutputFailed(f"standard output cannot be written to: {error.strerror}.") from None


def _discard(stream: IO[str]) -> None:
    """Send the rest of a broken stream nowhere: Python would complain about what is left in it at the end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
