"""Atomic writes: a file is written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from fedwave.errors import FedwaveError, WorkFailed

_ROOM = 140  # bytes of the longest path below a folder for results
# The file must be new, so that no file or link of somebody else is written to.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.part")


def check_folder(folder: Path) -> None:
    """Makes a folder for results; raises FedwaveError if it cannot be written to."""
    try:
        with suppress(FileNotFoundError):  # raises if paths inside it would be too long
            os.lstat(folder / ("x" * _ROOM))
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FedwaveError(f"{folder} cannot be written to: {error.strerror}; choose another place.") from None


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> Path:
    """Lets ``write`` fill a new file beside ``path``, then moves it to ``path`` in one step.

    A link at ``path`` is replaced; the file that it points to stays as it is.
    """
    unfinished = path.with_name(f".{secrets.token_hex(8)}.part")
    opened = False
    try:
        _check_replaceable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        # The umask of the user decides who may read it, as for any new file.
        with os.fdopen(os.open(unfinished, _NEW, 0o666), "wb") as file:
            opened = True
            write(file)
            file.flush()
            os.fsync(file.fileno())  # the content must be on the disk before the name is
        os.replace(unfinished, path)
    except OSError as error:
        raise WorkFailed(f"{path} cannot be written: {error.strerror}; choose another place.") from None
    finally:
        if opened:
            unfinished.unlink(missing_ok=True)
    return path


def is_unfinished(name: str) -> bool:
    """Is it the name of a file that ``write_whole`` has not finished?"""
    return _UNFINISHED.fullmatch(name) is not None


def _check_replaceable(path: Path) -> None:
    """Raises for folders, devices and pipes: as root, /dev/null would become a regular file."""
    if path.exists() and not path.is_file():
        raise FedwaveError(f"{path} cannot be written: it is not a regular file; choose another place.")


def write_text(path: Path, text: str) -> Path:
    """Writes a text file in UTF-8."""
    return write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> Path:
    """Writes a file with this content."""
    return write_whole(path, lambda file: file.write(content))


def write_json(path: Path, content: Any) -> Path:
    """Writes JSON, indented, as ``json_text`` makes it."""
    return write_text(path, json_text(content) + "\n")


def json_text(content: Any) -> str:
    """JSON for other programs: NaN becomes null, and an infinity the text "inf" or "-inf".

    fedwave does not read these files back. Its records, traces and tables, which it does read, have Infinity and NaN.

    >>> print(json_text([1.5, float("inf"), float("nan")]).replace("\\n", ""))
    [  1.5,  "inf",  null]
    """
    return json.dumps(_finite(content), indent=2, allow_nan=False)


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None if math.isnan(content) else str(float(content))
    return content


def write_csv(path: Path, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Writes a CSV table with a heading line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
    return write_text(path, text.getvalue())
