"""Memory is estimated before it is taken: honestly, and what does not fit is refused in one sentence."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import mentions, refused

import fedwave as fw
from fedwave import memory
from fedwave.cli import app, output
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.run import memory_needs
from fedwave.experiments.run.runner import run_experiment
from fedwave.learning.datasets.synthetic import synthetic
from fedwave.schedulers.posterior import GridPosterior, zero_inflated_sum
from fedwave.simulation import extend

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
MUCH = 10**12

# Each prints what it has taken at its most and what was estimated, in bytes.
MEASURED = """
import sys
import numpy as np
import fedwave as fw
from pathlib import Path
from fedwave.planning import backlog_objective

def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))

told = []
def listen(what, need, lower):
    told.append(need)
for name in ("network.network", "planning.backlog_objective"):
    sys.modules[f"fedwave.{name}"].check_memory = listen
def listen_to_last(what, need, lower):
    told[:] = [need]  # the first is without beliefs
sys.modules["fedwave.simulation"].check_memory = listen_to_last

def measure(do, *first):
    for one in first:
        one()  # imports
    told.clear()
    before = most()
    kept = do()
    print(most() - before, sum(told))

small = fw.random_network(10, 2)
def simulated(rounds, instances, devices, record, scheduler="age", **more):
    net = fw.random_network(devices)
    measure(lambda: fw.simulate(net, scheduler, rounds, instances, record=record, **more),
            lambda: fw.simulate(small, scheduler, 5, 2, record=record, **more))
"""
REPORTED = """
from tempfile import TemporaryDirectory
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.report.outputs import write_results
from fedwave.experiments.run import memory_needs
from fedwave.experiments.run.runner import running
of_results = []
def listen_to_results(what, need, lower):
    if what.startswith("keeping the results"):  # the units need theirs before, and give it back
        of_results[:] = [need]
memory_needs.check_memory = listen_to_results

def reported(instances, rounds, block, **more):
    made = experiment_from(
        {"network": {"kind": "random", "devices": 10}, "schedulers": ["max-weight", "round-robin"], "rounds": rounds,
         "instances": instances, "block": block, **more}
    )
    with TemporaryDirectory() as folder, running(made, Path(folder) / "run", workers=1) as results:
        write_results(results, Path(folder) / "run")
    told[:] = of_results
"""
TRAINED = """
import torch
from torch import nn
from fedwave.learning import footprint
footprint.check_memory = listen
torch.set_num_threads(1)

