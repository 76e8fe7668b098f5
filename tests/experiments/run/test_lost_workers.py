"""Workers and schedulers that never come back: the unit is named, the others go on, resume finishes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from killing import command, results
from refusals import mentions, refused
from user_file import forgotten

import fedwave as fw
from fedwave.errors import WorkFailed
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.config.units import Unit, cut_into_units, resolve
from fedwave.experiments.run import pool
from fedwave.experiments.run.pool import Message
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.run.signals import NoRound, StopRequest
from fedwave.experiments.run.work import run_unit

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
# What a scheduler does while the file "trouble" is there: outside of the run folder, so that resume can be without it.
TROUBLE = {
    "computes for ever": "while True: pass",
    "sleeps for ever": "time.sleep(1e9)",
    "catches everything": """
            while True:
                try:
                    time.sleep(1e9)
                except Exception:
                    pass""",
    "runs out of memory": "raise MemoryError('17 PiB')",
    "is killed": "os.kill(os.getpid(), 9) if multiprocessing.parent_process() else None",
}
MINE = """
import multiprocessing, os, time
from pathlib import Path
import fedwave as fw

@fw.register
class Troubled(fw.Scheduler):
    name, needs = "troubled", {{"backlog"}}

    def priority(self, state, seen, draws):
        if Path({trouble!r}).exists() and seen.round == 3:
            Path({trouble!r}).with_name("begun").touch()
            {what}
        return seen.waiting
"""


def write(folder: Path, what: str) -> Path:
    """The user's file, and the file that makes the trouble."""
    trouble = folder / "trouble"
    (folder / "mine.py").write_text(MINE.format(trouble=str(trouble), what=TROUBLE[what]))
    trouble.touch()
    return trouble


def fedwave(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def run(folder: Path, out: str, *words: str) -> subprocess.CompletedProcess[str]:
    given = f"run paper --import mine.py -s age,troubled,max-weight -r 5 -i 4 block=2 --out {out} --events {out}.events"
    return fedwave(folder, *given.split(), *words)


def events(folder: Path, out: str = "run") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{out}.events").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("what", ["computes for ever", "sleeps for ever", "catches everything"])
def test_a_scheduler_that_never_returns(what: str, workers: str, tmp_path: Path) -> None:
    trouble = write(tmp_path, what)
    made = run(tmp_path, "run", "--workers", workers, "--timeout", "5")
    assert made.returncode == 1, made.stderr
    assert made.stdout == ""
    assert "Traceback" not in made.stderr
    last = made.stderr.splitlines()[-1]
    names = "0000_troubled_0-1, 0000_troubled_2-3"
    assert mentions(last, "2 of 6", names)
    assert mentions(last, "troubled", "5 s", "--timeout")
    go_on = f"fedwave resume run --import {tmp_path / 'mine.py'}"
    assert mentions(last, f"`{go_on}`")
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert not left & {"table.md", "summary.csv", "results.nc", "figures"}, "it looks complete"
    trouble.unlink()
    again = fedwave(tmp_path, *go_on.split()[1:], "--workers", "2")
    assert again.returncode == 0, again.stderr
    assert run(tmp_path, "whole", "--workers", "1").returncode == 0
    assert results(tmp_path / "run") == results(tmp_path / "whole")


@pytest.mark.parametrize("what", [pytest.param("runs out of memory", marks=pytest.mark.slow), "is killed"])
def test_a_unit_that_was_killed_for_memory_is_begun_once_more_alone(what: str, tmp_path: Path) -> None:
    trouble = write(tmp_path, what)
    made = run(tmp_path, "run", "--workers", "2")
    assert (made.returncode, made.stdout) == (1, ""), made.stderr
    assert "Traceback" not in made.stderr
    assert mentions(made.stderr, "2 of 6")
    assert mentions(made.stderr, "memory", "block")
    at_work: set[str] = set()
    begun: list[tuple[str, int]] = []  # the unit, and how many were at work beside it
    for event in events(tmp_path):
        if event["event"] == "unit-begun":
            begun.append((event["unit"], len(at_work)))
            at_work.add(event["unit"])
        elif event["event"] in ("unit-finished", "unit-crashed", "unit-abandoned"):
            at_work.discard(event["unit"])
    for unit in ("0000_troubled_0-1", "0000_troubled_2-3"):
        beside = [others for name, others in begun if name == unit]
        assert len(beside) == 2, "once, and once more"
        assert beside[1] == 0, "alone"
    assert {name for name, _ in begun[-2:]} == {"0000_troubled_0-1", "0000_troubled_2-3"}
    trouble.unlink()
    assert fedwave(tmp_path, "resume", "run", "--import", "mine.py").returncode == 0


def test_without_memory_in_this_process_the_others_go_on(tmp_path: Path) -> None:
    write(tmp_path, "runs out of memory")
    made = run(tmp_path, "run", "--workers", "1")
    assert (made.returncode, made.stdout) == (1, ""), made.stderr
    assert mentions(made.stderr, "17 PiB", "block")
    assert mentions(made.stderr, "4")


def test_without_a_folder_nothing_else_is_done(tmp_path: Path) -> None:
    write(tmp_path, "sleeps for ever")
    content = {"schedulers": ["troubled", "age"], "rounds": 5, "instances": 2}
    with forgotten(), refused("0000_troubled_0-1", "1 s", "--timeout", error=WorkFailed):
        run_experiment(experiment_from(content, (), [str(tmp_path / "mine.py")]), timeout=1.0)


@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "1e-9"])
def test_a_time_out_is_a_number_of_seconds(timeout: str, tmp_path: Path) -> None:
    made = fedwave(tmp_path, "run", "paper", "--timeout", timeout)
    assert made.returncode == 2
    assert mentions(made.stderr, "timeout", float(timeout), 0.1)
    with refused("timeout", "'5'"):
        fw.run("paper", tmp_path / "run", timeout="5")  # type: ignore[arg-type]


