"""One process at a time writes into a folder, from its first file to its last, and only over what fedwave wrote.

    .lock       held by the process at work; the system releases it when the process dies
    lock.json   names that process
    .fedwave    "writing": fedwave is at work here, or was stopped, so that files with its names are its own;
                else the sum of SHA256SUMS, which proves what fedwave wrote

A run folder that nobody is writing to has no .fedwave: its config.yaml and plan.json say whose it is.
"""

from __future__ import annotations

import json
import os
import platform
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from filelock import FileLock, Timeout

from fedwave.errors import FedwaveError
from fedwave.experiments.store.own_files import CONFIG, PLACES, PLAN, PROVENANCE
from fedwave.experiments.store.sums import SUMS, read_sums, sum_of
from fedwave.files.writing import check_folder, guarded, read_unfinished_stem, unfinished_stem, write_json
from fedwave.plain_text import visible

_LOCK, _HOLDER, _MARK = ".lock", "lock.json", ".fedwave"
_WRITING = {"writing": True}
_MOST_BYTES = 1000  # of the two small files


@contextmanager
def locked(folder: Path, files: Iterable[str]) -> Iterator[None]:
    """Hold a folder while ``files`` are written there; fail if another process holds it, or if they are not fedwave's.

    A name that ends in / is that of a folder.
    """
    files = {*files, _HOLDER, _MARK}
    check_place(folder, files)
    lock, holder = FileLock(folder / _LOCK), folder / _HOLDER
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise FedwaveError(f"{folder} is in use by {_named(holder)}: wait for it, or choose another place.") from None
    except OSError as error:
        raise FedwaveError(f"{folder / _LOCK} cannot be locked: {error.strerror}.") from None
    try:
        _refuse_foreign(folder, files)  # again: now nobody else is at work here
        with _still_held(folder) as held, guarded(folder, lambda path: _check_held(folder, held, path)):
            write_json(folder / _MARK, _WRITING)
            try:
                write_json(holder, {"process": os.getpid(), "machine": platform.node()})
                remove_unfinished(folder, files)
                yield
                _leave_proof(folder)
            finally:
                if held():
                    if is_run_folder(folder):
                        (folder / _MARK).unlink(missing_ok=True)
                    holder.unlink(missing_ok=True)
    finally:
        lock.release()  # .lock stays: if it were removed, two processes could each lock their own


@contextmanager
def _still_held(folder: Path) -> Iterator[Callable[[], bool]]:
    """Is the lock in the folder still the one that was taken? Somebody may have removed or replaced the folder."""
    path = folder / _LOCK
    # While it is open, the system gives its number to no other file.
    taken = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))

    def held() -> bool:
        try:
            return os.path.samestat(os.fstat(taken), os.lstat(path))
        except OSError:
            return False

    try:
        yield held
    finally:
        os.close(taken)


def _check_held(folder: Path, held: Callable[[], bool], path: Path) -> None:
    """Refuse to write into a folder that is no longer ours, or through a link that was put there meanwhile."""
    if not held():
        raise FedwaveError(
            f"{path} is not written: its folder was removed or replaced while fedwave was at work there."
        )
    if path.parent.is_symlink() and path.parent != folder:  # the folder itself may be named by a link
        raise _no_plain(path.parent, "folder")


def check_place(folder: Path, files: Iterable[str]) -> None:
    """Make a folder for these files; refuse one that cannot be written to, has links, or has such files of its own."""
    files = {*files, _HOLDER, _MARK}
    _refuse_own_folder_of_a_run(folder)
    refuse_links(folder, files)
    # Where there is a lock, another process may be writing them in this moment: whoever gets it looks again.
    if not os.path.lexists(folder / _LOCK):
        _refuse_foreign(folder, files)
    check_folder(folder)


def refuse_filled(folder: Path) -> None:
    """Refuse a folder in which anything lies but what a lock leaves."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise FedwaveError(f"{folder} is a file: choose a new folder.")
    others = [e.name for e in _entries(folder) if e.name not in (_LOCK, _HOLDER, _MARK)]
    if others:
        raise FedwaveError(f"{folder} is not empty ({visible(min(others))} is there): choose a new folder.")


def remove_unfinished(folder: Path, files: Iterable[str]) -> None:
    """Remove what a killed process left of these files: only by their full names, and in no folder below."""
    own: dict[str, set[str]] = {}
    for name in files:
        place, _, last = name.rpartition("/")
        own.setdefault(place, set()).add(unfinished_stem(last))
    for place, kept in own.items():
        for entry in _entries(folder / place):
            if read_unfinished_stem(entry.name) in kept and entry.is_file(follow_symlinks=False):
                with suppress(OSError):  # it disturbs nobody
                    os.unlink(entry)


def is_run_folder(folder: Path) -> bool:
    """Has a run been begun here? A config.yaml alone may be anybody's."""
    one_of = (PLAN, PROVENANCE, "units")  # any of the first two may be lost
    return os.path.isfile(folder / CONFIG) and any(os.path.lexists(folder / n) for n in one_of)