def big():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 2500), nn.ReLU(), nn.Linear(2500, 10))
"""
SLOW = ("results", "many rounds")  # beginnings of names
CASES = {
    "blocks of rounds": "simulated(64, 600, 100, 'summary')",
    "a whole record": "simulated(300, 20, 500, 'full')",
    "many rounds": "simulated(40_000, 30, 5, 'summary')",
    "many instances": "simulated(5, 8_000, 5, 'summary', 'balsa')",
    "many devices": "simulated(5, 1, 1_000_000, 'summary')",
    "a network": "measure(lambda: fw.random_network(2_000_000), lambda: small)",
    "planning": (
        "measure(lambda: backlog_objective.arrivals_at_most(small.arrivals.chances, np.array([2e6]), 1e-8),"
        " lambda: backlog_objective.arrivals_at_most(small.arrivals.chances, np.array([2.0]), 1e-8))"
    ),
    "beliefs": "simulated(300, 200, 50, 'summary', 'balsa', beliefs=True)",
    "results": REPORTED + "measure(lambda: reported(1000, 400, 200), lambda: reported(60, 5, 50))",
    "results of a sweep": REPORTED
    + (
        "sweep = {'network.slots': [1, 2]}\n"
        "measure(lambda: reported(500, 400, 250, sweep=sweep), lambda: reported(60, 5, 50, sweep=sweep))"
    ),
    "models": TRAINED
    + (
        "trace = fw.simulate(small, 'age', 3, 2)\n"
        "task = fw.task('synthetic', model=big, shard_size=2, batch=20, epochs=1)\n"
        "sizes = fw.EvaluationSizes(20, 20)\n"
        "tiny = fw.task('synthetic', model='logistic', shard_size=2, epochs=1)\n"
        "measure(lambda: fw.train(trace, task, sizes=sizes, tolerance=0),"
        " lambda: fw.train(trace, tiny, sizes=sizes, tolerance=0))"
    ),
    "samples": TRAINED
    + (
        "from fedwave.learning.sampling import device_batches\n"
        "told_now = footprint.sample_bytes(100_000, 60)\n"
        "def do():\n    told.append(told_now)\n    return device_batches(np.arange(100_000), 10, 60, 0, 0, 1, 0)\n"
        "measure(do)"
    ),
}


@linux
@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) if c.startswith(SLOW) else c for c in CASES])
def test_estimates_are_honest(case: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", MEASURED + CASES[case]], capture_output=True, text=True, timeout=200, check=False
    )
    assert found.returncode == 0, found.stderr
    measured, estimated = map(float, found.stdout.split())
    assert measured > 50e6, "too small to tell"
    assert 0.7 <= estimated / measured <= 3, f"{measured / 2**20:.0f} MiB measured"


def a_shard(size: int, epochs: int = 1) -> Any:
    task = fw.task("synthetic", model="logistic", shard_size=size, batch=1000, epochs=epochs)
    return fw.train(fw.simulate(fw.random_network(5, 2), "age", 3, 1), task)


NET = fw.paper_network()
ABSURD: dict[str, Callable[[], Any]] = {
    "rounds": lambda: fw.simulate(NET, "age", MUCH, 2, record="summary"),
    "rounds, whole": lambda: fw.simulate(NET, "age", 10**8, 2),
    "instances": lambda: fw.simulate(NET, "age", 5, MUCH),
    "extend": lambda: extend(fw.simulate(NET, "age", 5, 2), MUCH),
    "beliefs": lambda: fw.simulate(NET, "balsa", 2 * 10**6, 10, record="summary", beliefs=True),
    "compare": lambda: fw.compare(NET, ["age", "fresh"], MUCH, 2),
    "devices": lambda: fw.random_network(MUCH),
    "beliefs, extended": lambda: extend(fw.simulate(NET, "balsa", 5, 10, record="summary", beliefs=True), 2 * 10**6),
    "rate, whittle": lambda: fw.simulate(NET.replace(rate=1e9), "whittle", 3, 2),
    "rate, bound": lambda: fw.backlog_bound(NET.replace(rate=1e9)),
    "posterior": lambda: GridPosterior(points=10**9).start(NET.problem(50)),
    "long silence": lambda: zero_inflated_sum(3, 10**7, np.ones(4000), np.full(4000, 0.5)),
    "images": lambda: synthetic(MUCH, 10),
    "shard": lambda: a_shard(10**8),
    "epochs": lambda: a_shard(10, 10**8),
}


@pytest.mark.filterwarnings("ignore::fedwave.network.plausible.ImplausibleWarning")
@pytest.mark.parametrize("what", ABSURD)
def test_what_does_not_fit_is_refused_in_a_sentence(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 4.0 * 2**30)
    with refused("memory", "4 GiB"):
        ABSURD[what]()


WORDS = {
    "instances": ("run", "paper", "-i", str(MUCH), "-r", "5"),
    "block": ("run", "paper", "-i", "1000000", "block=1000000", "-r", "5", "-s", "age"),
    "rate": ("run", "paper", "network.rate=1e9", "-s", "whittle", "-r", "5", "-i", "2"),
    "shard": ("train", "--task", "synthetic", "task.shard_size=100000000", "-i", "1", "-r", "2"),
}


@linux
@pytest.mark.parametrize("what", WORDS)
def test_the_command_line_refuses_what_the_process_may_not_take(what: str, tmp_path: Path) -> None:
    """Under a limit of its own (ulimit -v), which is the smallest here."""
    limit = 8 << 30
    run = subprocess.run(
        [sys.executable, "-m", "fedwave", *WORDS[what]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        check=False,
    )
    # The tables of a scheduler are made during the run; all else is known before.
    assert (run.returncode, run.stdout) == (1 if what == "rate" else 2, "")
    assert re.search(r"memory.* [0-8](\.\d+)? GiB", run.stderr.splitlines()[-1]), run.stderr
    assert "Traceback" not in run.stderr


def test_what_no_estimate_foresees_is_a_sentence_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr(app, "app", fail)
    with pytest.raises(SystemExit) as end:
        app.main()
    assert end.value.code == 1
    assert mentions(capsys.readouterr().err, "memory", "7 TiB", "instances")


def test_memory_that_runs_out_between_units_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError("Unable to allocate 7 TiB")

    words = ["run", "paper", "-r", "3", "-i", "2", "-s", "age", "-o", str(tmp_path / "a run")]
    monkeypatch.setattr(sys, "argv", ["fedwave", *words])
    monkeypatch.setattr(output, "show", fail)
    with pytest.raises(SystemExit) as end:
        app.main()
    assert end.value.code == 1
    assert mentions(
        capsys.readouterr().err.splitlines()[-1], "memory", "7 TiB", f"`fedwave resume '{tmp_path}/a run'`", "--workers"
    )


def test_as_many_workers_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit takes about 300 MiB, a process 100 MiB more."""
    monkeypatch.setattr(memory_needs, "available", lambda: 950.0 * 2**20)
    made = experiment_from(
        {
            "schedulers": ["age"],
            "rounds": 2,
            "instances": 6,
            "block": 2,
            "network": {"kind": "random", "devices": 1_000_000},
        }
    )
    assert memory_needs.workers_that_fit([made], 8) == 2
    assert memory_needs.workers_that_fit([made], 1) == 1
    monkeypatch.setattr(memory_needs, "available", lambda: 100.0 * 2**20)
    with refused("2 instances", "1,000,000 devices"):
        memory_needs.workers_that_fit([made], 1)


def test_a_run_says_that_it_uses_fewer_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_needs, "available", lambda: 110.0 * 2**20)
    events: list[dict[str, Any]] = []
    small = experiment_from({"schedulers": ["age"], "rounds": 5, "instances": 2, "block": 1})
    run_experiment(small, workers=2, watch=events.append)
    notes = [event["message"] for event in events if event["event"] == "warning"]
    assert [mentions(note, "1 of 2", "memory") for note in notes] == [True]


@linux
def test_what_is_available(tmp_path: Path) -> None:
    machine = memory._machine_bytes("MemAvailable")
    assert 2**20 < machine < 2**60
    for name, limit, used, stat in (
        ("v2", "memory.max", "memory.current", "inactive_file"),
        ("v1", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        group = tmp_path / name
        group.mkdir()
        (group / limit).write_text("1000\n")
        (group / used).write_text("700\n")
        (group / "memory.stat").write_text(f"anon 600\n{stat} 100\n")
        assert memory._left_in(group, free=True) == 400
        (group / limit).write_text("max\n")
        assert memory._left_in(group, free=True) == float("inf")
    assert memory._left_in(tmp_path / "nowhere", free=True) == float("inf")
    assert 0 <= memory.available() <= machine * 1.5
