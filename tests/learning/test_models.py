"""The models, their first weights, and models that do not fit the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from refusals import refused
from tiny import blobs, linear, with_batch_norm
from torch import Tensor, nn

import fedwave as fw
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.models import Cnn, Logistic
from fedwave.learning.task import Task
from fedwave.parts import registry


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def count(model: nn.Module, kind: type[nn.Module]) -> int:
    return sum(isinstance(module, kind) for module in model.modules())


def test_the_cnn_has_the_papers_number_of_parameters() -> None:
    model = Cnn()
    assert parameters(model) == 21_840
    assert model(torch.zeros(3, 1, 28, 28)).shape == (3, 10)


@pytest.mark.parametrize("name, norms", [("vgg19", 16), ("vgg19-plain", 0)])
def test_vgg19_has_sixteen_convolutions(name: str, norms: int) -> None:
    model = registry.build("model", name).eval()
    assert count(model, nn.Conv2d) == 16
    assert count(model, nn.BatchNorm2d) == norms
    assert count(model, nn.MaxPool2d) == 5
    assert count(model, nn.Linear) == 1
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    widths = [64] * 2 + [128] * 2 + [256] * 4 + [512] * 8
    assert [c.out_channels for c in convolutions] == widths
    assert [c.in_channels for c in convolutions] == [3, *widths[:-1]]
    for convolution in convolutions:
        # Kaiming: variance 2 / (outputs * 9), no bias at the start.
        wanted = (2 / (9 * convolution.out_channels)) ** 0.5
        assert float(convolution.weight.detach().std()) == pytest.approx(wanted, rel=0.1)
        assert not convolution.bias.any()
    with torch.no_grad():
        assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_logistic_starts_at_zero() -> None:
    model = Logistic()
    assert parameters(model) == 7850
    assert not any(p.any() for p in model.parameters())
    assert model(torch.ones(2, 1, 28, 28)).shape == (2, 10)
    assert Logistic(6, 3)(torch.ones(2, 1, 2, 3)).shape == (2, 3)


# --- first weights --------------------------------------------------------------------------------


def first_weights(task: Task, seed: int, instance: int) -> Tensor:
    return nn.utils.parameters_to_vector(task.new_model(seed, instance).parameters()).detach()


def test_first_weights_depend_on_seed_and_instance_alone() -> None:
    task = Task(blobs(), linear)
    base = first_weights(task, 4, 7)
    torch.manual_seed(123)
    first_weights(task, 4, 8)
    assert torch.equal(base, first_weights(task, 4, 7))
    assert torch.equal(base, first_weights(Task(blobs(), linear, eta=0.5), 4, 7))
    for other in ((4, 8), (5, 7), (7, 4), (4, 0)):
        assert not torch.equal(base, first_weights(task, *other)), other


def test_making_a_model_leaves_the_random_state_of_torch_alone() -> None:
    before = torch.random.get_rng_state()
    task = Task(blobs(), linear)  # makes one too, to see whether it fits
    task.new_model(0, 0)
    assert torch.equal(before, torch.random.get_rng_state())


# --- models that do not fit -----------------------------------------------------------------------


def flat_linear(inputs: int, outputs: int) -> Any:
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(inputs, outputs))


class Net(nn.Module):
    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.out = nn.Linear(6, width)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(x.flatten(1))
        return found


def test_other_number_types_become_those_of_the_training() -> None:
    for kind in (torch.float64, torch.float16, torch.bfloat16):
        task = Task(blobs(), lambda kind=kind: Net().to(kind), shard_size=4, batch=4, epochs=1)  # type: ignore[misc]
        trace = fw.simulate(fw.random_network(3, 2, seed=3, rate=1.0), "age", 2, 1)
        assert fw.train(trace, task).weights[0]["out.weight"].dtype == "float32"


class Squeezes(Net):
    """Loses the dimension of the batch for a single image."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).squeeze()


