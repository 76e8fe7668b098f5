"""SHA256SUMS of a run folder: of all that two runs of one experiment have in common, to the last bit."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fedwave.errors import FedwaveError
from fedwave.files import write_text

SUMS = "SHA256SUMS"
# Time, place and machine: they differ between equal runs. Hidden files and locks are of the moment.
_LEFT_OUT = (".", "lock.json", "checkpoints/", "timings/", "provenance.json", "inputs/places.json")


def write_sums(folder: Path) -> Path:
    """Write the sums, as `sha256sum -c SHA256SUMS` checks them."""
    lines = [f"{_sum(folder / name)}  {name}\n" for name in covered(folder)]
    return write_text(folder / SUMS, "".join(lines))


def covered(folder: Path) -> list[str]:
    """The files that are there and belong into the sums."""
    names = (p.relative_to(folder).as_posix() for p in sorted(folder.rglob("*")) if p.is_file())
    return [name for name in names if name != SUMS and not name.startswith(_LEFT_OUT)]


def changed_files(folder: Path) -> dict[str, str]:
    """What has happened to files since their sums were written: "changed", "missing" or "new", by name."""
    known = read_sums(folder)
    found = dict.fromkeys(covered(folder), "new")
    for name, wanted in known.items():
        path = folder / name
        if not path.is_file():
            found[name] = "missing"
        elif _sum(path) != wanted:
            found[name] = "changed"
        else:
            found.pop(name, None)
    return found


def read_sums(folder: Path) -> dict[str, str]:
    """The sums by file."""
    path = folder / SUMS
    try:
        # Lines end in a line feed and nothing else: another character there is damage.
        *lines, rest = path.read_bytes().decode().split("\n")
        rows = [line.split("  ", 1) for line in lines]
        if rest:
            raise ValueError("its last line has no end")
        return {name: sum_ for sum_, name in rows}
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FedwaveError(f"{path} cannot be read: {reason}.") from None


def _sum(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FedwaveError(f"{path} cannot be read: {error.strerror}.") from None
