"""An experiment that trains something else than a classifier of images, from its file to its tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from refusals import refused

import fedwave as fw
from fedwave.experiments.config.build import check_buildable, network_of, task_of
from fedwave.experiments.config.read import experiment_from, load_experiment
from fedwave.parts import registry

PARTS = """
import numpy as np
import torch.nn.functional as F
from torch import nn

import fedwave as fw


@fw.register("meters-test", family="dataset")
def meters(samples: int = 60):
    x = np.random.default_rng(0).normal(size=(samples, 3))
    y = x @ [1.0, -2.0, 0.5]
    return fw.Dataset("meters", x, y, x[:20], y[:20], owner=np.arange(samples) % 3)


@fw.register("straight-test", family="model")
def straight():
    return nn.Linear(3, 1)


@fw.register("soft-error-test", family="criterion")
def soft_error(outputs, targets, delta: float = 1.0):
    return F.huber_loss(outputs[:, 0], targets, delta=delta, reduction="none")
"""
ASKED = """
imports: [parts.py]
network: {kind: random, devices: 3, slots: 1}
schedulers: [age, round-robin]
rounds: 4
instances: 2
task:
  dataset: meters-test
  model: straight-test
  partition: owner
  loss: {name: soft-error-test, delta: 0.5}
  metric: mae
  epochs: 2
training: {full_every: 2, device: cpu}
sweep: {task.optimizer: [sgd, "momentum:momentum=0.8"]}
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for family in registry.FAMILIES:
        monkeypatch.setitem(registry.own(), family, dict(registry.own()[family]))
    monkeypatch.setattr("fedwave.parts.user_code._imports", {})
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "mine.yaml").write_text(ASKED)
    return tmp_path / "mine.yaml"


def test_an_experiment_has_the_metric_of_its_task(asked: Path) -> None:
    folder = asked.parent / "run"
    fw.run(asked, folder, workers=1)
    found = fw.load(folder)
    assert found.mae.attrs["better"] == "lower"
    assert {"accuracy", "class_accuracy", "worst_class"}.isdisjoint(found)
    assert np.isfinite(found.mae_on_all.isel(round=[1, 3])).all()
    for name in ("sgd", "momentum:momentum=0.8"):  # as training alone gives it
        how = load_experiment(asked, f"task.optimizer={name}")
        assert how.task is not None
        assert how.metric == "mae"
        trace = fw.simulate(network_of(how.network), "age", 4, 2)
        alone = fw.train(trace, task_of(how.task))
        mine = found.mae.sel({"scheduler": "age"}).isel({"task.optimizer": int(name != "sgd")})
        np.testing.assert_allclose(mine.transpose("round", "instance"), alone.mae, rtol=1e-6)
    assert (folder / "learning-curves-1.png").exists()
    heading = (folder / "curves.csv").read_text().splitlines()[0].split(",")
    assert heading[-3:] == ["loss", "mae", "mae_on_all"]
    assert "mae" in (folder / "table.md").read_text()


@pytest.mark.parametrize(
    "task, tokens",
    [
        ({"optimizer": "adamw"}, ("task.optimizer", "adamw", "adam")),
        ({"optimizer": {"name": "adam", "beta1": 2}}, ("task.optimizer", "beta1", 2)),
        ({"loss": "msee"}, ("task.loss", "msee")),
        ({"metric": 3}, ("task.metric", 3)),
    ],
)
def test_bad_fields_of_a_task(task: dict[str, object], tokens: tuple[object, ...]) -> None:
    with refused(*tokens):
        check_buildable(experiment_from({"task": {"dataset": "synthetic", **task}}))


def test_targets_and_the_metric_must_be_those_of_the_task() -> None:
    regression = {"dataset": "synthetic", "loss": "mse"}
    assert experiment_from({"task": regression}).metric == "mse"
    with refused("targets", "mse"):
        experiment_from({"task": regression, "targets": [0.5]})
    with refused("accuracy", "mse"):
        check_buildable(experiment_from({"task": regression, "metric": "accuracy"}))
