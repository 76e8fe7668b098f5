"""config.yaml of a run folder: every number that was used, at every point, and the same results from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedwave as fw
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import experiment_from, load_experiment
from fedwave.experiments.config.resolve import fill_defaults
from fedwave.experiments.config.sweep import points, to_mapping
from fedwave.experiments.config.units import cut_into_units, resolve
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.load import results_of
from fedwave.parts import registry

SMALL: dict[str, Any] = {"schedulers": ["age", "random"], "rounds": 4, "instances": 2}


def stored(folder: Path) -> Experiment:
    return RunFolder(folder).experiment_as_run


def without_null(content: Any) -> bool:
    inside = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return content is not None and all(map(without_null, inside))


def test_a_run_keeps_every_number(tmp_path: Path) -> None:
    run_experiment(experiment_from(SMALL), tmp_path / "run", workers=1)
    content = to_mapping(stored(tmp_path / "run"))
    assert without_null(content)
    assert "task" not in content
    assert content["network"] == {
        "kind": "paper",
        "slots": 5,
        "gamma": 0.01,
        "fading": "rayleigh",
        "success": {"name": "turbo", "midpoint_db": -1.647, "slope": 7.468, "blocks": 1},
        "arrivals": "poisson",
        "set": {
            "noise_dbm": -96.0,
            "pathloss_intercept_db": 128.1,
            "pathloss_slope_db": 37.6,
            "tx_power_dbm": 23.0,
            "interference_dbm": float("-inf"),
            "miss_probability": 0.0,
            "buffer_limit": float("inf"),
        },
    }


@pytest.mark.parametrize(
    ("dataset", "numbers"), [("synthetic", (10, 10, 10)), ("mnist", (10, 10, 10)), ("cifar10", (50, 50, 5))]
)
def test_a_task(dataset: str, numbers: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedwave.learning.settings.limit", lambda: 10e9)
    found = resolve(experiment_from({**SMALL, "task": {"dataset": dataset}}))
    assert without_null(to_mapping(found))
    task = found.task
    assert task is not None
    assert (task.shard_size, task.batch, task.epochs) == numbers
    assert (task.eta, task.prox, task.l2, task.aggregation) == (0.01, 0.01, 0, {"name": "lee", "beta": 0.001})
    assert task.model is not None
    assert task.model.name == {"cifar10": "vgg19"}.get(dataset, "cnn")
    assert found.training.device == "cpu"
    # Sixty-four of a large model would take more than a quarter of the memory.
    assert found.training.lanes == {"cifar10": 10}.get(dataset, 64)


def test_a_random_network_and_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("count,rate,distance_m,tx_power_dbm\n3,1,100,20\n1,1,100,10\n")
    random = resolve(experiment_from({**SMALL, "network": {"kind": "random"}})).network
    assert (random.devices, random.set["seed"]) == (100, 0)
    assert random.slots == fw.random_network().slots
    table = resolve(experiment_from({**SMALL, "network": {"kind": "table", "file": str(tmp_path / "t.csv")}})).network
    assert table.slots == 4
    assert "tx_power_dbm" not in table.set  # the file has one for each device
    found = resolve(experiment_from({**SMALL, "network": {"set": {"slots": 2, "buffer_limit": 9}}})).network
    assert (found.slots, found.set["slots"], found.set["buffer_limit"]) == (None, 2, 9)


EVERYTHING: list[dict[str, Any]] = [
    {
        "schedulers": ["age", "random", "balsa:prior=gamma", "alpha-fresh:alpha=0.25", "mass"],
        "against": "alpha-fresh:alpha=0.250",
    },
    {"network": {"kind": "random", "devices": 6, "success": "harq", "fading": "rician"}},
    {"sweep": {"network.success": ["turbo", "arq", "soft"], "network.slots": [1, [2, 0, 1, 3]]}},
    {"sweep": {"schedulers.alpha-fresh.alpha": [0.5, 0.9]}, "schedulers": ["alpha-fresh", "age"]},
    {"sweep": {"network": [{"kind": "random", "devices": 5}, {"gamma": 0.5}]}},
    {"task": {"dataset": "synthetic:train=60,test=20", "model": "logistic"}, "rounds": 2, "metrics": ["jain"]},
]


@pytest.mark.parametrize("more", EVERYTHING, ids=lambda more: str(more)[:60])
def test_a_stored_experiment_gives_the_same_results_and_no_default_is_read(
    more: dict[str, Any], tmp_path: Path, no_figures: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fw.run({**SMALL, **more}, tmp_path / "run", workers=1)
    assert first.identical(fw.run(tmp_path / "run/config.yaml", tmp_path / "again", workers=1))
    assert (tmp_path / "again/config.yaml").read_bytes() == (tmp_path / "run/config.yaml").read_bytes()
    if "network" in more.get("sweep", {}):
        return  # a network that is swept as a whole is written as it was given
    # Other defaults in the code change nothing: every parameter is given.
    written = load_experiment(tmp_path / "run/config.yaml")
    for part in [*written.schedulers, written.network.fading, written.network.success]:
        if part is not None:
            family = (
                "scheduler" if part in written.schedulers else "fading" if part is written.network.fading else "success"
            )
            assert registry.with_defaults(family, part) == part
    for _, at in points(written):
        assert at.network == fill_defaults(at).network


def test_what_differs_between_points_is_known_at_each(tmp_path: Path) -> None:
    """W is a fifth of the devices: one number in config.yaml would change what the sweep means."""
    sweep = {**SMALL, "network": {"kind": "random"}, "sweep": {"network.devices": [5, 10, 20]}}
    made = run_experiment(experiment_from(sweep), tmp_path / "run", workers=1)
    assert stored(tmp_path / "run").network.slots is None
    assert stored(tmp_path / "run").network.gamma == 0.01
    for results in (made, results_of(RunFolder(tmp_path / "run"))):
        slots = [point.experiment.network.slots for point in results.points]
        assert slots == [fw.random_network(n, max(1, n // 5)).slots for n in (5, 10, 20)]


def test_a_sweep_that_its_base_could_not_run(tmp_path: Path) -> None:
    asked = {**SMALL, "network": {"kind": "random", "devices": 3}, "sweep": {"network.devices": [50]}}
    run_experiment(experiment_from(asked), tmp_path / "run", workers=1)
    assert stored(tmp_path / "run").network.slots is None  # 10 would not fit 3 devices
    assert fw.load(tmp_path / "run").sizes["device"] == 50
    load_experiment(tmp_path / "run" / "config.yaml")


def test_resolving_twice_changes_nothing() -> None:
    for more in ({}, {"task": {"dataset": "synthetic"}}, {"sweep": {"network.gamma": [0, 1]}}):
        once = resolve(experiment_from({**SMALL, **more}))
        assert resolve(once) == once
        assert [unit.experiment for unit in cut_into_units(once)]


def test_the_configuration_runs_again_from_a_folder_that_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("count,rate,distance_m\n3,1,100\n")
    monkeypatch.chdir(tmp_path)
    asked = experiment_from({**SMALL, "network": {"kind": "table", "file": "t.csv"}})
    run_experiment(asked, tmp_path / "run", workers=1)
    (tmp_path / "t.csv").unlink()
    (tmp_path / "run").rename(tmp_path / "moved")
    again = load_experiment(Path("moved/config.yaml"))
    run_experiment(again, tmp_path / "again", workers=1)
    assert fw.load(tmp_path / "again").identical(fw.load(tmp_path / "moved"))
    assert (tmp_path / "again/config.yaml").read_bytes() == (tmp_path / "moved/config.yaml").read_bytes()


@pytest.mark.parametrize("family", [f for f in registry.FAMILIES if f not in ("dataset", "model", "criterion")])
def test_a_part_with_its_defaults_written_out_is_the_same_object(family: str) -> None:
    for name in registry.built_in(family):
        if name not in ("recorded", "log", "table"):  # these need a file
            made = [registry.build(family, part) for part in (name, registry.with_defaults(family, name))]
            assert registry.full_text(family, made[0]) == registry.full_text(family, made[1])
