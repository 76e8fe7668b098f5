"""Ctrl-C and SIGTERM: a checkpoint, no traceback, the line that resumes; then the same results bit for bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from killing import (
    SIMULATION,
    TRAINING,
    Undisturbed,
    begin,
    children,
    command,
    finish,
    leftovers,
    results,
    started,
    wait_until_gone,
)
from refusals import mentions

from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.units import resolved, units_of
from fedwave.experiments.run.checkpoints import SendingCheckpointer
from fedwave.experiments.run.signals import Stopped
from fedwave.experiments.run.work import run_unit

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
# Hours between checkpoints: only the signal can have written one.
SELDOM = {"checkpoint_seconds": 10_000.0}
KINDS = {
    "training": replace(TRAINING, instances=1, rounds=250, **SELDOM),
    "simulation": replace(SIMULATION, sweep={}, instances=30, rounds=120, **SELDOM),
}
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}


def wait_for(happened: Callable[[], bool], run: subprocess.Popen[str]) -> None:
    while not happened():
        assert run.poll() is None, run.communicate()
        time.sleep(0.02)


def some_rounds(events: Path) -> Callable[[], bool]:
    """Has any unit at work played a round?"""

    def happened() -> bool:
        lines = events.read_text().splitlines() if events.exists() else []
        return any(e["event"] == "progress" and e["rounds"] > 0 for e in map(json.loads, lines))

    return happened


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    return Undisturbed(KINDS, tmp_path_factory.mktemp("undisturbed"))


SLOW = [("training", 2, signal.SIGINT), ("training", 1, signal.SIGTERM), ("simulation", 1, signal.SIGINT)]


@pytest.mark.parametrize(
    ("kind", "workers", "number"),
    [("simulation", 2, signal.SIGTERM), *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW)],
)
def test_a_signal_is_answered_by_checkpoints_and_the_line_that_resumes(
    kind: str, workers: int, number: signal.Signals, undisturbed: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    folder, events = tmp_path / "a run", tmp_path / "events"
    begin(KINDS[kind], folder)
    run = started(command("resume", str(folder), "--workers", str(workers), "--events", str(events)))
    wait_for(some_rounds(events), run)
    helpers = children(run.pid)
    os.killpg(run.pid, number)  # to the workers too, as the terminal and many job systems do
    out, errors = run.communicate(timeout=120)
    assert run.returncode == STATUS[number], errors
    assert out == ""
    assert "Traceback" not in errors
    *_, last = errors.splitlines()
    assert mentions(last, f"`fedwave resume '{folder}'`")
    wait_until_gone(helpers)
    assert list(folder.glob("checkpoints/*.npz")), "no unit has written a checkpoint"
    finish(folder)
    assert results(folder) == undisturbed[kind]
    assert leftovers(folder) == []


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
def test_units_on_ray_stop_with_checkpoints_too(undisturbed: dict[str, dict[str, str]], tmp_path: Path) -> None:
    folder, events = tmp_path / "run", tmp_path / "events"
    begin(KINDS["training"], folder)
    on_ray = ("--ray", "--workers", "2")
    run = started(command("resume", str(folder), *on_ray, "--events", str(events)))
    wait_for(some_rounds(events), run)
    os.killpg(run.pid, signal.SIGINT)
    _, errors = run.communicate(timeout=120)
    assert run.returncode == 130, errors
    assert "Traceback" not in errors
    assert mentions(errors.splitlines()[-1], f"`fedwave resume {folder}`")
    assert list(folder.glob("checkpoints/*.npz"))
    finish(folder)
    assert results(folder) == undisturbed["training"]


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    """The first one waits for the end of a round, which here does not come."""
    folder = tmp_path / "run"
    (tmp_path / "mine.py").write_text(ENDLESS)
    words = "run paper --import mine.py -s endless -r 3 -i 2 --workers 2 network.slots=1 block=1 --out"
    run = started(command(*words.split(), str(folder)), cwd=tmp_path)
    wait_for((tmp_path / "begun").exists, run)
    helpers = children(run.pid)
    run.send_signal(signal.SIGINT)
    assert run.stderr is not None
    for _ in range(2):  # the bar, and that a second one stops at once
        assert run.stderr.readline()
    assert run.poll() is None
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130
    go_on = f"fedwave resume {folder} --import {tmp_path / 'mine.py'}"
    assert mentions(errors, f"`{go_on}`")
    wait_until_gone(helpers)


ENDLESS = """
import time
from pathlib import Path
import fedwave as fw

@fw.register
class Endless(fw.Scheduler):
    name, needs = "endless", {"backlog"}

    def priority(self, state, seen, draws):
        Path("begun").touch()
        time.sleep(1000)
