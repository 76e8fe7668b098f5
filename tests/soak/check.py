"""What must hold: of every process that has ended, and of a folder when all is done."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path

from .counts import Counts
from .experiments import Undisturbed, names_in
from .processes import Process, left_over

DISK_FULL = ("No space left on device",)
IN_USE = "is in use by"
WORKERS_DIED = ("crashed", "abandoned")  # a unit whose workers are killed again and again
FOREIGN = ".somebody.part"  # looks like a temporary file of fedwave, but is not one
_STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}


def judge(
    process: Process,
    counts: Counts,
    wanted: Undisturbed,
    folder: Path,
    waited: float | None,
    sent: set[signal.Signals] = frozenset(),  # type: ignore[assignment]
    refusals: tuple[str, ...] = (),
) -> bool:
    """Count how a process ended; was it as it should be?

    ``sent`` are the signals that it was sent, ``refusals`` the sentences with which it may have ended.
    """
    before = counts.faults.total()
    status, errors = process.status, process.errors()
    if waited is None:
        counts.fault("hang", process.output())
    else:
        counts.longest_wait = max(counts.longest_wait, waited)
    early = process.too_early and status != 0
    counts.early += early
    if "Traceback" in errors and not (early and "KeyboardInterrupt" in errors):
        counts.fault("traceback", process.output())
    refused = status in (1, 2) and _is_one_of(errors, refusals)
    expected = {0, *(_STATUS[one] for one in sent if one in _STATUS)}
    if process.killed_by_us or waited is None:
        expected.add(-signal.SIGKILL)
    if "fedwave: stopped" in errors:  # a second signal met Python's end; a shell says 130 or 143 to both
        expected |= {-one for one in sent}
    if early:  # Python's own answers
        expected |= {-one for one in sent} | {1, *_STATUS.values()}
    if status not in expected and not refused:
        counts.fault("wrong exit status or sentence", process.output())
    if status == 0 and process.printed(folder) != wanted.printed:
        counts.fault("wrong results", f"another table than undisturbed:\n{process.printed(folder)}")
    sound = counts.faults.total() == before
    if process.words[0] == "resume":
        counts.resumes[_how(status, errors, sound)] += 1
    return sound


def _how(status: int | None, errors: str, sound: bool) -> str:
    if not sound:
        return "failed"
    if status == 0:
        return "worked"
    return "refused as in use" if IN_USE in errors else "ended by a signal or a full disk"


def _is_one_of(errors: str, refusals: tuple[str, ...]) -> bool:
    last = (errors.splitlines() or [""])[-1]
    return last.startswith("fedwave: ") and any(words in last for words in refusals)


def check_folder(folder: Path, wanted: Undisturbed, counts: Counts, log: Path, patience: float = 10.0) -> None:
    """A finished folder is as if nobody had disturbed it, and nothing is left of those who did."""
    for name in left_over(patience):
        counts.fault("process left over", name)
    found = names_in(folder) - {FOREIGN} if folder.is_dir() else frozenset()
    for name in sorted(found - wanted.names):
        counts.fault("file left over", name)
    sums = folder / "SHA256SUMS"
    if not sums.is_file() or sums.read_text() != wanted.sums:
        counts.fault("wrong results", _first_difference(sums, wanted.sums))
    elif missing := wanted.names - found:
        counts.fault("wrong results", f"missing: {', '.join(sorted(missing))}")
    verify = Process(["verify", str(folder)], log)
    if verify.wait() is None:
        counts.fault("hang", verify.output())
    elif verify.status != 0:
        counts.fault("unsound folder", verify.output() + verify.printed(folder))
    if "Traceback" in verify.errors():
        counts.fault("traceback", verify.output())


def _first_difference(sums: Path, wanted: str) -> str:
    if not sums.is_file():
        return f"there is no {sums.name}"
    there, should = (set(text.splitlines()) for text in (sums.read_text(), wanted))
    return "sums differ:\n" + "\n".join(sorted(there ^ should)[:8])


class Bystander:
    """A folder beside the run, with names like those of a run folder, and a file in it: nobody may touch them."""

    def __init__(self, place: Path, folder: Path) -> None:
        self._place, self._foreign = place, folder / FOREIGN
        (place / "rounds").mkdir(parents=True)
        for name in ("SHA256SUMS", "table.md", ".results.nc.1.part", "rounds/.unit.parquet.2.part"):
            (place / name).write_text(f"somebody else's {name}\n")
        (place / "link").symlink_to("table.md")
        self._before = self._state()

    def enter(self) -> None:
        """Put the file into the run folder, if there is one: a run begins only in a folder without files of others."""
        if (self._foreign.parent / "run.json").exists() and not self._foreign.exists():
            self._foreign.write_text("a draft\n")
            self._before = self._state()

    def check(self, counts: Counts) -> None:
        after = self._state()
        for name in sorted(self._before.keys() | after.keys()):
            if self._before.get(name) != after.get(name):
                counts.fault("somebody else's file touched", name)

    def _state(self) -> dict[str, tuple[str, int, int]]:
        paths = [*self._place.rglob("*"), *([self._foreign] if self._foreign.exists() else [])]
        return {path.name: _content(path) for path in paths}


def _content(path: Path) -> tuple[str, int, int]:
    about = os.lstat(path)
    what = os.readlink(path) if path.is_symlink() else ""
    if path.is_file():
        what += hashlib.sha256(path.read_bytes()).hexdigest()
    return what, about.st_mode, about.st_mtime_ns
