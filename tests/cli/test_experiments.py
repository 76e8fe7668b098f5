"""`fedwave run` and `resume`: runs that are kept, followed and drawn again."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from refusals import mentions

import fedwave as fw
from fedwave.cli import main
from fedwave.experiments.config.read import load_experiment
from fedwave.experiments.run import pool

SWEPT = ("sweep.network.slots=[2,3]", "sweep.network.gamma=[0,0.5]")
SWEEP = ("run", "random", "network.devices=6", *SWEPT, "-s", "alsa-pi,age", "-r", 10, "-i", 3)
UNITS = {f"000{point}_{name}_0-2" for point in range(4) for name in ("alsa-pi", "age")}
AXES = ("backlog-network-slots", "backlog-network-gamma")
FIGURES = {f"{axis}-{k}.{kind}" for axis in AXES for k in (1, 2) for kind in ("png", "svg")}
FILES = FIGURES | {"summary.json", "table.md", "table.tex", "summary.csv", "results.nc"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep; not to be changed."""
    folder = tmp_path_factory.mktemp("sweep") / "new"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fedwave", *map(str, SWEEP), "-o", str(folder)])
        with pytest.raises(SystemExit) as stopped:
            main()
    assert not stopped.value.code
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def _no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever plays a round fails."""
    monkeypatch.setattr(pool, "run_unit", None)


def contents(folder: Path) -> dict[str, bytes]:
    """Every result."""
    return {str(p): p.read_bytes() for part in ("rounds", "devices") for p in (folder / part).iterdir()}


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_folder_of_a_sweep_is_complete(finished: Path) -> None:
    kept = {"config.yaml", "run.json", "done.jsonl", "SHA256SUMS"}
    assert FILES | kept <= {path.name for path in finished.iterdir()}
    for part in ("rounds", "devices"):
        assert {path.stem for path in (finished / part).iterdir()} == UNITS
    for name in FIGURES:
        begin = (finished / name).read_bytes()[:200]
        assert begin.startswith(b"\x89PNG") if name.endswith("png") else b"<?xml" in begin
    asked = load_experiment(finished / "config.yaml")
    assert asked.sweep == {"network.slots": (2, 3), "network.gamma": (0, 0.5)}
    assert (asked.rounds, asked.instances, asked.labels) == (10, 3, ("alsa-pi", "age"))
    sums = dict(reversed(line.split("  ")) for line in (finished / "SHA256SUMS").read_text().splitlines())
    assert sums.keys() >= FILES
    for name, checksum in sums.items():
        assert hashlib.sha256((finished / name).read_bytes()).hexdigest() == checksum


def test_the_summary_is_what_was_simulated(finished: Path) -> None:
    with open(finished / "summary.csv", newline="") as file:
        rows = {(r["network.slots"], r["network.gamma"], r["scheduler"], r["metric"]): r for r in csv.DictReader(file)}
    for slots, gamma in ((2, "0"), (3, "0.5")):
        network = fw.random_network(6, slots, gamma=float(gamma))
        traces = {name: fw.simulate(network, name, 10, 3, 0) for name in ("alsa-pi", "age")}
        for name, trace in traces.items():
            found = float(rows[str(slots), gamma, name, "score"]["mean"])
            assert found == pytest.approx(trace.score.mean())
        difference = traces["age"].score.mean() - traces["alsa-pi"].score.mean()
        found = float(rows[str(slots), gamma, "age", "score"]["difference"])
        assert found == pytest.approx(difference)


@pytest.mark.usefixtures("no_figures", "_no_runs")
def test_the_same_command_again_reuses_everything(fedwave, folder: Path, tmp_path: Path) -> None:
    before, netcdf = contents(folder), (folder / "results.nc").read_bytes()
    status, text, err = fedwave(*SWEEP, "-o", folder, "--json", "--events", tmp_path / "e")
    assert (status, err) == (0, "")
    points = json.loads(text)["points"]
    assert [list(point["schedulers"]) for point in points] == [["alsa-pi", "age"]] * 4
    assert [point["where"]["network.gamma"] for point in points] == [0, 0.5] * 2
    assert [event["event"] for event in lines(tmp_path / "e")] == ["started", "finished"]
    assert lines(tmp_path / "e")[0]["finished"] == 8
    assert contents(folder) == before
    assert (folder / "results.nc").read_bytes() == netcdf


@pytest.mark.usefixtures("no_figures")
def test_a_sweep_prints_a_table(fedwave, tmp_path: Path) -> None:
    words = ("run", "sweep.network.slots=[5,25]", "-s", "age", "-r", 4, "-i", 2, "-o", tmp_path)
    status, text, err = fedwave(*words, "metric=score")
    assert (status, err) == (0, "")
    assert mentions(text, "paper", "U = 25", "4 rounds", "2 instances", "seed 0")
    table = [line.split() for line in text.splitlines()]
    names = ["score", "backlog", "99", "%", "age", "worst", "delivered", "Jain"]
    assert ["scheduler", "Slots", "W", *names] in table
    assert [row[1] for row in table if row and row[0] == "age"] == ["5", "25"]
    assert "results.nc" in text


OTHERS = {
    ("--seed", 3): ("seed", 0, 3),
    ("sweep.network.slots=[2,4]",): ("sweep.network.slots", "[2, 3]", "[2, 4]"),
    ("metric=score",): ("metric", "backlog", "score"),
}


@pytest.mark.parametrize("more", OTHERS, ids=lambda more: " ".join(map(str, more)))
def test_another_experiment_in_the_same_folder_is_refused(refuses, folder: Path, more) -> None:
    before = contents(folder)
    refuses((*SWEEP, *more, "-o", folder), folder, "--out", f"`fedwave resume {folder}`", *OTHERS[more])
    assert contents(folder) == before


@pytest.mark.usefixtures("no_figures")
def test_events_are_lines_of_json(fedwave, tmp_path: Path) -> None:
    words = ("run", "sweep.network.slots=[2,3]", "-s", "age", "-r", 4, "-i", 2, "--json")
    events = tmp_path / "events.jsonl"
    assert fedwave(*words, "-o", tmp_path / "a", "--events", events)[0] == 0
    found = lines(events)
    names = [event["event"] for event in found]
    assert names[0] == "started"
    assert names[-1] == "finished"
    assert names.count("unit-begun") == names.count("unit-finished") == 2
    assert all({"seconds", "units", "finished", "rounds", "of"} <= event.keys() for event in found)
    assert (found[-1]["rounds"], found[-1]["of"], found[-1]["finished"]) == (16, 16, 2)
    fedwave(*words, "-o", tmp_path / "a", "--events", events)  # they are added
    assert lines(events)[: len(found)] == found


def test_score_is_drawn_again_without_a_run(fedwave, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    small = ("rounds=8", "instances=3", "schedulers=[alsa-pi,age]")
    status, text, _ = fedwave("reproduce", "score", *small, "-o", first)
    assert status == 0
    assert mentions(text, "paper-score", "U = 25", "8 rounds", "3 instances", "seed 0")
    assert text.splitlines()[1].split()[:2] == ["scheduler", "score"]
    monkeypatch.setattr(pool, "run_unit", None)
    status, text, err = fedwave("report", first, "--json", "-o", second)
    assert (status, err) == (0, "")
    names = {path.name for path in second.iterdir()} - {"SHA256SUMS", ".lock"}
    figures = {f"{name}.{kind}" for name in ("score", "devices") for kind in ("png", "svg")}
    tables = {"rounds.csv", "instances.csv", "summary.json", "summary.csv", "table.md", "table.tex"}
    assert names == figures | tables | {"devices.csv", "results.nc"}
    for name in names:
        assert (second / name).read_bytes() == (first / name).read_bytes(), name


@pytest.mark.usefixtures("no_figures")
def test_the_engine_is_the_one_that_was_asked_for(fedwave, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[object] = []
    ray = ModuleType("fedwave.adapters.ray")

    def ray_engine(address, workers):
        asked.extend([address, workers])

        def engine(job):
            asked.append(job.timeout)
            return pool.run_here(job)

        return engine

    ray.ray_engine = ray_engine  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fedwave.adapters.ray", ray)
    small = ("-s", "age", "-r", 4, "-i", 2, "-o", tmp_path)
    cluster = ("--ray", "head:6379", "--workers", 3, "--timeout", 7.5)
    status, _, err = fedwave("run", "sweep.network.slots=[2,3]", *small, *cluster)
    assert (status, err) == (0, "")
    assert asked == ["head:6379", 3, 7.5]
    trace = fw.simulate(fw.paper_network(slots=3), "age", 4, 2, 0)
    found = fw.load(tmp_path).sel({"network.slots": 3, "scheduler": "age"})
    assert np.array_equal(found.score.T, trace.score)
