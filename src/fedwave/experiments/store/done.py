"""done.jsonl: which units are finished. One JSON object per line; every line ends in its own checksum.

The first line has the run id, the checksums of run.json and config.yaml, and where input files were found. A line per
finished unit follows, with the checksums of its tables, and how long, when, where and with which versions it ran.
Lines are appended. A line that is torn or corrupt is ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.store.checksums import Corrupt
from fedwave.files.checksum import sha256
from fedwave.files.reading import read_bytes
from fedwave.files.writing import write_bytes

DONE = "done.jsonl"
_MOST_BYTES = 1_000_000_000  # enough for a million units
_APPEND = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
Line = Mapping[str, Any]


@dataclass(frozen=True)
class Done:
    """The content of done.jsonl."""

    header: Line
    units: dict[str, Line]  # the last line of each, by its name
    corrupt: list[int]  # numbers of the lines that are ignored


def write_done(folder: Path, header: Line, lines: Iterable[Line] = ()) -> None:
    """Write the whole file."""
    write_bytes(folder / DONE, b"".join(map(_text, (header, *lines))))


def append_line(folder: Path, line: Line) -> None:
    """Add the line of a unit, whose tables are on the disk."""
    path = folder / DONE
    try:
        with os.fdopen(os.open(path, _APPEND), "wb") as file:
            file.write(_text(line))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise FedwaveError(f"{path} cannot be written: {error.strerror}; choose another folder.") from None


def read_done(folder: Path) -> Done:
    """Read the file. Raises Corrupt if its first line is torn or corrupt."""
    path = folder / DONE
    try:
        first, *lines = read_bytes(path, "it", _MOST_BYTES).splitlines(keepends=True) or [b""]
    except FedwaveError as error:
        raise Corrupt(f"{path} is corrupt: {error}") from None
    header = _content(first, run=str)
    if header is None:
        raise Corrupt(f"{path} is corrupt in its first line: restore it, or start a new run in another folder.")
    found = [_content(line, unit=str, sha256=dict, bytes=dict) for line in lines]
    corrupt = [number for number, line in enumerate(found, start=2) if line is None]
    return Done(header, {line["unit"]: line for line in found if line is not None}, corrupt)


def _text(content: Line) -> bytes:
    text = json.dumps(dict(content))
    return f'{text[:-1]}, "checksum": "{sha256(text.encode())}"}}\n'.encode()


def _content(line: bytes, **kinds: type) -> dict[str, Any] | None:
    """The content of a line with fields of these kinds; None if it is torn or corrupt."""
    try:
        content = json.loads(line)
        del content["checksum"]
        sound = _text(content) == line and all(isinstance(content.get(name), kinds[name]) for name in kinds)
        return content if sound else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
