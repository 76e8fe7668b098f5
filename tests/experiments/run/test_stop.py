"""Ctrl-C, SIGTERM, SIGHUP: a checkpoint, no traceback, the line that resumes; then the same results bit for bit."""

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

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
# Hours between checkpoints: only the signal can have written one.
SELDOM = {"checkpoint_seconds": 10_000.0}
KINDS = {
    "training": replace(TRAINING, instances=1, rounds=250, **SELDOM),
    "simulation": replace(SIMULATION, sweep={}, instances=30, rounds=120, **SELDOM),
}
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


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


TWO = ("--workers", "2")
NO_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "how", "number"),
    [
        ("simulation", TWO, signal.SIGTERM),
        ("simulation", ("--workers", "1"), signal.SIGHUP),  # a closed terminal
        pytest.param("training", TWO, signal.SIGINT, marks=SLOW),
        pytest.param("training", ("--workers", "1"), signal.SIGTERM, marks=SLOW),
        pytest.param("training", ("--ray", *TWO), signal.SIGINT, marks=[SLOW, NO_RAY]),
    ],
)
def test_a_signal_is_answered_by_checkpoints_and_the_line_that_resumes(
    kind: str, how: tuple[str, ...], number: signal.Signals, undisturbed: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    folder, events = tmp_path / "a run", tmp_path / "events"
    begin(KINDS[kind], folder)
    run = started(command("resume", str(folder), *how, "--events", str(events)))
    wait_for(some_rounds(events), run)
    helpers = children(run.pid)
    os.killpg(run.pid, number)  # to the workers too, as the terminal and many job systems do
    out, errors = run.communicate(timeout=120)
    assert run.returncode == STATUS[number], errors
    assert out == ""
    assert "Traceback" not in errors
    *_, last = errors.splitlines()
    assert mentions(last, f"`fedwave resume '{folder}'`")
    if "--ray" not in how:  # a node of Ray takes its time
        wait_until_gone(helpers)
    assert list(folder.glob("checkpoints/*.npz")), "no unit has written a checkpoint"
    finish(folder)
    assert results(folder) == undisturbed[kind]
    assert leftovers(folder) == []


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
    time.sleep(2)  # they are at work, and not finished on a fast machine either
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
