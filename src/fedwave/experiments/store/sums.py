"""SHA256SUMS of a run folder: of all that two runs of one experiment have in common, to the last bit."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from fedwave.errors import FedwaveError
from fedwave.files.reading import opened, read_bytes
from fedwave.files.writing import write_text

SUMS = "SHA256SUMS"
_MOST_BYTES = 100_000_000  # of a million files
_PLACES = ("", "rounds", "devices", "units", "inputs")
# Time, place and machine: they differ between equal runs. Hidden files and locks are of the moment.
_LEFT_OUT = (".", "lock.json", "checkpoints/", "timings/", "provenance.json", "inputs/places.json")


def write_sums(folder: Path, written: Iterable[str], pinned: Mapping[str, str] | None = None) -> Path:
    """Write the sums of these files, as `sha256sum -c SHA256SUMS` checks them; a damaged file keeps its pinned sum.

    Files that fedwave wrote earlier stay in the list if they are unchanged; files of other people never enter it.
    """
    try:
        earlier = read_sums(folder)
    except FedwaveError:
        earlier = {}  # there is none, or it is damaged and written anew
    sums = {
        name: sum_ for name, sum_ in earlier.items() if os.path.isfile(folder / name) and sum_of(folder / name) == sum_
    }
    for name in written:
        if os.path.isfile(folder / name) and name not in sums:
            sums[name] = sum_of(folder / name)
    sums |= {name: sum_ for name, sum_ in (pinned or {}).items() if name in sums}
    lines = [f"{sums[name]}  {name}\n" for name in sorted(sums) if _belongs(name)]
    return write_text(folder / SUMS, "".join(lines))


def changed_files(folder: Path, known: Mapping[str, str]) -> dict[str, str]:
    """What has happened to files since these sums were written: "changed", "missing" or "new", by name."""
    found = dict.fromkeys(_there(folder), "new")
    for name, wanted in known.items():
        path = folder / name
        if not os.path.isfile(path):  # also if its name is too long to be one
            found[name] = "missing"
        elif sum_of(path) != wanted:
            found[name] = "changed"
        else:
            found.pop(name, None)
    return found


def read_sums(folder: Path) -> dict[str, str]:
    """The sums by file."""
    path = folder / SUMS
    try:
        # Lines end in a line feed and nothing else: another character there is damage.
        *lines, rest = read_bytes(path, str(path), _MOST_BYTES).decode().split("\n")
        rows = [line.split("  ", 1) for line in lines]
        if rest:
            raise ValueError("its last line has no end")
        sums = {name: sum_ for sum_, name in rows}
    except ValueError as error:
        raise FedwaveError(f"{path} cannot be read: {error}.") from None
    for name in sums:
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts:  # a list from a stranger must not point outside
            raise FedwaveError(f"{path} is damaged: it names {name}, which is not in the folder.")
    return sums


def sum_of(path: Path) -> str:
    """The SHA-256 sum of a file."""
    with opened(path, str(path)) as (file, _):
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise FedwaveError(f"{path} cannot be read: {error.strerror}.") from None


def _belongs(name: str) -> bool:
    return name != SUMS and not name.startswith(_LEFT_OUT)


def _there(folder: Path) -> list[str]:
    """The files in the folder and its own places that could belong into the sums; folders of others are left alone."""
    paths = [path for place in _PLACES for path in sorted((folder / place).glob("*"))]
    names = [path.relative_to(folder).as_posix() for path in paths if os.path.isfile(path)]
    return [name for name in names if _belongs(name)]
