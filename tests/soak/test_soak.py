"""A minute of the soak, and that its checks notice what they are for."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import ROOT

if not sys.platform.startswith("linux"):
    pytest.skip("looks for processes in /proc", allow_module_level=True)

from .check import FOREIGN, IN_USE, Bystander, check_folder, judge
from .counts import Counts
from .experiments import Undisturbed, names_in
from .processes import MARK, Process

SMALL = "name: small\nschedulers: [age, balsa]\nrounds: 5\ninstances: 2\n"


@pytest.mark.slow
def test_a_minute_of_the_soak(tmp_path: Path) -> None:
    words = ["--minutes", "1", "--seed", "1", "--json", str(tmp_path / "soak.json")]
    soak = subprocess.run(
        [sys.executable, "-m", "tests.soak", *words], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert soak.returncode == 0, soak.stdout + soak.stderr
    found = json.loads((tmp_path / "soak.json").read_text())["soak"]["after"]
    assert found["cycles"] > 0
    assert found["resumes"]["worked"] > 0
    assert sum(found["faults"].values()) == 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    place = tmp_path_factory.mktemp("undisturbed")
    (place / "small.yaml").write_text(SMALL)
    folder = place / "run"
    one = Process(["run", str(place / "small.yaml"), "--out", str(folder)], place / "log")
    one.wait()
    assert one.status == 0, one.output()
    sums = (folder / "SHA256SUMS").read_text()
    return Undisturbed(folder, sums, names_in(folder), one.printed(folder), {1: 1.0})


@contextmanager
def a_process_left_over() -> Iterator[subprocess.Popen[bytes]]:
    """A process with the mark; it is ended in any case, so that a failed test stays one failed test.

    A new process has no environment in /proc for a moment: the one of its parent is given up before its own is there.
    """
    sleeper = subprocess.Popen(["sleep", "100"], env={MARK: str(os.getpid())})
    try:
        while not Path(f"/proc/{sleeper.pid}/environ").read_bytes():
            time.sleep(0.01)
        yield sleeper
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_sound_folder_has_no_faults(undisturbed: Undisturbed, tmp_path: Path) -> None:
    counts = Counts()
    check_folder(undisturbed.folder, undisturbed, counts, tmp_path / "log")
    assert counts.faults.total() == 0


def test_every_fault_of_a_folder_is_counted(undisturbed: Undisturbed, tmp_path: Path) -> None:
    folder, counts = tmp_path / "run", Counts()
    shutil.copytree(undisturbed.folder, folder)
    bystander = Bystander(tmp_path / "canary", folder)
    bystander.enter()
    (folder / "table.md").write_text("forged")
    (folder / ".table.md.1.part").write_text("half")
    (folder / FOREIGN).unlink()
    with a_process_left_over() as sleeper:
        check_folder(folder, undisturbed, counts, tmp_path / "log", patience=0.2)
        assert sleeper.wait(10) == -signal.SIGKILL
    bystander.check(counts)
    assert counts.faults == {
        "unsound folder": 1,
        "file left over": 1,
        "process left over": 1,
        "somebody else's file touched": 1,
    }
    shutil.copy(folder / "table.md", folder / "summary.csv")
    (folder / "SHA256SUMS").unlink()
    check_folder(folder, undisturbed, counts, tmp_path / "log")
    assert counts.faults["wrong results"] == 1


def test_every_fault_of_a_process_is_counted(undisturbed: Undisturbed, tmp_path: Path) -> None:
    folder, counts = tmp_path / "none", Counts()
    process = Process(["resume", str(folder)], tmp_path / "log")
    waited = process.wait()
    assert not judge(process, counts, undisturbed, folder, waited, refusals=(IN_USE,))
    assert counts.faults == {"wrong exit status or sentence": 1}
    assert judge(process, counts, undisturbed, folder, waited, refusals=("no run folder",))
    (tmp_path / "log.err").write_text("Traceback (most recent call last):\n")
    assert not judge(process, counts, undisturbed, folder, None, refusals=("no run folder",))
    assert counts.faults["traceback"] == counts.faults["hang"] == 1


@pytest.mark.parametrize("stopped", [True, False])
def test_death_by_a_signal_is_fine_only_after_the_sentence(
    undisturbed: Undisturbed, tmp_path: Path, stopped: bool
) -> None:
    """Before it, the run has not answered the first signal; after it, a second one met Python's own end."""
    process, counts = (Process(["compare", "paper", "-r", "200000", "-i", "2"], tmp_path / "log"), Counts())
    process.send(signal.SIGTERM, [process.pid])  # so early that fedwave cannot answer
    waited = process.wait()
    assert process.status == -signal.SIGTERM
    (tmp_path / "log.err").write_text("fedwave: stopped.\n" if stopped else "")
    folder = tmp_path / "none"
    assert judge(process, counts, undisturbed, folder, waited, {signal.SIGTERM}) == stopped


def test_a_process_that_does_not_end_is_killed(tmp_path: Path) -> None:
    endless = Process(["compare", "paper", "-r", "200000", "-i", "2"], tmp_path / "log")
    assert endless.wait(1.0) is None
    assert endless.status == -signal.SIGKILL
