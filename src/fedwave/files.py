"""Files are written whole or not at all. reading.py reads them."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from fedwave.errors import FedwaveError

_ROOM = 140  # bytes of the longest path that is made inside a folder for results


def check_folder(folder: Path) -> None:
    """Make a folder for results, and refuse one that cannot be written to."""
    try:
        with suppress(FileNotFoundError):  # whether paths inside it would be too long
            os.lstat(folder / ("x" * _ROOM))
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FedwaveError(
            f"{folder} cannot be written to: {error.strerror}; choose another place."
        ) from None


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> Path:
    """Let ``write`` fill a file beside ``path``, then put it in place in one step."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(unfinished, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())  # the name must not exist before the content is on the disk
        os.replace(unfinished, path)
    except OSError as error:
        raise FedwaveError(
            f"{path} cannot be written: {error.strerror}; choose another place."
        ) from None
    finally:
        if unfinished.parent.is_dir():
            unfinished.unlink(missing_ok=True)
    return path


def write_text(path: Path, text: str) -> Path:
    """Write a text file."""
    return write_whole(path, lambda file: file.write(text.encode("utf-8")))


def write_json(path: Path, content: Any) -> Path:
    """Write JSON for people and machines."""
    return write_text(path, json_text(content) + "\n")


def json_text(content: Any) -> str:
    """JSON that every reader accepts: NaN and infinity become null."""
    return json.dumps(_without_nan(content), indent=2, allow_nan=False)


def _without_nan(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _without_nan(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_without_nan(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content


def write_csv(path: Path, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a table with a heading line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
    return write_text(path, text.getvalue())
