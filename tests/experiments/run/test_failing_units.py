"""Schedulers that raise, leave or catch everything: their units fail, the others do not, and a signal ends it all."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killing import command, finished_units, started
from refusals import mentions, refused
from user_file import forgotten

import fedwave as fw

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
BAD = """
import signal, sys, time
from dataclasses import dataclass
from pathlib import Path
import fedwave as fw

def swallow():
    Path("begun").touch()
    while True:
        try:
            time.sleep(0.1)
        except BaseException:
            pass

def raiser(): raise ValueError("no. good")
def interrupt(): raise KeyboardInterrupt
def leaver(): sys.exit(3)

def misshape(): pass

def ring():
    # As if the time-out were over again and again: nothing waits for it, however slow the machine is.
    while True:
        try:
            signal.raise_signal(signal.SIGALRM)
        except BaseException:
            pass

@fw.register
@dataclass(frozen=True)
class Bad(fw.Scheduler):
    name, needs = "bad", {"backlog"}
    does: str = "raiser"
    def priority(self, state, seen, draws):
        if seen.round == 2 and not Path("repaired").exists():
            globals()[self.does]()
        return seen.waiting[:, :2] if self.does == "misshape" else seen.waiting
"""
WHY = {
    "raiser": ("raiser", "ValueError: no. good"),
    "interrupt": ("interrupt", "KeyboardInterrupt"),
    "leaver": ("leaver", "SystemExit: 3"),
    "misshape": ("bad", "shape"),
}


def resumes(here: Path) -> str:
    """The command that goes on, as it is said."""
    return f"`fedwave resume run --import {here / 'bad.py'}`"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text(BAD)
    return tmp_path


def words(schedulers: str, *more: str, verb: str = "run") -> list[str]:
    given = ("paper", "--import", "bad.py", "-s", schedulers, "-r", "4", "-i", "5")
    return command(verb, *given, *more)


def made(given: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(given, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("does", "workers"), [*((does, "1") for does in WHY), ("raiser", "2"), ("interrupt", "2")])
def test_a_unit_that_fails_does_not_end_the_others(does: str, workers: str, here: Path) -> None:
    options = ("block=1", "--workers", workers, "--out", "run", "--events", "events")
    status, out, err = made(words(f"bad:does={does},age", *options))
    assert (status, out) == (1, ""), err
    first, last = err.splitlines()
    assert mentions(first, "unit 0000_bad-does-")
    assert mentions(last, "5 of 10", "0000_bad-does-")
    assert mentions(last, *WHY[does])
    assert mentions(last, resumes(here))
    assert len(finished_units(here / "run")) == 5
    events = [json.loads(line) for line in (here / "events").read_text().splitlines()]
    assert len([e for e in events if e["event"] == "unit-abandoned"]) == 5


def test_resume_tries_a_unit_that_failed_again(here: Path) -> None:
    assert made(words("age,bad:does=raiser", "--workers", "1", "--out", "run"))[0] == 1
    (here / "repaired").touch()
    status, out, err = made(command("resume", "run", "--import", "bad.py"))
    assert (status, err) == (0, "")
    assert "bad" in out


def test_the_only_unit_says_its_reason_once(here: Path) -> None:
    status, _, err = made(words("bad:does=raiser", "--workers", "1", "--out", "run"))
    assert status == 1
    assert mentions(err, "1 of 1", "0000_bad-does-raiser_0-4", here / "bad.py", "line 15", resumes(here))
    assert err.count("no. good") == err.count("\n") == 1


@pytest.mark.parametrize("does", ["raiser", "interrupt", "leaver"])
def test_without_a_folder_it_is_one_sentence(does: str, here: Path) -> None:
    status, out, err = made(words(f"bad:does={does},age", verb="compare"))
    assert (status, out) == (1, "")
    assert mentions(err, "0000_bad-does-")
    assert mentions(err, *WHY[does])
    assert err.count("\n") == 1


def test_from_python_the_error_has_its_cause(here: Path) -> None:
    with forgotten(), refused("1 of 2") as error:
        fw.run(
            {"schedulers": ["bad:does=raiser", "age"], "rounds": 4, "instances": 2, "imports": [str(here / "bad.py")]},
            here / "run",
            workers=1,
        )
    assert error.value.__cause__ is not None
    assert isinstance(error.value.__cause__.__cause__, ValueError)


def stopped(given: list[str], numbers: list[signal.Signals]) -> tuple[int, str]:
    """The signals are sent when the scheduler has begun to catch everything."""
    with started(given) as run:
        try:
            until = time.monotonic() + 60
            while not Path("begun").exists():
                assert run.poll() is None, run.communicate()
                assert time.monotonic() < until
                time.sleep(0.05)
            for number in numbers:
                run.send_signal(number)
                time.sleep(0.5)  # two at once would be one
            _, errors = run.communicate(timeout=30)
        finally:
            run.kill()
    return run.returncode, errors


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_second_signal_ends_a_scheduler_that_catches_everything(
    number: signal.Signals, status: int, here: Path
) -> None:
    given = words("age,bad:does=swallow", "--workers", "1", "--out", "run")
    ended, errors = stopped(given, [number, number])
    assert ended == status
    assert mentions(errors, resumes(here))
    assert len(finished_units(here / "run")) == 1
    if number is signal.SIGTERM:  # what is kept does not depend on the signal
        (here / "repaired").touch()
        assert made(command("resume", "run", "--import", "bad.py"))[0] == 0


def test_without_a_folder_too(here: Path) -> None:
    given = words("bad:does=swallow", verb="compare")
    ended, errors = stopped(given, [signal.SIGINT, signal.SIGINT])
    assert ended == 130
    assert mentions(errors, "nothing")


def test_a_time_out_that_is_caught_again_and_again_ends_the_command(here: Path) -> None:
    options = ("--workers", "1", "--timeout", "500", "--out", "run")
    status, out, err = made(words("age,bad:does=ring", *options))
    assert (status, out) == (1, "")
    why, last = err.splitlines()
    assert mentions(why, "bad:does=ring", "500 s")
    assert mentions(why, "--workers 2")
    assert mentions(last, resumes(here))
    assert len(finished_units(here / "run")) == 1