"""


def test_without_a_folder_nothing_is_kept_and_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ENDLESS)
    run = started(command("compare", "paper", "--import", "mine.py", "-s", "endless"), cwd=tmp_path)
    wait_for((tmp_path / "begun").exists, run)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130
    assert mentions(errors, "nothing")


SCRIPT = """
import sys
import fedwave as fw

if __name__ == "__main__":
    try:
        fw.run(sys.argv[1], sys.argv[2], workers=2)
    except KeyboardInterrupt:
        print("interrupted")
        input()
"""


@pytest.mark.slow
def test_from_python_it_is_keyboard_interrupt_and_no_worker_is_left(
    undisturbed: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    begin(KINDS["training"], folder)
    (tmp_path / "script.py").write_text(SCRIPT)
    config = str(folder / "config.yaml")
    run = started([sys.executable, "script.py", config, str(folder)], cwd=tmp_path, stdin=subprocess.PIPE)
    wait_for(lambda: len(children(run.pid)) > 2, run)  # two workers and multiprocessing's own
    time.sleep(5)
    run.send_signal(signal.SIGINT)
    assert run.stdout is not None
    assert run.stdout.readline() == "interrupted\n"
    workers = [c for c in children(run.pid) if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]
    assert workers == [], "the script goes on, its workers do not"
    _, errors = run.communicate("\n", timeout=60)
    assert run.returncode == 0
    assert "Traceback" not in errors
    finish(folder)
    assert results(folder) == undisturbed["training"]


def test_a_slow_scheduler_writes_checkpoints_in_time(tmp_path: Path) -> None:
    """Few devices, so a piece by their number would be the whole run."""
    unit = slow_unit(tmp_path, rounds=12, seconds=0.5)
    sent: list[bytes] = []
    run_unit(unit, SendingCheckpointer(None, sent.append, 1.0), lambda rounds: None, pytest.fail)
    assert len(sent) >= 3  # in six seconds or more


def slow_unit(folder: Path, rounds: int, seconds: float):  # type: ignore[no-untyped-def]
    from fedwave.experiments.config.read import experiment_from

    file = folder / "slow.py"
    file.write_text(
        "import time\nimport fedwave as fw\n\n@fw.register\nclass Slow(fw.Scheduler):\n"
        "    name, needs = 'slow-test', {'backlog'}\n\n    def priority(self, state, seen, draws):\n"
        f"        time.sleep({seconds})\n        return seen.waiting\n"
    )
    experiment: Experiment = experiment_from(
        {"schedulers": ["slow-test"], "rounds": rounds, "instances": 1}, imports=[str(file)]
    )
    (unit,) = units_of(resolved(experiment))
    return unit


def test_the_newest_checkpoint_is_never_older_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of 25 seconds, a minute between checkpoints: one after 50 seconds, not after 75."""
    from fedwave.experiments.run import checkpoints

    clock = 0.0
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: clock)
    checkpointer, saved = checkpoints.Checkpointer(60.0), []
    monkeypatch.setattr(checkpointer, "save", lambda write: saved.append(clock))
    for clock in range(25, 201, 25):  # noqa: B007, the clock is read above
        checkpointer.between_rounds(lambda file: None)
    assert saved == [50, 100, 150, 200]


@pytest.mark.parametrize(("seconds", "expected"), [(60.0, [59, 553]), (0.0, [1 + 46 * k for k in range(22)])])
def test_checkpoints_that_take_long_to_write_are_few(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: list[int]
) -> None:
    """Rounds of a second, 45 seconds to write: less than a tenth of the time is spent so, unless all are asked for."""
    from fedwave.experiments.run import checkpoints

    clock = 0.0
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: clock)
    checkpointer, saved = checkpoints.Checkpointer(seconds), []

    def save(write: object) -> None:
        nonlocal clock
        saved.append(clock)
        clock += 45

    monkeypatch.setattr(checkpointer, "save", save)
    while clock < 1000:
        clock += 1
        checkpointer.between_rounds(lambda file: None)
    assert saved == expected


def test_a_unit_that_is_asked_to_stop_saves_and_stops(tmp_path: Path) -> None:
    unit, sent = units_of(resolved(KINDS["training"]))[0], []
    played: list[int] = []
    checkpointer = SendingCheckpointer(None, sent.append, 1e9, lambda: sum(played) >= 5)
    with pytest.raises(Stopped):
        run_unit(unit, checkpointer, played.append, pytest.fail)
    assert sum(played) == 5
    again: list[int] = []
    run_unit(unit, SendingCheckpointer(sent[0], sent.append, 1e9), again.append, pytest.fail)
    assert next(filter(None, again)) == 5  # zeros while it is simulated
