"""The state of everything around an attack: names, sizes, times, contents and link targets."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

State = dict[str, str]  # by path
_FILES = ("table.md", "SHA256SUMS", ".old.part", "rounds/keep.parquet", "notes.txt", "run.json")


def plant(folder: Path) -> None:
    """Files of somebody else, with names that fedwave uses too."""
    for name in _FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} of somebody else\n")


def state_of(root: Path, allowed: Iterable[str] = ()) -> State:
    """All below a folder, without what is allowed to change (by its path from there)."""
    free = tuple(allowed)
    found: State = {}
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            inner = os.path.relpath(path, root)
            if not any(inner == one or inner.startswith(one + os.sep) for one in free):
                found[inner] = _look(path)
        folders[:] = [n for n in folders if os.path.relpath(os.path.join(place, n), root) in found]
    return found


def changes(before: State, after: State) -> list[str]:
    """What has been written, changed or removed, in words."""
    told = [f"{name} was removed" for name in before if name not in after]
    told += [f"{name} was written" for name in after if name not in before]
    return told + [f"{name} was changed" for name in before if name in after and after[name] != before[name]]


def _look(path: str) -> str:
    about = os.lstat(path)
    mode = f"{about.st_mode:o}"
    if stat.S_ISLNK(about.st_mode):
        return f"{mode} -> {os.readlink(path)}"
    if not stat.S_ISREG(about.st_mode):
        return mode  # the time of a folder says nothing that its entries do not
    if about.st_size > 50_000_000:  # sparse files of many gigabytes are not read
        return f"{mode} {about.st_size} {about.st_mtime_ns}"
    with open(path, "rb") as file:
        sum_ = hashlib.file_digest(file, "md5").hexdigest()
    return f"{mode} {about.st_size} {about.st_mtime_ns} {sum_}"
