"""Tasks beyond image classification: equal to the reference with every optimizer, and bad ones refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fast_paths import distances_of
from refusals import refused
from tiny import trace as by_hand
from torch import Tensor, nn

import fedwave as fw
from fedwave.errors import FedwaveError
from fedwave.learning.backends.base import Precision
from fedwave.learning.backends.gradients import Gradients
from fedwave.learning.replay import Replay
from fedwave.learning.sampling import OwnerSampler
from fedwave.learning.schedule import labelled_runs
from fedwave.learning.settings import Settings
from fedwave.learning.task import Task

DEVICES = 4
RNG = np.random.default_rng(5)
TABLE = RNG.normal(size=(90, 3))
HEIGHTS = TABLE @ [1.0, -2.0, 0.5] + RNG.normal(scale=0.1, size=90)
TOKENS = RNG.integers(11, size=(90, 6))
USERS = np.array(["bo", "al", "di", "cy"])[np.arange(90) % 7 % DEVICES]


class Text(nn.Module):
    """A classifier of token ids: the mean of their vectors, then a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(11, 4), nn.Linear(4, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.out(self.words(tokens).mean(dim=1))
        return found


def tagger() -> nn.Module:
    """Logits for every position of a sequence."""
    return nn.Sequential(nn.Embedding(11, 4), nn.Linear(4, 3))


def of_table() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def huber(outputs: Tensor, targets: Tensor) -> Tensor:
    """A number for each sample."""
    return F.huber_loss(outputs[:, 0], targets, reduction="none")


def stepwise(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss that torch.func cannot vectorise: it looks at a value."""
    error = (outputs[:, 0] - targets).square().mean()
    return error if float(error.detach()) < 1 else error.sqrt()


def dataset(inputs: Any, targets: Any, owner: Any = None) -> fw.Dataset:
    return fw.Dataset("mine", inputs, targets, inputs[:30], targets[:30], owner)


TASKS: dict[str, tuple[fw.Dataset, Callable[[], nn.Module], dict[str, Any]]] = {
    "table": (dataset(TABLE, HEIGHTS), of_table, {"loss": "mse", "metric": "mae"}),
    "two targets": (dataset(TABLE, TABLE[:, 1:]), lambda: nn.Linear(3, 2), {"loss": "mse"}),
    "text": (dataset(TOKENS, TOKENS[:, 0] % 3), Text, {}),
    "sequences": (dataset(TOKENS, TOKENS % 3), tagger, {}),
    "users, own loss": (dataset(TABLE, HEIGHTS, USERS), of_table, {"loss": huber, "partition": "owner"}),
    "users, sync": (
        dataset(TABLE, HEIGHTS, USERS),
        of_table,
        {"loss": "mse", "partition": "owner", "aggregation": "sync"},
    ),
    "loss that looks at values": (dataset(TABLE, HEIGHTS), of_table, {"loss": stepwise}),
    "images": (
        dataset(TABLE.reshape(90, 1, 1, 3), TOKENS[:, 0] % 3),
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(3, 3)),
        {},
    ),
}
OPTIMIZERS = ("sgd", "momentum:momentum=0.8", "adam:beta2=0.95")


def task_named(name: str, **numbers: Any) -> Task:
    data, model, own = TASKS[name]
    usual = {
        "shard_size": 5,
        "batch": 4,
        "epochs": 2,
        "eta": 0.02,
        "prox": 0.1,
        "l2": 0.01,
        "aggregation": "lee:beta=0.3",
    }
    return Task(data, model, **(usual | own | numbers))


def runs(rounds: int = 4) -> list[Any]:
    network = fw.random_network(DEVICES, 2, seed=3, rate=[0.4, 1.0, 2.0, 3.0], miss_probability=0.3, buffer_limit=6)
    return labelled_runs({"age": fw.simulate(network, "age", rounds=rounds, instances=2, seed=9)})


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", TASKS)
def test_every_task_equals_the_reference(name: str, optimizer: str) -> None:
    for run in distances_of(runs(), task_named(name, optimizer=optimizer), stop=2):
        assert run.come > 0.005, "nothing was learnt, so nothing is compared"
        assert run.off < 1e-9
        assert run.loss < 1e-6


@pytest.mark.parametrize("lanes, precision, limit", [(2, "float64", 1e-9), (None, "float32", 1e-3)])
def test_adam_of_few_lanes_and_in_float32(lanes: int | None, precision: str, limit: float) -> None:
    for run in distances_of(runs(), task_named("table", optimizer="adam"), lanes=lanes, precision=precision):
        assert run.off < limit


def test_a_loss_that_cannot_be_vectorised_takes_the_slower_path() -> None:
    precision = Precision(torch.device("cpu"), torch.float64)
    methods = {name: Gradients(task_named(name), precision).method for name in TASKS}
    one_by_one = {name for name, method in methods.items() if method == "one by one"}
    assert one_by_one == {"loss that looks at values"}
    assert methods["images"] == "chain"


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_local_training_is_that_of_torchs_own_optimizers(optimizer: str) -> None:
    """One device, one round, every sample in one batch: by torch.optim, and g = (start - w) / eta is uploaded."""
    data = dataset(TABLE[:5], HEIGHTS[:5], np.zeros(5, int))
    numbers: dict[str, Any] = {"shard_size": 5, "batch": 5, "epochs": 6, "eta": 0.02, "prox": 0.0}
    made = Task(data, of_table, loss="mse", partition="owner", optimizer=optimizer, aggregation="constant", **numbers)
    model = made.new_model(0, 0).double()
    start = {k: p.detach().clone() for k, p in model.named_parameters()}
    theirs: torch.optim.Optimizer = {
        "sgd": lambda: torch.optim.SGD(model.parameters(), lr=0.02),
        "momentum:momentum=0.8": lambda: torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.8),
        "adam:beta2=0.95": lambda: torch.optim.Adam(model.parameters(), lr=0.02, betas=(0.9, 0.95)),
    }[optimizer]()
    x, y = (torch.as_tensor(array).double() for array in (data.train_inputs, data.train_targets))
    for _ in range(6):
        theirs.zero_grad()
        (model(x)[:, 0] - y).square().mean().backward()  # type: ignore[no-untyped-call]
        theirs.step()
    curves = fw.train(by_hand([[1]], [[True]]), made, precision="float64")
    for name, p in model.named_parameters():
        np.testing.assert_allclose(curves.weights[0][name], p.detach().numpy(), rtol=1e-9, atol=1e-12)
        assert not torch.equal(p, start[name])


def test_a_user_is_a_device_and_samples_come_in_their_order() -> None:
    sampler = task_named("users, own loss").sampler(DEVICES)
    assert isinstance(sampler, OwnerSampler)
    for device, user in enumerate(("al", "bo", "cy", "di")):
        mine = np.flatnonzero(np.isin(USERS, user))
        again = np.tile(mine, 4)  # used up: the first comes again
        assert sampler.shards(0, 0, 1, device, 2).tolist() == again[:10].tolist()
        assert sampler.shards(8, 3, 7, device, 1, before=2).tolist() == again[10:15].tolist()
        assert sampler.shards(0, 0, 9, device, 5, before=3).tolist() == again[15:40].tolist()


@pytest.mark.parametrize(
    "rule, wanted",
    [
        ("lee", [[0, 1, 2, 3, 4, 5], [0, 1, 6], [0, 1, 2, 2, 3, 3, 4, 5, 6]]),
        ("sync", [[], [0, 0, 1, 1, 2, 3, 4, 5, 6], [0, 1, 2, 2, 3, 3, 4, 5, 6]]),
    ],
)
def test_devices_of_a_run_go_on_where_they_stopped(rule: str, wanted: list[list[int]]) -> None:
    """A user with seven samples gets shards of three: 2, then 1, then 3 shards; with sync they wait for a delivery."""
    x, y = np.zeros((7, 1)), np.arange(7.0)
    data = fw.Dataset("mine", x, y, x, y, np.zeros(7, int))
    numbers: dict[str, Any] = {"shard_size": 3, "epochs": 1, "loss": "mse", "partition": "owner", "aggregation": rule}
    made = Task(data, lambda: nn.Linear(1, 1), **numbers)
    trace = by_hand([[2], [1], [3]], [[False], [True], [True]])
    replay = Replay(labelled_runs({"mine": trace}), made, Settings(tolerance=0.0), fw.EvaluationSizes())
    found = []
    for _ in range(3):
        samples = replay.lanes_of_round().batches.samples
        found.append(sorted(samples[samples >= 0].tolist()))
        replay.advance()
    assert found == wanted


@pytest.mark.parametrize("name", ["users, own loss", "users, sync"])
def test_training_in_lock_step_equals_the_replay_of_its_trace(name: str) -> None:
    network = fw.random_network(DEVICES, 2, seed=3, miss_probability=0.3)
    made, more = task_named(name, optimizer="adam"), {"precision": "float64"}
    trace, curves = fw.train_in_lock_step(network, "update-aware", made, rounds=5, instances=2, **more)
    again = fw.train(trace, made, tolerance=0, **more)
    np.testing.assert_allclose(curves.loss, again.loss, rtol=1e-9)
    assert (curves.loss[-1] != curves.loss[0]).all()


def test_curves_have_the_metric_by_its_name(tmp_path: Path) -> None:
    trace = fw.simulate(fw.random_network(DEVICES, 2, seed=3), "age", rounds=3, instances=2)
    curves = fw.train(trace, task_named("table"), sizes=fw.EvaluationSizes(test_images=10, full_every=2))
    assert (curves.mae.shape, curves.better, curves.class_accuracy.shape) == ((3, 2), "lower", (3, 2, 0))
    assert list(curves.series) == ["loss", "mae", "mae_on_all"]
    assert np.isfinite(curves.mae_on_all[1:]).all()
    with pytest.raises(AttributeError):
        _ = curves.accuracy
    model = task_named("table").trained_model(curves.weights[1])
    with torch.no_grad():
        errors = model(torch.as_tensor(TABLE[:30], dtype=torch.float32))[:, 0].numpy() - HEIGHTS[:30]
    assert curves.mae_on_all[-1, 1] == pytest.approx(np.abs(errors).mean(), rel=1e-4)
    assert curves.reaches(1e9).all()  # lower is better
    again = fw.Curves.load(curves.save(tmp_path / "run.npz"))
    np.testing.assert_array_equal(again.mae, curves.mae)
    assert again.better == "lower"
    curves.plot()


def test_weights_are_saved_as_safetensors(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    trace = fw.simulate(fw.random_network(DEVICES, 2, seed=3), "age", rounds=2, instances=2)
    curves, made = fw.train(trace, task_named("text")), task_named("text")
    for instance in range(2):
        read = safetensors.load_file(curves.save_weights(tmp_path / f"{instance}.safetensors", instance))
        model = Text()
        model.load_state_dict(read)
        for name, values in curves.weights[instance].items():
            np.testing.assert_array_equal(model.state_dict()[name].numpy(), values)
        made.trained_model(read)
    with refused("w.npz"):
        curves.save_weights(tmp_path / "w.npz")
    with refused("instance", 2):
        curves.save_weights(tmp_path / "w.safetensors", 2)


def too_long(outputs: Tensor, targets: Tensor) -> Tensor:
    return torch.cat([outputs[:, 0], outputs[:, 0]])


def is_nan(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.mean() * float("nan")


def without_gradient(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.detach().mean()


def loses_a_key(outputs: Tensor, targets: Tensor) -> Tensor:
    raise KeyError("temperature")


def upside_down(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.mean()


upside_down.better = "up"  # type: ignore[attr-defined]


def backlog(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.mean()


class Pair(nn.Module):
    """Returns two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(x), x


HOSTILE: dict[str, tuple[dict[str, Any], tuple[object, ...]]] = {
    "a target too many": ({"loss": "mse", "dataset": dataset(TABLE, TABLE[:, :2])}, ("(2, 1)", "(2, 2)")),
    "a vector of wrong length": ({"loss": too_long}, ("loss", "too_long", "(4,)", "(2,)")),
    "a loss that is NaN": ({"loss": is_nan}, ("loss", "is_nan", "nan")),
    "a loss that is a float": ({"loss": lambda outputs, targets: 0.5}, ("float",)),
    "a loss without a gradient": ({"loss": without_gradient}, ("gradient",)),
    "a loss that raises": ({"loss": loses_a_key}, ("loses_a_key", "KeyError", "temperature")),
    "a loss that is no function": ({"loss": 3}, ("loss", 3)),
    "a class in place of a loss": ({"loss": nn.MSELoss}, ("MSELoss",)),
    "an unknown loss": ({"loss": "msee"}, ("msee", "mse")),
    "a parameter that a loss lacks": ({"loss": "mse:delta=1"}, ("mse", "delta")),
    "an unknown optimizer": ({"loss": "mse", "optimizer": "adamw"}, ("adamw", "adam")),
    "a momentum above 1": ({"loss": "mse", "optimizer": "momentum:momentum=1.5"}, ("momentum", 1.5)),
    "numbers as classes": ({"loss": "cross-entropy"}, ("cross-entropy", "float32", "mse")),
    "accuracy of numbers": ({"loss": "mse", "metric": "accuracy"}, ("accuracy", "float32")),
    "accuracy as a loss": ({"loss": "accuracy", "dataset": dataset(TABLE, TOKENS[:, 0] % 3)}, ("gradient",)),
    "a metric called as another": ({"loss": "mse", "metric": backlog}, ("backlog",)),
    "a metric better upwards": ({"loss": "mse", "metric": upside_down}, ("up", "higher", "lower")),
    "outputs that are no tensor": ({"loss": "mse", "model": Pair}, ("tuple",)),
    "no owners": ({"loss": "mse", "partition": "owner"}, ("owner", "owners")),
    "label skew of numbers": ({"loss": "mse", "partition": "dirichlet"}, ("dirichlet", "owner")),
    "token ids for a linear layer": (
        {"loss": "mse", "dataset": dataset(TOKENS[:, :3], HEIGHTS)},
        ("whole numbers", "float32"),
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_task_that_cannot_be_trained_is_refused(name: str) -> None:
    given, tokens = HOSTILE[name]
    with refused(*tokens) as found:
        fw.task(**({"dataset": dataset(TABLE, HEIGHTS), "model": of_table} | given))
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("devices", [DEVICES - 1, DEVICES + 1])
def test_users_and_devices_must_be_as_many(devices: int) -> None:
    trace = fw.simulate(fw.random_network(devices, 2), "age", rounds=2, instances=1)
    with refused(f"{DEVICES} users", f"{devices} devices"):
        fw.train(trace, task_named("users, own loss"))


def test_a_scheduler_of_labels_refuses_a_task_without_them() -> None:
    with refused("labels"):
        fw.simulate(fw.random_network(DEVICES, 2), "mass-labels", 2, 1, labels=task_named("table").labels())
    with pytest.raises(FedwaveError, match="owner"):
        fw.partition.Labels("owner")


def test_owners_are_used_unless_another_partition_is_named() -> None:
    data, model, _ = TASKS["users, own loss"]
    assert fw.task(dataset=data, model=model, loss="mse").partition == fw.partition.ByOwner()
    assert fw.task(dataset=data, model=model, loss="mse", partition="iid").partition == fw.partition.Iid()


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs[:, 0] - targets).square()


@pytest.mark.parametrize(("name", "better"), [("squared", ""), ("weights", "lower"), ("squared_on_all", "lower")])
def test_a_metric_says_what_is_better_and_has_a_name_of_its_own(name: str, better: str) -> None:
    def metric(outputs: Tensor, targets: Tensor) -> Tensor:
        return squared(outputs, targets)

    metric.__name__ = name
    if better:
        metric.better = better  # type: ignore[attr-defined]
    data = dataset(TABLE, HEIGHTS)
    with refused(name):
        fw.task(dataset=data, model=of_table, loss="mse", metric=metric)
    assert fw.task(dataset=data, model=of_table, loss=squared).metric.better == "lower"
