"""The file of a checkpoint: an archive, and a last line that names its run and unit and has a checksum of the rest.

It is written in one pass, since a checkpoint can have gigabytes.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from typing import IO, Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.units import Unit

_WORDS = b"\nfedwave checkpoint "
_PIECE = 1 << 20


def write_checkpoint_file(file: IO[bytes], unit: Unit, write: Callable[[IO[bytes]], None]) -> None:
    """Let ``write`` write the archive, and add the line."""
    summed: Any = _Summed(file)
    write(summed)
    file.write(_line(unit, summed.checksum))


def check_checkpoint_file(file: IO[bytes], unit: Unit) -> None:
    """Raises FedwaveError for a corrupt file, or one from another unit. Leaves the file at its beginning."""
    left = max(0, file.seek(0, os.SEEK_END) - len(_line(unit, 0)))
    file.seek(left)
    end = file.read()
    file.seek(0)
    checksum = 0
    while left > 0 and (piece := file.read(min(left, _PIECE))):
        checksum, left = zlib.crc32(piece, checksum), left - len(piece)
    if end != _line(unit, checksum):
        raise FedwaveError("it is corrupt, or another unit or another run wrote it")
    file.seek(0)


class _Summed:
    """A file that cannot be rewound, so that an archive is written to it from the first byte to the last."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.checksum = file, 0

    def write(self, content: bytes) -> int:
        self.checksum = zlib.crc32(content, self.checksum)
        return self._file.write(content)

    def flush(self) -> None:
        self._file.flush()


def _line(unit: Unit, checksum: int) -> bytes:
    return _WORDS + json.dumps([unit.run_id, unit.name, f"{checksum:08x}"]).encode() + b"\n"
