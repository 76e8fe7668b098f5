"""Runs that are killed at random moments, and what must remain of them."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import experiment_from, to_yaml
from fedwave.experiments.store.done import read_done

# Checkpoints all the time; two schedulers, one in lock step, three instances each: six units.
TRAINING = experiment_from(
    {
        "name": "killed",
        "network": {"kind": "random", "devices": 6, "slots": 2},
        "schedulers": ["balsa", "update-aware"],
        "task": {"dataset": "synthetic", "model": "logistic", "epochs": 2},
        "training": {"tolerance": 0, "loss_images": 200, "test_images": 200},
        "rounds": 25,
        "instances": 3,
        "checkpoint_seconds": 0,
        "metric": "accuracy",
    }
)
# A simulation whose units take many pieces.
SIMULATION = experiment_from(
    {
        "name": "killed",
        "network": {"kind": "random", "devices": 4000, "slots": 20},
        "schedulers": ["balsa", "max-weight"],
        "rounds": 60,
        "instances": 60,
        "block": 30,
        "checkpoint_seconds": 0,
        "sweep": {"network.slots": [10, 20]},
    }
)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "fedwave", *words]


def started(words: list[str], **more: Any) -> subprocess.Popen[str]:
    """A process group of its own, as a terminal makes them. Signals that a job in the background ignores reach it."""

    def usual_signals() -> None:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=usual_signals,
        **more,
    )


def begin(experiment: Experiment, folder: Path) -> None:
    """A run folder without any results: resuming it is running it."""
    from fedwave.experiments.config.units import resolve
    from fedwave.experiments.store.folder import RunFolder

    store = RunFolder(folder)
    with store.locked():
        store.begin(resolve(experiment))
    assert to_yaml(resolve(experiment)) == (folder / "config.yaml").read_text()


class Stop(Exception):
    pass


def half_finished(experiment: Experiment, folder: Path) -> None:
    """A run in this process that is stopped in the middle of its last unit; the others are finished."""
    from fedwave.experiments.run.pool import Job, run_here
    from fedwave.experiments.run.runner import run_experiment

    def engine(job: Job) -> Iterator[Any]:
        played = 0

        def stopping(message: Any) -> None:
            nonlocal played
            played += message.content if message.kind == "rounds" else 0
            if message.unit is job.units[-1] and played > job.units[0].rounds * (len(job.units) - 0.5):
                raise Stop
            job.report(message)

        yield from run_here(replace(job, report=stopping))

    with suppress(Stop):
        run_experiment(experiment, folder, engine=engine)


def resume(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("resume", str(folder), "--workers", "2", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(folder: Path, *words: str) -> str:
    """Resume until the end; returns its standard error."""
    run = resume(folder, *words)
    _, errors = run.communicate(timeout=300)
    assert run.returncode == 0, errors.decode()
    return errors.decode()


class Undisturbed(dict[str, dict[str, str]]):
    """What runs give that nobody stops, by kind; made when it is asked for."""

    def __init__(self, kinds: Mapping[str, Experiment], place: Path) -> None:
        super().__init__()
        self._kinds, self._place = kinds, place

    def __missing__(self, kind: str) -> dict[str, str]:
        folder = self._place / kind
        begin(self._kinds[kind], folder)
        finish(folder)
        self[kind] = results(folder)
        return self[kind]


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == pid:
            found.append(int(stat.parent.name))
    return found


def kill_at_random(folder: Path, luck: random.Random, whom: str) -> None:
    """Resume, and after a random time kill the runner or one of its workers with SIGKILL."""
    run = resume(folder)
    time.sleep(luck.uniform(0.3, 6.0))
    victim = run.pid
    if whom == "worker":
        workers = [c for c in children(run.pid) if b"spawn_main" in command_of(c)]
        victim = luck.choice(workers) if workers else run.pid
    with suppress(ProcessLookupError):  # it has ended already
        os.kill(victim, signal.SIGKILL)
    if victim == run.pid:
        orphans = children(run.pid)
        run.communicate()
        wait_until_gone(orphans)
    else:
        run.communicate(timeout=300)


def results(folder: Path) -> dict[str, str]:
    """Checksums of all files that do not depend on kills."""
    kept = [*folder.glob("rounds/*"), *folder.glob("devices/*")]
    kept += [folder / "results.nc", folder / "summary.csv"]
    sums = {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()) for p in kept}
    return {name: sum_.hexdigest() for name, sum_ in sorted(sums.items())}


def finished_units(folder: Path) -> dict[str, int]:
    """When each finished unit was written."""
    path = folder / "done.jsonl"
    done = set(read_done(folder).units) if path.exists() else set()
    tables = ((name, folder / "devices" / f"{name}.parquet") for name in done)
    return {name: table.stat().st_mtime_ns for name, table in tables}


def leftovers(folder: Path) -> list[str]:
    """Half-written files and checkpoints that should have been removed."""
    left = [*folder.rglob(".*.part"), *folder.glob("checkpoints/*")]
    return [path.name for path in left]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def wait_until_gone(pids: list[int]) -> None:
    """Workers must exit within seconds after their runner, or they would disturb the next one."""
    until = time.monotonic() + 10
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < until, "workers outlive their runner"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"
