"""Prints text on standard output and standard error.

Text is printed literally: no markup, no control codes, only characters that the terminal has. A stream that cannot be
written to ends a command in one sentence or quietly, never in a traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from rich.console import Console
from rich.text import Text

from fedwave.errors import WorkFailed
from fedwave.plain_text import visible

# Characters beyond ASCII in fedwave's own sentences, and their replacements on an ASCII terminal.
_IN_ASCII = {"±": "+-", "γ": "gamma", "η": "eta", "θ": "theta", "−": "-", "–": "-", "→": "->", "×": "x", "…": "..."}  # noqa: RUF001


class OutputClosed(Exception):
    """The reader of standard output has closed it, as `| head -1` does."""


class OutputFailed(WorkFailed):
    """Standard output cannot be written to."""


class PlainConsole(Console):
    """A console that prints text literally: no markup, no emoji codes, no control characters."""

    def __init__(self, **more: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **more)

    def render_str(self, text: str, **more: Any) -> Text:
        """Rich calls this for every text that it prints, in tables too."""
        more.update(markup=False, emoji=False, highlight=False)
        return super().render_str(in_encoding(visible(text), self.encoding), **more)


def in_encoding(text: str, encoding: str | None) -> str:
    r"""The text in characters that a terminal of this encoding has.

    >>> print(in_encoding("12±3 😀", "ascii"), in_encoding("12±3 😀", "utf-8"))
    12+-3 \U0001f600 12±3 😀
    """
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        for ours, ascii_text in _IN_ASCII.items():
            text = text.replace(ours, ascii_text)
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def print_error(sentence: str, start: str = "fedwave: ") -> None:
    """Print one line on standard error; it is lost if that cannot be written to."""
    if sys.stderr is not None:  # print would take standard output instead
        line = in_encoding(f"{start}{visible(sentence)}", getattr(sys.stderr, "encoding", None))
        with suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Within the block, a command may print.

    Standard output that cannot be written to raises OutputClosed or OutputFailed at once; errors on standard error are
    ignored.
    """
    # A closed stream (`>&-`) would be opened again by the first data file, which other programs would then write to.
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout = _Guarded(before[0] or nowhere, _end_command)
        sys.stderr = _Guarded(before[1] or nowhere, lambda error: None)
        try:
            yield
            sys.stdout.flush()
        except BaseException:
            with suppress(OutputClosed, OutputFailed):  # one reason to end is enough
                sys.stdout.flush()
            raise
        finally:
            sys.stdout, sys.stderr = before


class _Guarded:
    """A text stream; an error in writing to it sends the rest nowhere, and is handed to ``failed``."""

    def __init__(self, stream: IO[str], failed: Callable[[Exception], None]) -> None:
        self._stream, self._failed = stream, failed
        with suppress(AttributeError, ValueError):  # not a stream of the system, as in a notebook
            stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except (OSError, ValueError) as error:  # ValueError: it is closed
            with suppress(OSError, ValueError):  # Python would complain about unwritten text at the end
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)
            self._failed(error)


def _end_command(error: Exception) -> None:
    """Raises OutputClosed or OutputFailed; libraries would catch an OSError."""
    if isinstance(error, BrokenPipeError):
        raise OutputClosed from None
    raise OutputFailed(f"standard output cannot be written to: {getattr(error, 'strerror', None) or error}.") from None
