"""However the work is spread, stopped and gone on with, the results are the same."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from killing import TRAINING, children, command_of
from refusals import mentions, refused
from time_limit import time_limit

import fedwave as fw
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.parts import Part
from fedwave.experiments.config.read import experiment_from, load_experiment
from fedwave.experiments.config.units import cut_into_units, resolve
from fedwave.experiments.run import process
from fedwave.experiments.run.pool import Job, Message, run_here
from fedwave.experiments.run.process import run_in_pool
from fedwave.experiments.run.runner import Event, run_experiment
from fedwave.experiments.store.dataset import Results, unit_dataset
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.load import results_of

SIMULATION = experiment_from(
    {
        "network": {"kind": "random", "devices": 6, "slots": 2},
        "schedulers": ["alsa-pi", "balsa", "random"],
        "rounds": 12,
        "instances": 5,
        "block": 2,
        "sweep": {"network.slots": [1, 3], "network.set.rate": [0.5, 2.0]},
    }
)
SMALL = replace(TRAINING, rounds=4, instances=2)


def same(a: Results, b: Results) -> bool:
    return [p.where for p in a.points] == [p.where for p in b.points] and all(
        p.data.identical(q.data) for p, q in zip(a.points, b.points, strict=True)
    )


@pytest.fixture(scope="module")
def alone() -> dict[str, Results]:
    kinds = {"simulation": SIMULATION, "training": SMALL}
    return {kind: run_experiment(experiment, workers=1) for kind, experiment in kinds.items()}


@pytest.mark.parametrize("workers", [1, 2, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("kind", "experiment"), [("simulation", SIMULATION), ("training", SMALL)])
def test_the_number_of_workers_changes_nothing(
    kind: str, experiment: Experiment, workers: int, alone: dict[str, Results], tmp_path: Path
) -> None:
    results = run_experiment(experiment, tmp_path / "run", workers=workers)
    assert same(results, alone[kind])
    assert same(results_of(RunFolder(tmp_path / "run")), alone[kind])


def test_it_is_what_simulate_gives(alone: dict[str, Results]) -> None:
    for point in alone["simulation"].points:
        network = fw.random_network(6, point.where["network.slots"], rate=point.where["network.set.rate"])
        assert point.data.instance.values.tolist() == [0, 1, 2, 3, 4]
        for label in point.experiment.labels:
            trace = fw.simulate(network, label, rounds=12, instances=5, seed=0)
            expected = unit_dataset({str(label): trace})
            found = point.data.sel(scheduler=[label])  # the attributes name all schedulers
            assert found.drop_attrs(deep=False).identical(expected.drop_attrs(deep=False))


def test_the_stored_configuration_runs_to_the_same_results(alone: dict[str, Results], tmp_path: Path) -> None:
    run_experiment(SMALL, tmp_path / "first", workers=1)
    again = load_experiment(tmp_path / "first" / "config.yaml")
    assert same(run_experiment(again, tmp_path / "second", workers=1), alone["training"])
    one, other = ((tmp_path / name / "config.yaml").read_bytes() for name in ("first", "second"))
    assert one == other


class Stop(Exception):
    pass


def test_finished_units_are_kept_and_not_done_again(alone: dict[str, Results], tmp_path: Path) -> None:
    begun: list[str] = []

    def first_two(job: Job) -> Iterator[Any]:
        for number, finished in enumerate(run_here(job)):
            yield finished
            if number == 1:
                raise Stop

    with pytest.raises(Stop):
        run_experiment(SMALL, tmp_path, engine=first_two)
    with refused("2 of 4", "`fedwave resume"):
        results_of(RunFolder(tmp_path))
    events: list[Event] = []
    assert same(run_experiment(SMALL, tmp_path, workers=1, watch=events.append), alone["training"])
    begun = [event["unit"] for event in events if event["event"] == "unit-begun"]
    assert begun == [unit.name for unit in cut_into_units(resolve(SMALL))[2:]]
    assert events[-1]["finished"] == events[-1]["units"] == 4
    assert events[-1]["rounds"] == events[-1]["of"] == SMALL.rounds * 2 * 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
@pytest.mark.parametrize(("number", "why"), [(signal.SIGKILL, "signal 9"), (signal.SIGSTOP, "it was stopped for 2 s")])
def test_a_worker_that_is_killed_or_stopped_is_replaced(
    number: signal.Signals, why: str, alone: dict[str, Results], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOPPED_SECONDS", 2.0)
    lost: list[int] = []
    events: list[Event] = []

    def watch(event: Event) -> None:
        events.append(event)
        if event["event"] == "progress" and not lost:
            lost.append(next(c for c in children(os.getpid()) if b"spawn_main" in command_of(c)))
            os.kill(lost[0], number)

    with time_limit(100):
        assert same(run_experiment(SMALL, tmp_path, workers=2, watch=watch), alone["training"])
    assert [event["message"] for event in events if event["event"] == "unit-crashed"] == [why]
    assert not Path(f"/proc/{lost[0]}").exists()


def test_a_refusal_in_a_worker_is_one_sentence(tmp_path: Path) -> None:
    assert SMALL.task is not None
    wrong = replace(SMALL, task=replace(SMALL.task, model=Part("logistic", inputs=5)))
    for workers in (1, 2):
        with refused("model", "inputs"):
            run_experiment(wrong, workers=workers)


def test_a_unit_that_kills_every_worker_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "serve", _die)
    units = cut_into_units(resolve(SIMULATION))[:1]
    messages: list[Message] = []
    assert list(run_in_pool(Job(units, messages.append), workers=1)) == []
    assert [message.kind for message in messages].count("crashed") == 2
    assert messages[-1].kind == "abandoned"
    assert mentions(messages[-1].content, 3, "exit status 3")


def _die(parent: Any) -> None:
    os._exit(3)


def test_every_unit_says_where_and_with_what_it_was_run(tmp_path: Path) -> None:
    run_experiment(replace(SIMULATION, sweep={}, instances=2), tmp_path, workers=1)
    header, *lines = map(json.loads, (tmp_path / "done.jsonl").read_text().splitlines())
    assert len(header["run"]) == 64
    for line in lines:
        assert {"unit", "sha256", "seconds", "finished", "host", "processor", "commit"} <= line.keys()
        assert line["versions"]["numpy"]
