"""Where commands write: folders of other people, folders of their own, and many commands at once."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from killing import command, leftovers
from locking import figures_that_try_to_lock
from refusals import mentions
from small_run import SMALL, cut


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_figures: None) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(small_run: Path) -> Path:
    """The small run, as seen from here."""
    return Path("run")


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


COMMANDS = {
    "from": ("reproduce", "score", "--from", "run", "--out", "mine"),
    "report": ("report", "run", "--out", "mine"),
    "theory": ("reproduce", "theory", "rounds=310", "instances=2", "--out", "mine"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_files_of_other_people_are_not_overwritten(fedwave, run: Path, name: str) -> None:
    mine = Path("mine", "gap.csv" if name == "theory" else "table.md")
    mine.parent.mkdir()
    mine.write_text("mine")
    # Sums that somebody else made prove nothing.
    Path("mine/SHA256SUMS").write_text(f"{hashlib.sha256(b'mine').hexdigest()}  {mine.name}\n")
    before = tree(Path("mine"))
    status, out, err = fedwave(*COMMANDS[name])
    assert (status, out) == (2, "")
    assert mentions(err, "mine/SHA256SUMS", "overwritten")
    assert mentions(err, "folder")
    assert err.count("\n") == 1
    assert tree(Path("mine")) == before


def test_a_report_into_another_run_is_refused(fedwave, run: Path) -> None:
    assert fedwave("run", "paper", *SMALL, "seed=1", "-o", "other")[0] == 0
    before = tree(Path("other"))
    status, _, err = fedwave("report", run, "--out", "other")
    assert status == 2
    assert mentions(err, "other", "run")
    assert tree(Path("other")) == before
    assert fedwave("report", run, "--out", "./other/../run")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("run", "paper", *SMALL, "-o", "run"),
        ("compare", "paper", *SMALL, "-o", "compared"),
        ("resume", "run"),
        ("report", "run"),
        ("report", "run", "--out", "figures"),
        ("reproduce", "score", "--from", "run", "--out", "figures"),
    ],
    ids=" ".join(map(str, ("run", "compare", "resume", "report", "out", "from"))).split(),
)
def test_the_lock_is_held_while_figures_are_written(
    fedwave, run: Path, words: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = figures_that_try_to_lock(monkeypatch)
    status, _, err = fedwave(*words)
    assert (status, err) == (0, "")
    assert "score" in tried


def resumes_at_once(folder: Path, number: int) -> None:
    """Exactly one works at a time; the others are told, or show what is finished."""
    words = command("resume", str(folder), "--workers", "1")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs = [subprocess.Popen(words, **pipes) for _ in range(number)]  # type: ignore[call-overload]
    try:
        ended = [(one.communicate(timeout=240), one.returncode) for one in runs]
    finally:
        for one in runs:
            one.kill()
    for (out, err), status in ended:
        if status == 0:
            assert "Figures and data are in" in out
        else:
            assert status == 2, err
            assert mentions(err, folder, "in use"), err
            assert err.count("\n") == 1
    assert 0 in [status for _, status in ended]
    assert leftovers(folder) == []
    check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=folder).returncode == 0


@pytest.mark.parametrize(("number", "times"), [(3, 1), pytest.param(12, 4, marks=pytest.mark.slow)])
def test_resumes_at_once(fedwave, run: Path, number: int, times: int) -> None:
    folder = run.absolute()
    for _ in range(times):
        cut(folder / "done.jsonl")
        (folder / "SHA256SUMS").unlink()
        resumes_at_once(folder, number)
        assert fedwave("verify", folder)[0] == 0
    resumes_at_once(folder, number)  # of a finished run
    assert fedwave("verify", folder)[0] == 0


@pytest.mark.parametrize(("name", "words"), [("config.yaml", ("resume", "run")), ("done.jsonl", ("report", "run"))])
def test_pipes_in_a_run_folder_are_not_waited_for(run: Path, name: str, words: tuple[str, ...]) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    told = subprocess.run(command(*words), capture_output=True, text=True, timeout=60)
    assert told.returncode == 2
    assert mentions(told.stderr, f"run/{name}")
    assert told.stderr.count("\n") == 1
