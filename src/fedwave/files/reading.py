"""Bounded readers for untrusted files: bytes, text and JSON. They raise FedwaveError for a file that they refuse."""

from __future__ import annotations

import codecs
import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError, short_repr

_MOST_BYTES = 8_000_000  # of a text written by people: an experiment, a device table in YAML


def as_path(what: str, given: Any) -> Path:
    """The given path; raises unless it is a text or a Path, since open() also accepts the number of an open file."""
    try:
        text = os.fspath(given)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise FedwaveError(f"{what} is {short_repr(given)}, must be a path: a text or a Path.")
    return Path(text)


@contextmanager
def opened(path: str | Path, what: str, most: float = math.inf) -> Iterator[tuple[BufferedReader, int]]:
    """Opens a regular file of at most ``most`` bytes; yields the file and its size."""
    path = as_path("a file to read", path)
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise FedwaveError(f"{what} cannot be read: {reason}.") from None
    with file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):  # a pipe or /dev/zero has no end
            raise FedwaveError(f"{what} cannot be read: it is not a regular file.")
        if status.st_size > most:
            raise FedwaveError(f"{what} has {status.st_size:,} bytes, must have at most {most:,}.")
        yield file, status.st_size


def _without_waiting(path: str, flags: int) -> int:
    """Opens a pipe without waiting for a writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def is_there(path: str | Path) -> bool:
    """Does the path exist? Raises FedwaveError if it cannot be checked."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:  # not allowed to look; a name too long or with a NUL
        reason = getattr(error, "strerror", None) or error
        raise FedwaveError(f"{path} cannot be read: {reason}.") from None
    return True


def read_bytes(path: str | Path, what: str, most: int = _MOST_BYTES) -> bytes:
    """The content of a file of at most ``most`` bytes."""
    with opened(path, what, most) as (file, size):
        try:
            return file.read(size)  # allocates that much at once, so not the limit
        except OSError as error:
            raise FedwaveError(f"{what} cannot be read: {error.strerror}.") from None


def read_text(path: str | Path, what: str, most: int = _MOST_BYTES) -> str:
    """The content of a file in UTF-8, with or without a byte order mark."""
    content = read_bytes(path, what, most)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise FedwaveError(f"{what} cannot be read: it is UTF-16, save it as UTF-8.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FedwaveError(f"{what} cannot be read: it is not text.") from None


def read_json(text: str, what: str) -> Any:
    """The content of a JSON text; refuses a key given twice, and half characters."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key, value in pairs:
            if key in content:
                raise FedwaveError(f"{what} is not valid: the key {short_repr(key)} is given twice.")
            content[key] = value
        return content

    try:
        content = json.loads(text, object_pairs_hook=once)
        json.dumps(content, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise FedwaveError(f"{what} is not valid JSON in line {error.lineno}: {error.msg}.") from None
    except UnicodeEncodeError as error:  # half a character, such as "\ud800", which no file can hold
        near = error.object[max(0, error.start - 20) : error.end + 20]
        raise FedwaveError(f"{what} holds {short_repr(near)}, must be text that UTF-8 can encode.") from None
    except RecursionError:
        raise FedwaveError(f"{what} is nested too deeply.") from None
    except ValueError:  # Python's limit
        raise FedwaveError(f"{what} holds a number of too many digits: give a smaller one.") from None
    return content
