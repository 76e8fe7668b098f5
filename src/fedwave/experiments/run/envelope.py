"""The envelope of a checkpoint: the unit that wrote it, and a sum of its bytes.

It is one line after the archive, so that the file is still an archive. A checkpoint that is damaged, or that another
unit or another run wrote, is not used.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from typing import IO, Any

from fedwave.errors import FedwaveError

_WORDS = b"\nfedwave checkpoint "
_SUM = 65  # bytes: the sum, and the end of the line


def write_enclosed(file: IO[bytes], fingerprint: str, write: Callable[[IO[bytes]], None]) -> None:
    """Let ``write`` write a checkpoint into the file, and add the line; ``fingerprint`` is that of the unit."""
    summed = _Summed(file)
    write(summed)  # type: ignore[arg-type]
    file.write(_line(fingerprint) + _sum_line(summed.sum.hexdigest()))


def check_enclosed(file: IO[bytes], fingerprint: str) -> None:
    """Refuse what is no whole checkpoint of this unit; then the file is at its beginning."""
    start = _line(fingerprint)
    left = file.seek(0, os.SEEK_END) - len(start) - _SUM
    file.seek(max(0, left))
    end = file.read()
    if not end.startswith(_WORDS):
        raise FedwaveError("it is damaged: its end is missing")
    if not end.startswith(start):
        raise FedwaveError("another unit or another run wrote it")
    sum_ = hashlib.sha256()
    file.seek(0)
    while left > 0 and (piece := file.read(min(left, 1 << 20))):
        sum_.update(piece)
        left -= len(piece)
    if end != start + _sum_line(sum_.hexdigest()):
        raise FedwaveError("it is damaged: it does not have the sum that it was written with")
    file.seek(0)


def _line(fingerprint: str) -> bytes:
    return _WORDS + f"{fingerprint} ".encode()


def _sum_line(sum_: str) -> bytes:
    return f"{sum_}\n".encode()


class _Summed(io.BufferedIOBase):
    """A file to write to that sums what passes. It cannot go back, and archives can do without that."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sum = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.sum.update(content)
        return self._file.write(content)