def some_units(**changes: Any) -> list[Unit]:
    small = {"schedulers": ["age", "fresh"], "rounds": 3000, "instances": 2, "block": 1}
    return cut_into_units(resolve(experiment_from(small | changes)))


class Silent(pool.Worker):
    """Begins with its unit and sends nothing more."""

    def messages(self) -> list[tuple[str, Any]]:
        return [("rounds", 0)] if self.unit is not None and self.since is None else []

    def watched(self) -> list[Any]:
        return []

    def ask_to_stop(self) -> None:
        pass

    def end(self) -> None:
        pass


def test_a_machine_that_sleeps_makes_nobody_late(monkeypatch: pytest.MonkeyPatch) -> None:
    now, steps = 100.0, iter([0.5, 9000.0, *[1.0] * 9])

    def wait(watched: list[Any]) -> None:
        nonlocal now
        now += next(steps)

    monkeypatch.setattr(pool.time, "monotonic", lambda: now)
    messages: list[Message] = []
    unit = some_units()[:1]
    silent = pool.Pool(pool.Job(unit, messages.append, timeout=9.5), Silent, wait)
    assert list(silent.results()) == []
    assert [m.kind for m in messages] == ["begun", "rounds", "abandoned"]
    assert list(steps) == [], "it was abandoned too early"


def test_simulating_before_training_counts_as_work() -> None:
    """A long simulation, in which no trained round can be finished."""
    (unit,) = some_units(
        schedulers=["age"],
        rounds=4,
        instances=1,
        network={"kind": "random", "devices": 4, "slots": 2},
        task={"dataset": "synthetic", "model": "logistic", "epochs": 1, "shard_size": 5},
        training={"loss_images": 50, "test_images": 50},
    )
    counts: list[int] = []
    run_unit(unit, None, counts.append, pytest.fail)
    assert counts[:4] == [0, 0, 0, 0]
    assert sum(counts) == 4


def test_an_alarm_of_the_program_is_left_alone() -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    try:
        with StopRequest().at_work_here(0.2, "late"):
            time.sleep(0.5)
            signal.raise_signal(signal.SIGALRM)
        assert rung == [signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(NoRound), StopRequest().at_work_here(0.2, "late"):
        time.sleep(30)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
