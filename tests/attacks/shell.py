"""Runs the command line: within this process, as the entry point does, or as a process of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, NamedTuple

LONGEST_S = 20.0


class Answer(NamedTuple):
    """What a command said; a status below 0 is a signal, None is no answer in time."""

    status: int | None
    out: str
    err: str


def command(*words: str) -> Answer:
    """Run `fedwave` with these words in this process, whose standard streams are caught as bytes."""
    from fedwave.cli.app import main

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        status = _status(words, main, out.fileno(), err.fileno())
        return Answer(status, _text(out), _text(err))


def _status(words: Sequence[str], main: Callable[[], None], out: int, err: int) -> int:
    with _caught(out, err):
        sys.argv = ["fedwave", *words]
        try:
            main()
            status = 0
        except SystemExit as stopped:
            code = stopped.code
            status = code if isinstance(code, int) else 0 if code is None else 1
        except BaseException:
            traceback.print_exc()
            status = 1
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                traceback.print_exc()
                status = 1
    return status


def process(
    words: Sequence[str], environment: Mapping[str, str] | None = None, ending: str = "", before: str = ""
) -> Answer:
    """The same in a process of its own; ``ending`` is what a shell does with its output, such as '>/dev/full'."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        line = [sys.executable, "-m", "fedwave", *words]
        if ending or before:
            line = ["sh", "-c", f'{before} "$@" {ending}', "sh", *line]
        try:
            done = subprocess.run(
                line,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=LONGEST_S,
                env={**os.environ, **(environment or {})},
            )
        except subprocess.TimeoutExpired:
            return Answer(None, "", "")
        return Answer(done.returncode, _text(out), _text(err))


def real(*words: str) -> Answer:
    """Run `fedwave` with these words in a process of its own."""
    return process(words)


@contextmanager
def _caught(out: int, err: int) -> Iterator[None]:
    """File descriptors 1 and 2 lead to files, so that what child processes say is caught too."""
    kept, streams = (os.dup(1), os.dup(2)), (sys.stdout, sys.stderr)
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(
        os.fdopen(2, "wb", closefd=False), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        for number, old in enumerate(kept, 1):
            os.dup2(old, number)
            os.close(old)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(5_000_000).decode("utf-8", "replace")
