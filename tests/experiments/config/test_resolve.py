"""config.yaml of a run folder: every number that was used, at every point, and the same results from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedwave as fw
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import experiment_from, load_experiment, to_mapping
from fedwave.experiments.config.units import resolved, units_of
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.load import stored_results

SMALL: dict[str, Any] = {"schedulers": ["age", "random"], "rounds": 4, "instances": 2}
# These say that there is none: a rate for all devices, a table, a dataset that was replaced, a base for differences.
NONE = {"network.rate", "network.file", "network.devices", "task.instead_of", "against"}


def nulls(mapping: Any, where: str = "") -> set[str]:
    if not isinstance(mapping, dict):
        return {where} if mapping is None else set()
    return {n for k, v in mapping.items() for n in nulls(v, f"{where}.{k}" if where else k)}


def stored(folder: Path) -> Experiment:
    return RunFolder(folder).stored()


def test_a_simulation(tmp_path: Path) -> None:
    run_experiment(experiment_from(SMALL), tmp_path / "run", workers=1)
    found = stored(tmp_path / "run")
    # Without a task nothing is trained.
    assert nulls(to_mapping(found)) == NONE - {"task.instead_of"} | {"task", "training.lanes"}
    network = found.network
    assert (network.slots, network.gamma, str(network.success)) == (5, 0.01, "turbo")
    assert (str(network.fading), str(network.arrivals)) == ("rayleigh", "poisson")


@pytest.mark.parametrize(
    ("dataset", "numbers"), [("synthetic", (10, 10, 10)), ("mnist", (10, 10, 10)), ("cifar10", (50, 50, 5))]
)
def test_a_task(dataset: str, numbers: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedwave.learning.settings.limit", lambda: 10e9)
    found = resolved(experiment_from({**SMALL, "task": {"dataset": dataset}}))
    assert nulls(to_mapping(found)) == NONE
    task = found.task
    assert task is not None
    assert (task.shard_size, task.batch, task.epochs) == numbers
    assert (task.eta, task.prox, task.l2) == (0.01, 0.01, 0)
    assert str(task.model) == {"cifar10": "vgg19"}.get(dataset, "cnn")
    assert found.training.device == "cpu"
    # Sixty-four of a large model would take more than a quarter of the memory.
    assert found.training.lanes == {"cifar10": 10}.get(dataset, 64)


def test_a_random_network_and_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("count,rate,distance_m\n3,1,100\n")
    random = resolved(experiment_from({**SMALL, "network": {"kind": "random"}})).network
    assert random.devices == 100
    assert random.slots == fw.random_network().slots
    table = {"kind": "table", "file": str(tmp_path / "t.csv")}
    assert resolved(experiment_from({**SMALL, "network": table})).network.slots == 3
    in_set = {"set": {"slots": 2, "buffer_limit": 9}}
    found = resolved(experiment_from({**SMALL, "network": in_set})).network
    assert (found.slots, found.set) == (None, {"slots": 2, "buffer_limit": 9})


def test_what_differs_between_points_is_known_at_each(tmp_path: Path) -> None:
    """W is a fifth of the devices: one number in config.yaml would change what the sweep means."""
    sweep = {**SMALL, "network": {"kind": "random"}, "sweep": {"network.devices": [5, 10, 20]}}
    made = run_experiment(experiment_from(sweep), tmp_path / "run", workers=1)
    assert stored(tmp_path / "run").network.slots is None
    assert stored(tmp_path / "run").network.gamma == 0.01
    for results in (made, stored_results(tmp_path / "run")):
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
        once = resolved(experiment_from({**SMALL, **more}))
        assert resolved(once) == once
        assert [unit.experiment for unit in units_of(once)]


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
