"""The commit in provenance.json is fedwave's own, and nothing that a folder configures is run to learn it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from shutil import which

import pytest

from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.checkout import commit_of
from fedwave.experiments.store.provenance import runs_of

ASKED = {"schedulers": ["age"], "rounds": 2, "instances": 1}
COMMIT, OTHER = "c0ffee" + "0" * 34, "f" * 40


def script(path: Path, touched: Path) -> Path:
    path.write_text(f"#!/bin/sh\ntouch '{touched}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(which("git") is None, reason="git is not installed")
def test_nothing_runs_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A .git that somebody else made names programs; and git itself is not started at all."""
    touched, here, programs = tmp_path / "touched", tmp_path / "received", tmp_path / "programs"
    here.mkdir()
    programs.mkdir()
    monkeypatch.chdir(here)
    subprocess.run(["git", "init", "-q"], check=True)
    (here / "a").write_text("a")
    subprocess.run(["git", "add", "a"], check=True)
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, "commit", "-q", "-m", "first"], check=True)
    hook = script(here / "hook", touched)
    for key in ("core.fsmonitor", "core.pager", "diff.external"):
        subprocess.run(["git", "config", key, str(hook)], check=True)
    run_experiment(experiment_from(ASKED), here / "run")
    assert not touched.exists()
    script(programs / "git", touched)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    run_experiment(experiment_from(ASKED), here / "run")
    assert not touched.exists()
    assert len(runs_of(here / "run")) == 2


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "fedwave"\n')
    (tmp_path / ".git/refs/heads").mkdir(parents=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".git/refs/heads/main").write_text(f"{COMMIT}\n")
    return tmp_path


def test_the_commit_of_a_branch_of_packed_branches_and_of_none(checkout: Path) -> None:
    assert commit_of(checkout) == COMMIT
    (checkout / ".git/refs/heads/main").unlink()
    packed = f"# pack-refs with: peeled\n{OTHER} refs/heads/mainline\n{COMMIT} refs/heads/main\n^{OTHER}\n"
    (checkout / ".git/packed-refs").write_text(packed)
    assert commit_of(checkout) == COMMIT
    (checkout / ".git/HEAD").write_text(OTHER + "\n")
    assert commit_of(checkout) == OTHER


def test_what_is_no_checkout_of_fedwave_has_no_commit(checkout: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text(OTHER)
    for head in ("ref: ../outside", "ref: /etc/passwd", "ref: ", "x", f"ref: {outside}", "\xff"):
        (checkout / ".git/HEAD").write_text(head, encoding="latin-1")
        assert commit_of(checkout) is None, head
    (checkout / ".git/refs/heads/link").symlink_to(outside)
    (checkout / ".git/HEAD").write_text("ref: refs/heads/link")
    assert commit_of(checkout) is None
    (checkout / ".git/HEAD").write_text(OTHER)
    assert commit_of(checkout) == OTHER
    (checkout / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert commit_of(checkout) is None
    (checkout / "pyproject.toml").unlink()
    assert commit_of(checkout) is None
