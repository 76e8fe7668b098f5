"""Parameters of schedulers in a sweep: built-in ones and users' own, from YAML, key=value and Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import refused

import fedwave as fw
from fedwave.experiments.config.read import experiment_from, load_experiment, points

SMALL: dict[str, Any] = {"network": {"kind": "random", "devices": 5, "slots": 2}, "rounds": 6, "instances": 3}
OWN = "schedulers.discounted.discount"


@pytest.fixture
def own() -> None:
    @fw.register
    @dataclass(frozen=True)
    class Discounted(fw.Scheduler):
        name = "discounted"
        needs = frozenset({"channel"})
        discount: float = 1.0

        def priority(self, state: Any, seen: Any, draws: Any) -> Any:
            return seen.success * self.discount**seen.delay


@pytest.mark.parametrize(
    "name, parameter, values", [("alpha-fresh", "alpha", (0.0, 2.5)), ("discounted", "discount", (0.5, 0.9))]
)
def test_files_tables_and_figures_have_the_parameter_as_an_axis(
    name: str, parameter: str, values: tuple[float, float], own: None, tmp_path: Path
) -> None:
    axis = f"schedulers.{name}.{parameter}"
    asked = {**SMALL, "schedulers": ["age", name], "sweep": {axis: list(values)}}
    data = fw.run(asked, tmp_path / "run", workers=1)
    assert data["scheduler"].values.tolist() == ["age", name]
    network = fw.random_network(5, 2)
    for value in values:
        alone = fw.simulate(network, fw.scheduler(name, **{parameter: value}), 6, 3)
        found = data["backlog"].sel({axis: value, "scheduler": name}).values
        assert np.array_equal(found, alone.series["backlog"].T)
    assert fw.load(tmp_path / "run").identical(data)
    rows = pd.read_csv(tmp_path / "run/summary.csv")
    assert set(rows[axis]) == set(values)
    assert set(pd.read_parquet(tmp_path / "run/rounds")[axis]) == set(values)
    assert f"{name}: {parameter}" in (tmp_path / "run/table.md").read_text()
    assert (tmp_path / f"run/backlog-{axis.replace('.', '-')}.png").is_file()
    again = fw.run(tmp_path / "run/config.yaml", tmp_path / "again", workers=1)
    assert again.identical(data)


def test_every_way_to_ask_gives_the_same_sweep(own: None, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"schedulers: [age, discounted]\nsweep: {{{OWN}: [0.5, 0.9]}}\n")
    made = load_experiment(tmp_path / "a.yaml")
    assert experiment_from({}, ["schedulers=[age, discounted]", f"sweep.{OWN}=[0.5, 0.9]"]) == made
    assert fw.Experiment(schedulers=("age", "discounted"), sweep={OWN: (0.5, 0.9)}) == made
    assert [at.labels for _, at in points(made)] == [("age", "discounted")] * 2
    assert [at.schedulers[1]["discount"] for _, at in points(made)] == [0.5, 0.9]


def test_a_label_selects_one_of_several_and_parameters_inside_parameters() -> None:
    variants = ["alpha-fresh:alpha=0.25", {"name": "alpha-fresh", "as": "swept"}, "balsa:prior=gamma"]
    sweep = {"schedulers.swept.alpha": [1, 2], "schedulers.balsa:prior=gamma.prior.rate": [3]}
    made = experiment_from({"schedulers": variants, "sweep": sweep})
    assert made.labels == ("alpha-fresh:alpha=0.25", "swept", "balsa:prior=gamma")
    for (_, at), alpha in zip(points(made), (1, 2), strict=True):
        assert at.labels == made.labels
        first, second, third = at.schedulers
        assert (first["alpha"], second["alpha"], third["prior"]) == (0.25, alpha, {"name": "gamma", "rate": 3})
    with refused("schedulers.alpha-fresh.alpha"):
        experiment_from({"schedulers": variants, "sweep": {"schedulers.alpha-fresh.alpha": [1]}})


def test_an_override_sets_a_parameter_and_the_label_says_so() -> None:
    made = experiment_from({"schedulers": ["age", "balsa"]}, ["schedulers.balsa.stage_rule=max1"])
    assert made.labels == ("age", "balsa:stage_rule=max1")
    labelled = experiment_from({"schedulers": [{"name": "balsa", "as": "b"}]}, ["schedulers.b.stage_rule=max1"])
    assert labelled.labels == ("balsa:stage_rule=max1",)


def test_parameters_of_metrics_are_swept_too() -> None:
    made = experiment_from({"metrics": ["mass"], "sweep": {"metrics.mass.aggregation": ["lee", "sync"]}})
    assert [at.metrics[0]["aggregation"]["name"] for _, at in points(made)] == ["lee", "sync"]
