"""An experiment is cut into units with distinct names, and put together again without loss."""

from __future__ import annotations

from typing import Any

import pytest
from half_precision import needs_bfloat16

import fedwave as fw
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.config.sweep import points
from fedwave.experiments.config.units import axis_values, cut_into_units, resolve
from fedwave.experiments.run.runner import run_experiment

SMALL: dict[str, Any] = {
    "network": {"kind": "random", "devices": 5, "slots": 2},
    "schedulers": ["alsa-pi", "age"],
    "rounds": 6,
    "instances": 3,
}
LEARNING = {**SMALL, "task": {"dataset": "synthetic"}, "training": {"device": "cpu"}}


def cut(mapping: dict[str, Any], *overrides: str) -> list[Any]:
    return cut_into_units(resolve(experiment_from(mapping, overrides)))


def test_every_point_scheduler_and_instance_is_in_exactly_one_unit() -> None:
    asked = experiment_from(SMALL, ["block=2", "sweep.network.slots=[1,2]", "sweep.seed=[0,7]"])
    units = cut_into_units(resolve(asked))
    done = [(unit.point, label, instance) for unit in units for label in unit.schedulers for instance in unit.instances]
    assert sorted(done) == sorted((p, s, i) for p in range(4) for s in ("alsa-pi", "age") for i in range(3))
    assert sum(unit.rounds for unit in units) == 4 * 2 * 3 * 6
    at = [(unit.where["network.slots"], unit.where["seed"]) for unit in units]
    for unit, (slots, seed) in zip(units, at, strict=True):
        assert (unit.experiment.network.slots, unit.experiment.seed) == (slots, seed)
        assert unit.name.startswith(f"{[(1, 0), (1, 7), (2, 0), (2, 7)].index((slots, seed)):04d}_")


def test_how_it_is_cut_changes_no_result() -> None:
    whole = run_experiment(experiment_from(SMALL), workers=1).only.data
    for block in (1, 2):
        parts = run_experiment(experiment_from(SMALL, [f"block={block}"]), workers=1).only.data
        assert parts.identical(whole)


def test_what_a_machine_without_gpu_decides() -> None:
    made = resolve(experiment_from(LEARNING, ["training.precision=auto"]))
    assert (made.training.device, made.training.precision) == ("cpu", "float32")
    assert (made.training.lanes, made.block, made.group) == (64, 1, 1)
    assert resolve(made) == made
    asked = resolve(experiment_from(LEARNING, ["block=2", "group=2", "training.lanes=5"]))
    assert (asked.training.lanes, asked.block, asked.group) == (5, 2, 2)
    simulated = resolve(experiment_from(SMALL, ["instances=120"]))
    assert (simulated.block, simulated.group) == (50, 1)
    assert [len(unit.instances) for unit in cut_into_units(simulated)] == [50, 50, 20] * 2


def test_half_precision_is_kept_on_a_cpu_where_it_saves_nothing() -> None:
    needs_bfloat16()
    asked = resolve(experiment_from(LEARNING, ["training.precision=bfloat16"]))
    assert asked.training.precision == "bfloat16"


def test_who_looks_at_the_models_is_alone_and_bench_comes_first() -> None:
    names = "schedulers=[age,update-aware,alsa-pi,bench]"
    assert [unit.schedulers for unit in cut(LEARNING, names, "group=2", "block=3")] == [
        ("bench",),
        ("age", "alsa-pi"),
        ("update-aware",),
    ]


def test_names_of_units_are_names_of_files_and_never_the_same() -> None:
    texts = ["alpha-fresh:alpha=1", "alpha-fresh:alpha=-1", "alpha-fresh:alpha=1e-1"]
    texts += ["alpha-fresh:alpha=1e+1", "alpha-fresh:alpha=0." + 300 * "1"]
    experiment = experiment_from(SMALL | {"schedulers": texts})
    names = [unit.name for unit in cut_into_units(resolve(experiment))]
    assert len({name.lower() for name in names}) == 5
    assert all(len(name) < 100 and "/" not in name and name.isascii() for name in names)
    data = run_experiment(experiment, workers=1).only.data
    network = fw.random_network(5, 2)
    for text, label in zip(texts, experiment.labels, strict=True):
        alone = fw.simulate(network, fw.scheduler(text), 6, 3, 0)
        assert (data.score.sel(scheduler=label).values == alone.score.T).all()


@pytest.mark.parametrize(
    "values, kept",
    [
        ((2, 3), [2, 3]),
        ((0, 0.5), [0.0, 0.5]),
        (("poisson", "x"), ["poisson", "x"]),
        ((None, 0.5), ["None", "0.5"]),
        ((True, 2), ["True", "2"]),
        (((1, 2), 3), ["(1, 2)", "3"]),
    ],
)
def test_an_axis_has_values_of_one_kind(values: tuple[Any, ...], kept: list[Any]) -> None:
    assert axis_values(values) == kept
    assert {type(value) for value in axis_values(values)} == {type(kept[0])}


def test_units_know_their_place_in_one_kind() -> None:
    asked = experiment_from(SMALL, ["sweep.network.gamma=[0,0.5]"])
    assert [type(unit.where["network.gamma"]) for unit in cut_into_units(resolve(asked))] == [float] * 4
    assert [point for point, _ in points(asked)] == [{"network.gamma": 0}, {"network.gamma": 0.5}]


def test_a_device_table_is_found_from_any_folder(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "devices.csv").write_text("rate,distance_m\n1,100\n2,200\n")
    monkeypatch.chdir(tmp_path)
    mapping = {"network": {"kind": "table", "file": "devices.csv", "slots": 1}}
    stored = resolve(experiment_from(mapping)).network.file
    assert stored == str(tmp_path / "devices.csv")