def refuse_links(folder: Path, files: Iterable[str]) -> None:
    """Through a link, files outside would be overwritten; a pipe or a device would be waited for."""
    for name, is_folder in {**_tops(files), _LOCK: False}.items():
        path = folder / name
        if os.path.lexists(path):
            mode = path.lstat().st_mode
            if not (stat.S_ISDIR(mode) if is_folder else stat.S_ISREG(mode)):
                raise _no_plain(path, "folder" if is_folder else "file")
        for entry in _entries(path) if is_folder else ():
            if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                raise _no_plain(Path(entry), "file")


def refuse_own_file(path: Path, folder: Path, files: Iterable[str]) -> None:
    """Refuse to write events or the like over what fedwave writes into a folder, or into its own folders."""
    real, inside = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    if not real.is_relative_to(inside):
        return
    top = real.relative_to(inside).parts[:1]
    if top and top[0] in {*_tops(files), _LOCK, _HOLDER, _MARK}:
        raise FedwaveError(f"{path} is a file that fedwave itself writes into {folder}: choose another place.")


def _refuse_own_folder_of_a_run(folder: Path) -> None:
    """What is written into the own folders of a run would look like its results."""
    real = Path(os.path.realpath(folder))
    places = {place.rstrip("/") for place in PLACES}
    for inner, outer in pairwise((real, *real.parents)):
        if inner.name in places and is_run_folder(outer):
            raise FedwaveError(f"{folder} lies in {inner.name}/ of the run folder {outer}: choose another folder.")


def _no_plain(path: Path, kind: str) -> FedwaveError:
    what = "a link" if path.is_symlink() else f"no plain {kind}"
    return FedwaveError(
        f"{path} is {what}, but fedwave writes only plain files and folders: remove it, or choose another folder."
    )


def _refuse_foreign(folder: Path, files: Iterable[str]) -> None:
    """Refuse to overwrite what fedwave cannot prove to be its own."""
    if is_run_folder(folder):
        if CONFIG not in files:
            raise FedwaveError(f"{folder} is the folder of another run: choose another folder.")
        for name in (_HOLDER, _MARK):  # of a run that was killed
            path = folder / name
            if os.path.lexists(path) and not isinstance(_short_json(path), dict):
                raise _not_ours(path)
        return
    there = {name for name in _tops(files) if os.path.lexists(folder / name)}
    there = {name for name in there if not is_run_folder(folder / name)}  # with a lock of its own
    if _is_filled(folder / _LOCK):  # ours is empty
        there.add(_LOCK)
    mark = _mark(folder)
    if not there or mark == _WRITING:
        return
    foreign = there - _proven(folder, mark, there)
    if foreign:
        raise _not_ours(folder / min(foreign))


def _not_ours(path: Path) -> FedwaveError:
    return FedwaveError(
        f"{path} would be overwritten, but is not, or no longer, what fedwave wrote: choose another folder."
    )


def _proven(folder: Path, mark: object, names: set[str]) -> set[str]:
    """Those of the files whose present sums are the ones that fedwave wrote down."""
    sums = folder / SUMS
    if not isinstance(mark, dict) or not sums.is_file() or mark.get(SUMS) != sum_of(sums):
        return set()
    known = read_sums(folder)
    here = {name for name in names & known.keys() if os.path.isfile(folder / name)}
    return {name for name in here if sum_of(folder / name) == known[name]} | {SUMS, _MARK}


def _leave_proof(folder: Path) -> None:
    """Everything is written: from now on only unchanged files are fedwave's own."""
    sums = folder / SUMS
    if sums.is_file():
        write_json(folder / _MARK, {SUMS: sum_of(sums)})
    else:
        (folder / _MARK).unlink(missing_ok=True)


def _tops(files: Iterable[str]) -> dict[str, bool]:
    """What the files need in the folder itself: its name, and whether it is a folder."""
    return {name.partition("/")[0]: "/" in name for name in sorted(files)}


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise FedwaveError(f"{folder} cannot be read: {error.strerror}.") from None


def _mark(folder: Path) -> object:
    return _short_json(folder / _MARK)


def _is_filled(path: Path) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) > 0


def _named(holder: Path) -> str:
    match _short_json(holder):
        case {"process": int(process), "machine": str(machine)}:
            return f"process {process} on {machine}"
    return "another process"


def _short_json(path: Path) -> object:
    """What a file of ours says; None if there is none, or if it cannot be ours."""
    try:
        with open(path, "rb") as file:
            content: object = json.loads(file.read(_MOST_BYTES))
            return content
    except (OSError, ValueError, RecursionError):
        return None
