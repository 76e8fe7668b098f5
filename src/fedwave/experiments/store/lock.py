"""Lets one process at a time write into a folder, and only over files that fedwave wrote.

``.lock`` is created first, marks the folder as fedwave's, and is held by the process at work; the system releases it
when the process dies. A run begins in an empty folder. Tables and figures alone may be written beside files of others,
which are never overwritten: there, what SHA256SUMS lists is fedwave's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from fedwave.errors import FedwaveError
from fedwave.experiments.store.checksums import SUMS, file_sha256, read_sums
from fedwave.experiments.store.done import DONE
from fedwave.experiments.store.manifest import CONFIG, MANIFEST
from fedwave.files.writing import check_folder, is_unfinished, write_text
from fedwave.plain_text import visible

LOCK = ".lock"
SUBFOLDERS = ("rounds", "devices", "inputs", "checkpoints")  # folders of a run folder
OWN_FILES = (CONFIG, MANIFEST, DONE)  # that a run writes before its tables and figures
_BEGINNING = {LOCK, CONFIG, "inputs"}  # written before run.json


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder within the block; raises FedwaveError if another process holds it."""
    _check_lock(folder)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise FedwaveError(f"{folder} is in use by another process: wait for it, or choose another folder.") from None
    except OSError as error:
        raise FedwaveError(f"{folder / LOCK} cannot be locked: {error.strerror}.") from None
    try:
        for name in ("", *SUBFOLDERS):
            _remove_unfinished(folder / name)
        yield
    finally:
        lock.release()  # .lock stays: if it were removed, two processes could each lock their own


@contextmanager
def writing_outputs(folder: Path, names: Iterable[str]) -> Iterator[None]:
    """Hold a folder for tables and figures with these names; a name that ends in / is that of a run folder."""
    _check_outputs(folder, names)
    with locked(folder):
        write_text(folder / SUMS, "")  # until it is written again, the folder is unfinished
        yield


def _check_outputs(folder: Path, names: Iterable[str]) -> None:
    """Make a folder for these files; raises FedwaveError if files of others have these names."""
    if is_run_folder(folder):
        raise FedwaveError(f"{folder} is the folder of a run: choose another folder.")
    _check_lock(folder)
    _check_not_within_run(folder)
    marked, listed = (os.path.lexists(folder / name) for name in (LOCK, SUMS))
    known = read_sums(folder) if marked and listed else {}
    stopped = marked and listed and not known  # before fedwave wrote the checksums
    # A run folder has its own lock.
    there = set() if stopped else _entries(folder) & {name.partition("/")[0] for name in names} - {LOCK}
    for name in sorted(there - ({SUMS} if marked else set())):
        path = folder / name
        if not is_run_folder(path) and not (os.path.isfile(path) and file_sha256(path) == known.get(name)):
            raise FedwaveError(
                f"{path} was not written by fedwave, or has changed since, so it is not overwritten: choose another "
                "folder."
            )
    check_folder(folder)


def make_run_folder(folder: Path) -> None:
    """Make a folder for a run; raises FedwaveError if it holds anything but a run or the beginning of one."""
    _check_lock(folder)
    _check_not_within_run(folder)
    there = _entries(folder)
    if there and MANIFEST not in there:
        ours = {name for name in there if name in _BEGINNING or is_unfinished(name)}
        check_new(folder, ours if LOCK in there else set())
    check_links(folder)
    check_folder(folder)


def check_new(folder: Path, ours: Set[str] = frozenset({LOCK})) -> None:
    """Raises FedwaveError unless the folder is not there, or is empty but for files of ours."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise FedwaveError(f"{folder} is a file: choose a new folder.")
    if others := _entries(folder) - ours:
        raise FedwaveError(f"{folder} is not empty ({visible(min(others))} is there): choose a new folder.")


def check_links(folder: Path) -> None:
    """Raises FedwaveError for a link in the place of a folder of the run: files outside would be written."""
    for name in SUBFOLDERS:
        path = folder / name
        if path.is_symlink() or (os.path.lexists(path) and not path.is_dir()):
            raise FedwaveError(f"{path} is not a folder, or is a link to one: remove it, or choose another folder.")


def check_own_file(path: Path, folder: Path, outputs: Iterable[str]) -> None:
    """Raises FedwaveError for a file of the user's in the place of one that fedwave writes into a run folder."""
    real, inside = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    own = {LOCK, *OWN_FILES, *SUBFOLDERS, *outputs}
    if real.is_relative_to(inside) and {*real.relative_to(inside).parts[:1]} & own:
        raise FedwaveError(f"{path} is a file that fedwave itself writes into {folder}: choose another folder.")


def is_run_folder(folder: Path) -> bool:
    """Has a run been begun here?"""
    return os.path.isfile(folder / MANIFEST)


def _check_lock(folder: Path) -> None:
    """Raises unless the lock is an empty file of ours: locking would empty another one."""
    path = folder / LOCK
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file() or path.stat().st_size):
        raise FedwaveError(f"{path} is not a lock of fedwave: remove it, or choose another folder.")


def _check_not_within_run(folder: Path) -> None:
    """Whatever lies in rounds/ would be read as a table of the run."""
    real = Path(os.path.realpath(folder))
    for parent in (real, *real.parents):
        if parent.name in SUBFOLDERS and is_run_folder(parent.parent):
            raise FedwaveError(f"{folder} lies in {parent.name}/ of the run {parent.parent}: choose another folder.")


def _remove_unfinished(folder: Path) -> None:
    """Remove the temporary files of a killed process (files/writing.py)."""
    for name in () if folder.is_symlink() else _entries(folder):
        path = folder / name
        if is_unfinished(name) and path.is_file() and not path.is_symlink():
            with suppress(OSError):  # it does no harm
                path.unlink()


def _entries(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return set()
    except OSError as error:
        raise FedwaveError(f"{folder} cannot be read: {error.strerror}.") from None
