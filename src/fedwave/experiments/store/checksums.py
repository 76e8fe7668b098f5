"""SHA-256 checksums of files, and the list of them in a folder of results, SHA256SUMS."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedwave.errors import FedwaveError
from fedwave.files.reading import opened, read_text
from fedwave.files.writing import write_text

SUMS = "SHA256SUMS"
_MOST_BYTES = 100_000_000  # enough for a list of a million files
_known: dict[tuple[int, ...], str] = {}  # by device, inode, size and time of the last change


class Corrupt(FedwaveError):
    """A file of a run folder has changed since it was written."""


def file_sha256(path: str | Path) -> str:
    """The checksum of a file, which is read again only if it has changed."""
    with opened(path, str(path)) as (file, size):
        status = os.fstat(file.fileno())
        state = (status.st_dev, status.st_ino, size, status.st_mtime_ns)
        if state not in _known:
            try:
                _known[state] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise FedwaveError(f"{path} cannot be read: {error.strerror}.") from None
        return _known[state]


def write_sums(folder: Path, written: Iterable[str], known: Mapping[str, str] | None = None) -> Path:
    """Write SHA256SUMS of these files, as ``sha256sum -c`` reads it; ``known`` checksums are not computed again."""
    sums = {name: file_sha256(folder / name) for name in written if os.path.isfile(folder / name)} | dict(known or {})
    return write_text(folder / SUMS, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


def read_sums(folder: Path) -> dict[str, str]:
    """The checksums by file."""
    path = folder / SUMS
    *lines, rest = read_text(path, str(path), _MOST_BYTES).split("\n")
    pairs = [line.split("  ", 1) for line in lines]
    if rest or any(len(pair) != 2 for pair in pairs):
        raise FedwaveError(f"{path} is corrupt: `fedwave report` writes it again.")
    return {name: checksum for checksum, name in pairs}