class SqueezesFirst(Net):
    """Fails for a single image."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.squeeze())


def without_statistics() -> nn.Module:
    norm = nn.BatchNorm2d(2, track_running_stats=False)
    return nn.Sequential(nn.Conv2d(1, 2, 1), norm, nn.Flatten(), nn.Linear(12, 3))


# More of them: tests/support/broken_parts.py.
UNFIT: dict[str, tuple[Any, tuple[object, ...]]] = {
    "an output for every pixel": (lambda: nn.Conv2d(1, 1, 1), ("(2, 1, 2, 3)",)),
    "a module": (Net(), ("Net", "copy.deepcopy")),
    "makes a class": (lambda: Net, ("type",)),
    "needs an argument": (lambda width: Net(width), ("TypeError", "model")),
    # Evaluation must not depend on the batch.
    "loses the batch": (Squeezes, ("input",)),
    "fails for one image": (SqueezesFirst, ("input",)),
    "statistics of the batch": (without_statistics, ("input",)),
}


@pytest.mark.parametrize("name", UNFIT)
def test_models_that_do_not_fit_are_refused(name: str) -> None:
    make, tokens = UNFIT[name]
    for use in (lambda: Task(blobs(), make), lambda: fw.task(dataset=blobs(), model=make)):
        with refused(*tokens) as caught:
            use()
        assert "\n" not in str(caught.value)


def test_labels_of_the_test_set_need_outputs_too() -> None:
    data = blobs(classes=3)
    more = Dataset("more", data.train_inputs, data.train_targets, data.test_inputs, data.test_targets + 1)
    with refused("(2, 4)"):
        Task(more, linear)
    Task(more, flat_linear(6, 9))  # outputs to spare are no mistake


def test_lazy_layers_get_their_sizes_from_the_images() -> None:
    task = Task(blobs(), lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(3)))
    assert torch.equal(first_weights(task, 4, 7), first_weights(task, 4, 7))
    assert not torch.equal(first_weights(task, 4, 7), first_weights(task, 4, 8))
    assert first_weights(task, 0, 0).numel() == 7 * 4 + 5 * 3


def test_frozen_parameters_stay_as_they_are() -> None:
    def frozen() -> nn.Module:
        model = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
        model[1].weight.requires_grad_(False)
        return model

    task = Task(blobs(), frozen, shard_size=4, batch=4, eta=0.5, prox=0.1, l2=0.1)
    trace = fw.simulate(fw.random_network(3, 2, seed=3, rate=1.0), "age", 4, 1)
    start, after = task.new_model(0, 0).state_dict(), fw.train(trace, task).weights[0]
    assert (after["1.weight"] == start["1.weight"].numpy()).all()
    for name in ("1.bias", "3.weight", "3.bias"):
        assert (after[name] != start[name].numpy()).any()


# --- tasks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-1, 0.5, float("nan"), float("inf"), "ten", None])
def test_numbers_of_a_task_out_of_range(value: Any) -> None:
    for field in ("shard_size", "batch", "epochs", *(() if value == 0.5 else ("eta", "prox", "l2"))):
        with refused(field, repr(value)):
            Task(blobs(), linear, **{field: value})
    for field, least in (("eta", 0), ("batch", 1)):
        with refused(field if field == "eta" else "batch of one"):
            Task(blobs(), linear, **{field: least})
    whole = Task(blobs(), linear, shard_size=4.0, batch=2.0, epochs=3.0)  # type: ignore[arg-type]
    assert [type(n) for n in (whole.shard_size, whole.batch, whole.epochs)] == [int] * 3


@pytest.mark.parametrize(
    ("arguments", "tokens"),
    [
        ({"name": "synthetic", "aggregation": 0.001}, (0.001, "aggregation")),
        ({"name": "synthetic", "partition": "skewed"}, ("partition", "'skewed'")),
        ({"name": "synthetic", "beta": 0.5}, ("'beta'",)),
        ({"name": "nmist"}, ("'nmist'", "'mnist'")),
        ({}, ("data",)),
        ({"dataset": blobs()}, ("model=",)),
        ({"dataset": 3}, ("dataset", 3)),
        ({"dataset": blobs(), "model": linear, "epoch": 3}, ("'epoch'", "'epochs'")),
    ],
)
def test_a_task_that_cannot_be(arguments: dict[str, Any], tokens: tuple[object, ...]) -> None:
    with refused(*tokens):
        fw.task(**arguments)


def test_registered_functions_make_datasets_and_models() -> None:
    @fw.register("two-blobs", family="dataset")
    def two_blobs(train: int = 30) -> Dataset:
        return blobs(train=train)

    @fw.register("small-mlp", family="model")
    def small_mlp(width: int = 4) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))

    made = fw.task("two-blobs:train=12", model="small-mlp:width=7")
    assert len(made.dataset.train_targets) == 12
    assert parameters(made.new_model(0, 0)) == 7 * 7 + 8 * 3
    assert fw.task(dataset="two-blobs", model="small-mlp").model is small_mlp
    with pytest.raises(fw.FedwaveError, match="a task on your own data needs model="):
        fw.task("two-blobs")


def test_a_task_says_what_it_is_in_a_few_lines() -> None:
    shown = repr(fw.task(dataset=blobs(), model=linear, aggregation="sync:cap=2", eta=0.5))
    assert shown.splitlines() == [
        "Task 'blobs': 120 training and 60 test samples (1 x 2 x 3), 3 classes",
        "  linear, shard_size 10, batch 10, epochs 10, eta 0.5, prox 0.01, l2 0.0",
        "  partition iid, aggregation sync:cap=2",
        "  loss cross-entropy, metric accuracy, optimizer sgd",
    ]


def test_a_model_may_write_into_its_images() -> None:
    class Darker(Net):
        def forward(self, x: Tensor) -> Tensor:
            x -= 0.25
            return super().forward(x)

    class Apart(Net):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x - 0.25)

    data = blobs()
    before = data.train_inputs.copy(), data.test_inputs.copy()
    trace = fw.simulate(fw.random_network(3, 2, seed=3, rate=1.0), "age", 3, 1)
    numbers: dict[str, Any] = {"shard_size": 4, "batch": 4, "epochs": 1}
    written, apart = (fw.train(trace, Task(data, make, **numbers)) for make in (Darker, Apart))
    assert (data.train_inputs == before[0]).all()
    assert (data.test_inputs == before[1]).all()
    assert written.loss == pytest.approx(apart.loss, rel=1e-5)
    assert (written.accuracy == apart.accuracy).all()


# --- the trained weights as a model again ---------------------------------------------------------


@pytest.mark.parametrize("make", [with_batch_norm, linear])
def test_the_trained_model_comes_back(make: Any) -> None:
    task = Task(blobs(), make, shard_size=4, batch=4, eta=0.1)
    trace = fw.simulate(fw.random_network(3, 2, seed=3, rate=1.0), "age", 4, 2)
    curves = fw.train(trace, task)
    images, labels = task.dataset.test_inputs, task.dataset.test_targets
    for i, weights in enumerate(curves.weights):
        guess = task.trained_model(weights)(torch.as_tensor(images)).argmax(dim=1).numpy()
        assert (guess == labels).mean() == pytest.approx(curves.accuracy[-1, i])
    _, alone = fw.train_in_lock_step(fw.random_network(3, 2, seed=3, rate=1.0), "age", task, 4, 2)
    for ours, theirs in zip(curves.weights, alone.weights, strict=True):
        assert ours.keys() == theirs.keys()
        assert all(np.allclose(ours[k], theirs[k], rtol=1e-4, atol=1e-5) for k in ours)
    with pytest.raises(fw.FedwaveError, match="do not fit the model"):
        task.trained_model({"weight": np.zeros(3)})
