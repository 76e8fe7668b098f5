"""SHA-256 checksums of files, and the list of them in a folder of results, SHA256SUMS."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

from fedwave.errors import FedwaveError
from fedwave.files.reading import opened, read_bytes
from fedwave.files.writing import write_text

SUMS = "SHA256SUMS"
_MOST_BYTES = 100_000_000  # of a list of a million files


class Damaged(FedwaveError):
    """A file of a run folder has changed since it was written."""


def sha256(content: bytes) -> str:
    """The checksum of bytes."""
    return hashlib.sha256(content).hexdigest()


def file_sha256(path: str | Path) -> str:
    """The checksum of a file, which is read again only if it has changed."""
    try:
        state = os.stat(path)
    except OSError as error:
        raise FedwaveError(f"{path} cannot be read: {error.strerror}.") from None
    return _file_sha256(str(path), state.st_size, state.st_mtime_ns, state.st_ino)


@lru_cache(maxsize=256)
def _file_sha256(path: str, size: int, changed: int, number: int) -> str:
    with opened(path, path) as (file, _):
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise FedwaveError(f"{path} cannot be read: {error.strerror}.") from None


def write_sums(folder: Path, written: Iterable[str], known: Mapping[str, str] | None = None) -> Path:
    """Write SHA256SUMS of these files, as ``sha256sum -c`` reads it; ``known`` checksums are not computed again."""
    sums = {name: file_sha256(folder / name) for name in written if os.path.isfile(folder / name)} | dict(known or {})
    return write_text(folder / SUMS, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


def read_sums(folder: Path) -> dict[str, str]:
    """The checksums by file."""
    path = folder / SUMS
    try:
        *lines, rest = read_bytes(path, str(path), _MOST_BYTES).decode().split("\n")
        if rest:
            raise ValueError("its last line has no end")
        sums = {name: sum_ for sum_, name in (line.split("  ", 1) for line in lines)}
    except ValueError as error:
        raise FedwaveError(f"{path} cannot be read: {error}.") from None
    for name in sums:
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts:  # an untrusted list must not point outside
            raise FedwaveError(f"{path} is damaged: it names {name}, which is not in the folder.")
    return sums


def changed_files(folder: Path, known: Mapping[str, str]) -> dict[str, str]:
    """The files that are "changed" or "missing" since these checksums were written."""
    found = {}
    for name, wanted in known.items():
        if not os.path.isfile(folder / name):  # also if its name is too long
            found[name] = "missing"
        elif file_sha256(folder / name) != wanted:
            found[name] = "changed"
    return found
