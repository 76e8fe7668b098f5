"""`fedwave train` and `fedwave reproduce mnist|cifar10`, run as a shell would; no data but the synthetic."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import mentions
from rich.table import Table

import fedwave as fw
from fedwave.cli import output
from fedwave.experiments.report.comparison import Comparison
from fedwave.experiments.report.figures import common as figures
from fedwave.experiments.run import work
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.datasets.original_files import NoData
from fedwave.learning.datasets.synthetic import synthetic
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.parts import registry

NETWORK = ("random", "network.devices=4", "--slots", 2, "network.rate=1")
SMALL = ("task.model=logistic", "task.epochs=1", "training.loss_images=100", "training.test_images=60")
SIZE = ("--task", "synthetic", "--rounds", 3, "--instances", 2, "training.device=cpu", "--workers", 1)
FIGURES = ("learning-curves", "one-instance", "targets", "devices")
FILES = {f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg")}
FILES |= {
    "curves.csv",
    "targets.csv",
    "devices.csv",
    "summary.json",
    "summary.csv",
    "table.md",
    "table.tex",
    "results.nc",
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few images, one thread; the published data cannot be had."""

    def missing(name: str) -> Dataset:
        raise NoData(f"{name} could not be fetched: there is no network here.")

    for name in ("mnist", "cifar10"):
        monkeypatch.setitem(registry.own()["dataset"], name, partial(missing, name))
    monkeypatch.setitem(registry.own()["dataset"], "synthetic", lambda: synthetic(200, 100))
    work._task.cache_clear()  # of tasks with all their images, before and after
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    work._task.cache_clear()


def files(folder: Path) -> set[str]:
    """What lies there for people to see."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_train_prints_a_table_and_writes_figures(fedwave, tmp_path: Path) -> None:
    words = ("train", *NETWORK, *SMALL, *SIZE, "-s", "alsa-pi,update-aware,age", "--seed", 3, "-o", tmp_path / "new")
    status, text, err = fedwave(*words)
    assert (status, err) == (0, "")
    assert mentions(text, "synthetic", "U = 4", "W = 2", "3 rounds", "2 instances", "seed 3")
    assert "SYNTHETIC" not in text  # it was asked for
    for word in ("differences from alsa-pi", "accuracy", "loss", "backlog", "Jain", "targets.svg"):
        assert word in text
    rows = [line.split()[0] for line in text.splitlines() if line.count("±") > 2]
    names = ["alsa-pi", "update-aware", "age"]
    assert (sorted(rows[:3]), sorted(rows[3:])) == (sorted(names), sorted(names[1:]))  # means, differences
    assert files(tmp_path / "new") >= FILES
    assert "checkpoints" not in files(tmp_path / "new")
    content = json.loads((tmp_path / "new/summary.json").read_text())
    assert content["experiment"]["training"]["tolerance"] == 1e-6
    trace = fw.simulate(fw.random_network(4, 2, rate=1.0), "age", 3, 2, 3)
    task, sizes = fw.task("synthetic", model="logistic", epochs=1), EvaluationSizes(100, 60)
    curves = fw.train(trace, task, sizes=sizes, tolerance=1e-6)
    assert content["schedulers"]["age"]["loss"]["mean"] == pytest.approx(curves.loss[-1].mean(), rel=1e-4)


def test_train_json_is_only_json(fedwave, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(figures, "save_figure", lambda figure, stem: [])  # they take the longest
    words = ("train", *NETWORK, *SMALL, *SIZE, "-s", "w-max,age", "--json", "-o", tmp_path)
    status, text, err = fedwave(*words)
    content = json.loads(text)
    assert (status, err) == (0, "")
    assert {key: content[key] for key in content if key != "files"} == json.loads(
        (tmp_path / "summary.json").read_text()
    )
    assert content["schedulers"]["w-max"]["accuracy_difference"]["mean"] == 0  # the first: no alsa-pi here
    # The same command again trains nothing, and the answer is the same.
    monkeypatch.setattr(work, "task_of", None)
    assert json.loads(fedwave(*words)[1]) == content


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_without_data_reproduce_falls_back_loudly(fedwave, tmp_path: Path, name: str) -> None:
    small = ("task.epochs=1", "training.loss_images=100", "training.test_images=60")
    words = ("reproduce", name, "--quick", "rounds=2", "instances=1", "training.device=cpu", "--workers", 1)
    status, text, err = fedwave(*words, *small, "-o", tmp_path)
    assert status == 0
    assert mentions(err, "SYNTHETIC DATA", name)
    assert f"{name} could not be fetched" in err
    assert mentions(text, "SYNTHETIC DATA", name, "U = 25", "2 rounds", "1 instance")
    assert files(tmp_path) >= FILES
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["synthetic"] is True
    assert summary["experiment"]["task"]["instead_of"] == name
    assert list(summary["schedulers"]) == ["bench", "alsa-pi", "balsa", "balsa-po", "round-robin", "w-max"]
    # Text is drawn as shapes; matplotlib notes what it was beside them.
    assert "SYNTHETIC DATA" in (tmp_path / "learning-curves.svg").read_text()


def test_a_sweep_of_what_is_learnt(fedwave, tmp_path: Path) -> None:
    words = ("random", "network.devices=4", *SMALL, *SIZE, "task.partition=dirichlet", "-s", "age", "metric=accuracy")
    sweep = ("sweep.task.partition.alpha=[0.05,5]", "--json", "-o", tmp_path)
    status, text, err = fedwave("run", *words, *sweep)
    assert (status, err) == (0, "")
    points = json.loads(text)["points"]
    assert [point["where"]["task.partition.alpha"] for point in points] == [0.05, 5]
    assert (tmp_path / "accuracy-task-partition-alpha.png").exists()
    # Every point has its learning curves.
    assert {"learning-curves-1.png", "learning-curves-2.svg"} <= files(tmp_path)
    with open(tmp_path / "curves.csv", newline="") as file:
        assert [row["task.partition.alpha"] for row in csv.DictReader(file)] == ["0.05"] * 6 + ["5"] * 6
    data = fw.load(tmp_path)
    assert data.class_accuracy.shape == (2, 1, 2, 3, 10)
    loss = data.loss.sel({"task.partition.alpha": 0.05, "scheduler": "age", "round": 3}).mean()
    assert points[0]["schedulers"]["age"]["loss"]["mean"] == pytest.approx(float(loss))


def test_without_data_train_does_not_fall_back(fedwave, tmp_path: Path) -> None:
    status, out, err = fedwave("train", "--task", "mnist", "--workers", 1, "-o", tmp_path)
    assert (status, out) == (2, "")
    assert mentions(err, "mnist", "network")


def test_who_the_base_is_does_not_depend_on_luck() -> None:
    """An equal accuracy makes nobody the base, and a base that diverged is still named."""

    def tables(last: float) -> list[Table]:
        values = np.array([[0.5, 0.5], [last, last]])
        names = {name: name for name in ("accuracy", "loss")}
        found = Comparison(("bench", "alsa-pi"), "alsa-pi", dict.fromkeys(names, values), names)
        return output.comparison_tables([([], found)])

    equal, lost = tables(0.5), tables(np.nan)
    assert list(equal[1].columns[1].cells) == ["0.00±0.00"]
    for _, differences in (equal, lost):
        assert mentions(str(differences.title), "alsa-pi")
        assert list(differences.columns[0].cells) == ["bench"]
    assert list(lost[0].columns[0].cells) == ["bench", "alsa-pi (2 diverged)"]
