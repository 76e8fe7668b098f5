"""The last line of a checkpoint: which unit wrote it. The archives before it carry checksums of their own."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from typing import IO

from fedwave.errors import FedwaveError

_WORDS = b"\nfedwave checkpoint "


def write_enclosed(file: IO[bytes], fingerprint: str, write: Callable[[IO[bytes]], None]) -> None:
    """Let ``write`` write a checkpoint into the file, and add the line; ``fingerprint`` is that of the unit."""
    write(file)
    file.write(_line(fingerprint))


def check_enclosed(file: IO[bytes], fingerprint: str) -> None:
    """Refuse a checkpoint that another unit wrote; then the file is at its beginning."""
    line = _line(fingerprint)
    file.seek(max(0, file.seek(0, os.SEEK_END) - len(line)))
    end = file.read()
    if not end.startswith(_WORDS):
        raise FedwaveError("it is damaged: its end is missing")
    if end != line:
        raise FedwaveError("another unit or another run wrote it")
    file.seek(0)


def check_whole(file: IO[bytes]) -> None:
    """Refuse a checkpoint of which a byte has changed; nothing of it is kept in memory."""
    try:
        with zipfile.ZipFile(file) as archive:
            bad = archive.testzip()
    except Exception as error:
        raise FedwaveError(f"it is damaged: {error}") from None
    if bad is not None:
        raise FedwaveError(f"it is damaged: {bad}")


def _line(fingerprint: str) -> bytes:
    return _WORDS + f"{fingerprint}\n".encode()
