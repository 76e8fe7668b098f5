from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from refusals import refused

import fedwave as fw
from fedwave.experiments.config.build import CLASSES, check_buildable, network_of, settings_of, task_of
from fedwave.experiments.config.experiment import (
    DATASETS,
    MODELS,
    Experiment,
    NetworkConfig,
    TaskConfig,
    TrainingConfig,
)
from fedwave.experiments.config.read import experiment_from
from fedwave.network.network import random_network
from fedwave.parts import registry


def test_the_papers_network_with_changes() -> None:
    net = network_of(NetworkConfig())
    assert (net.size, net.slots) == (25, 5)
    assert np.array_equal(net.rates, fw.paper_network().rates)
    net = network_of(
        NetworkConfig(
            slots=3,
            gamma=0.5,
            fading="rician:k_factor=6",
            success="harq:tries=3",
            arrivals="negative-binomial:dispersion=2",
            rate=4.0,
            set={"buffer_limit": 20.0, "noise_dbm": -90.0},
        )
    )
    assert (net.slots, net.gamma, net.noise_dbm) == (3, 0.5, -90)
    assert net.fading == fw.fading.Rician(k_factor=6)
    assert net.success == fw.success.Harq(tries=3)
    assert net.arrivals == fw.arrivals.NegativeBinomial(dispersion=2)
    assert set(net.rates) == {4.0}
    assert set(np.asarray(net.table.buffer_limit)) == {20.0}


def test_a_random_network_is_that_of_the_command_line() -> None:
    assert network_of(NetworkConfig(kind="random")).size == 100
    net = network_of(NetworkConfig(kind="random", devices=40, set={"seed": 3.0}))
    assert (net.size, net.slots) == (40, 8)
    wanted = random_network(40, 8, seed=3).table.distance_m
    assert np.array_equal(net.table.distance_m, wanted)


def test_a_table_of_devices(tmp_path: Path) -> None:
    file = tmp_path / "devices.csv"
    file.write_text("count,rate,distance_m\n2,1,100\n1,5,300\n")
    net = network_of(NetworkConfig(kind="table", file=str(file)))
    assert (net.size, net.slots, list(net.rates)) == (3, 3, [1, 1, 5])
    asked = ["network.kind=table", f"network.file={file}", "network.set.rate=2"]
    assert list(network_of(experiment_from({}, asked).network).rates) == [2, 2, 2]
    with refused("slots", 4, 3):
        network_of(NetworkConfig(kind="table", file=str(file), slots=4))


def test_a_record_must_reach_to_the_last_round_and_instance(tmp_path: Path) -> None:
    np.save(tmp_path / "gains.npy", np.ones((5, 4, 25)))
    asked = [f"network.fading=recorded:path={tmp_path}/gains.npy"]
    lot = experiment_from({"rounds": 5, "instances": 2, "first_instance": 2}, asked)
    assert lot.instance_numbers == range(2, 4)
    with refused("rounds", 5):
        experiment_from({"rounds": 6, "instances": 2}, asked)
    with refused("instances", 4, 5):
        experiment_from({"rounds": 5, "instances": 2, "first_instance": 3}, asked)


def test_a_large_network_is_not_built_to_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedwave.experiments.config import build

    built = []

    def watched(devices: int, *rest: object, **changes: object) -> fw.Network:
        built.append(devices)
        return random_network(devices, *rest, **changes)  # type: ignore[arg-type]

    monkeypatch.setattr(build, "random_network", watched)
    large = NetworkConfig(kind="random", devices=2_000_000, slots=1_500_000)
    check_buildable(Experiment(network=large))
    check_buildable(Experiment(network=NetworkConfig(kind="random", devices=20_000, set={"slots": 15_000.0})))
    wrong = NetworkConfig(kind="random", devices=2_000_000, set={"rate": -1.0})
    with refused("network", "rate", -1):
        check_buildable(Experiment(network=wrong, rounds=5))
    with refused("network.slots", 20_001, 20_000):
        check_buildable(Experiment(network=NetworkConfig(kind="random", devices=20_000, slots=20_001)))
    assert max(built) == 10_000


def test_names_are_those_of_learning() -> None:
    from fedwave.learning.task import PRESETS

    assert set(DATASETS) == set(PRESETS)
    assert set(MODELS) == set(registry.names("model"))
    assert all(PRESETS[name]["model"] in models for name, models in DATASETS.items())


def test_models_take_the_images_that_they_are_said_to_take() -> None:
    import torch

    shapes = {"mnist": (2, 1, 28, 28), "synthetic": (2, 1, 28, 28), "cifar10": (2, 3, 32, 32)}
    with torch.device("meta"):  # shapes only, no numbers
        for dataset, shape in shapes.items():
            for name in registry.names("model"):
                try:
                    fits = registry.build("model", name)(torch.empty(shape)).shape == (2, CLASSES)
                except RuntimeError:
                    fits = False
                assert fits == (name in DATASETS[dataset]), (dataset, name)


def test_a_task_with_its_own_numbers() -> None:
    made = task_of(TaskConfig(dataset="synthetic"))
    assert (made.shard_size, made.batch, made.epochs, made.dataset.classes) == (10, 10, 10, CLASSES)
    numbers = {"shard_size": 5, "batch": 4, "epochs": 2, "eta": 0.1, "prox": 0.0, "l2": 0.2}
    parts = {"model": "logistic", "partition": {"name": "by-class", "held": 3}, "aggregation": "lee:beta=0.5"}
    made = task_of(TaskConfig("synthetic", **parts, **numbers))
    assert {name: getattr(made, name) for name in numbers} == numbers
    assert made.partition == fw.partition.ByClass(3)
    assert made.aggregation == fw.aggregation.Lee(beta=0.5)
    assert type(made.new_model(0, 0)).__name__ == "Logistic"


def test_settings_of_a_cpu() -> None:
    config = TrainingConfig(0.1, "cpu", "float64", lanes=3, loss_images=5, test_images=6, full_every=7)
    settings, sizes = settings_of(config)
    found = {**vars(settings), **vars(sizes)}
    assert {name: found[name] for name in vars(config)} == vars(config)
