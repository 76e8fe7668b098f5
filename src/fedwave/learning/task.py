"""``fw.task``: data, a model and the numbers of local training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from fedwave.aggregation import Aggregation, Lee
from fedwave.errors import FedwaveError, as_int, check_number, check_parameters, did_you_mean, short_repr
from fedwave.learning.criteria import Criterion, accuracy, check_metric, cross_entropy
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.dropout import seeded
from fedwave.learning.model_check import check_trainable, make_model
from fedwave.learning.optimizers import Optimizer, Sgd
from fedwave.learning.sampling import OwnerSampler, Sampler
from fedwave.learning.settings import one_thread
from fedwave.metrics import check_training_metric
from fedwave.network.partition import ByClass, ByOwner, Dirichlet, Iid, Labels, Partition
from fedwave.parts import registry
from fedwave.rng import stream
from fedwave.types import Array

_LARGEST = 1e15  # of eta, prox and l2
_NO_MODEL = "a task on your own data needs model=, a function that makes an nn.Module."
_MOST = 10**8  # samples in a shard or a batch, and epochs


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """What devices learn, and how. ``fw.task`` makes one from names.

    ``model`` is a function without arguments that makes an ``nn.Module``; it maps inputs ``[n, ...]`` to outputs,
    such as logits ``[n, classes]``. A shard is ``shard_size`` samples. A device trains ``epochs`` epochs with rate
    ``eta`` in batches of ``batch`` samples on

        mean loss + (prox/2) ||w - start||^2 + (l2/2) ||w||^2.

    ``loss`` is "cross-entropy", "mse", "mae" or a function of outputs and targets, which returns a number for each
    sample or their mean. ``metric`` is what central models are tested by: one of these, "accuracy", or a function with
    an attribute ``better`` ("higher" or "lower"). By default it is the accuracy for cross-entropy, else the loss.
    ``optimizer`` is "sgd", "momentum" or "adam"; its memory begins anew in every local training.

    ``partition`` gives the classes of a device's samples, and ``aggregation`` the weight of each upload and the decay
    of gradients that were not delivered. All of these are objects or names.

    >>> import fedwave as fw
    >>> task = fw.task("synthetic:train=100,test=50", model="logistic", aggregation="fedbuff:size=20")
    >>> task.aggregation.size, task.batch
    (20, 10)
    >>> task.new_model(seed=0, instance=3).out.weight.shape
    torch.Size([10, 784])
    """

    dataset: Dataset
    model: Callable[[], nn.Module]
    shard_size: int = 10
    batch: int = 10
    epochs: int = 10
    eta: float = 0.01
    prox: float = 0.01  # the paper gives no value
    l2: float = 0.0
    partition: Partition = field(default_factory=Iid)
    aggregation: Aggregation = field(default_factory=Lee)
    loss: Any = "cross-entropy"  # kept as a Criterion, as is the metric
    metric: Any = None
    optimizer: Optimizer = field(default_factory=Sgd)
    draws: bool = field(init=False)  # whether the model draws from torch's generator in training

    def __post_init__(self) -> None:
        for family in ("partition", "aggregation", "optimizer"):  # by name, as a mapping or an object
            object.__setattr__(self, family, registry.build(family, getattr(self, family)))
        for name in ("shard_size", "batch", "epochs"):
            object.__setattr__(self, name, as_int(f"task {name}", getattr(self, name), 1, _MOST))
        for name in ("eta", "prox", "l2"):
            value = getattr(self, name)
            check_number(f"task {name}", value, "> 0" if name == "eta" else ">= 0", f"<= {_LARGEST:g}")
            if isinstance(value, bool):  # torch tells True from 1
                object.__setattr__(self, name, float(value))
        if self.batch == 1:
            raise FedwaveError("task batch is 1, must be at least 2: a batch of one sample is never trained on.")
        object.__setattr__(self, "loss", Criterion.of("loss", self.loss))
        usual = "accuracy" if self.loss.function is cross_entropy else replace(self.loss, better="lower")
        object.__setattr__(self, "metric", Criterion.of("metric", usual if self.metric is None else self.metric))
        check_metric(self.metric)
        self._check_targets()
        with one_thread():
            draws = check_trainable(lambda instance: self.new_model(0, instance), self.dataset, self.loss, self.metric)
        object.__setattr__(self, "draws", draws)

    def _check_targets(self) -> None:
        """Raises FedwaveError unless the loss, the metric and the partition fit the targets."""
        data = self.dataset
        check_training_metric(self.metric.name)
        for what in ("loss", "metric"):
            one = getattr(self, what)
            if one.function in (cross_entropy, accuracy) and not data.classes:
                raise FedwaveError(
                    f"task {what} is {one.text}, but the targets of {data.name} are {data.train_targets.dtype}, must "
                    "be classes as whole numbers: convert them (.astype(int)), or choose loss='mse'."
                )
        if isinstance(self.partition, ByOwner):
            if data.owner is None:
                raise FedwaveError(
                    f"task partition is 'owner', but the dataset {data.name} has no owners: Dataset(..., owner=users)."
                )
        elif not (isinstance(self.partition, Iid) or self._has_labels):
            raise FedwaveError(
                f"task partition is {self.partition.name!r}, but the targets of {data.name} are not one class per "
                "sample: choose 'iid' or 'owner'."
            )

    @property
    def _has_labels(self) -> bool:
        return self.dataset.classes > 0 and self.dataset.train_targets.ndim == 1

    @property
    def classes(self) -> int:
        """The number of classes whose accuracy is measured; 0 with another metric."""
        return self.dataset.classes if self.metric.function is accuracy else 0

    @property
    def is_usual(self) -> bool:
        """Does it classify images by cross-entropy? That is what the fastest gradients are made for."""
        data = self.dataset
        images = data.train_inputs.ndim == 4 and data.train_inputs.dtype == np.float32 and data.train_targets.ndim == 1
        return images and self.loss.function is cross_entropy

    @property
    def numbers(self) -> dict[str, Any]:
        """The parameters as plain values, for results and checkpoints."""
        names = ("shard_size", "batch", "epochs", "eta", "prox", "l2")
        return {
            "dataset": self.dataset.name,
            **{name: getattr(self, name) for name in names},
            "partition": registry.full_text("partition", self.partition),
            "aggregation": registry.full_text("aggregation", self.aggregation),
            "loss": self.loss.text,
            "metric": self.metric.text,
            "optimizer": registry.full_text("optimizer", self.optimizer),
        }

    @property
    def model_name(self) -> str:
        """The model in one line."""
        make = self.model
        if isinstance(make, partial):
            name = getattr(make.func, "__name__", "model")
            return registry.text({"name": name, **make.keywords})
        return str(getattr(make, "__name__", type(make).__name__))

    def __repr__(self) -> str:
        data, given = self.dataset, self.numbers
        model = self.model_name
        shape = " x ".join(str(n) for n in data.train_inputs.shape[1:])
        others = ", ".join(f"{name} {given[name]}" for name in ("loss", "metric", "optimizer"))
        numbers = ", ".join(f"{k} {v}" for k, v in given.items() if not isinstance(v, str))
        return (
            f"Task {data.name!r}: {len(data.train_targets):,} training and {len(data.test_targets):,} test samples "
            f"({shape}), {data.about_targets}\n"
            f"  {model}, {numbers}\n  partition {given['partition']}, aggregation {given['aggregation']}\n  {others}"
        )

    def sampler(self, devices: int) -> Sampler:
        """Draws the shards of this task for a network of so many devices."""
        data = self.dataset
        if isinstance(self.partition, ByOwner):
            if data.users != devices:
                raise FedwaveError(
                    f"the dataset {data.name} has samples of {data.users} users, but the network {devices} devices: "
                    "with partition 'owner' each user is one device, so make them the same number."
                )
            return OwnerSampler(data.owner, self.shard_size)
        labels = data.train_targets if self._has_labels else np.zeros(len(data.train_targets), np.int64)
        return Sampler(labels, self.partition, self.shard_size)

    def labels(self) -> Labels | None:
        """The classes of the shards of this task, for ``simulate`` with a scheduler that sees them; None without."""
        data = self.dataset
        if isinstance(self.partition, ByOwner) or not self._has_labels:
            return None
        # By these two, no device draws from the whole training set. By a subclass of the user's, one may.
        skewed = type(self.partition) in (Dirichlet, ByClass)
        small = np.min_scalar_type(int(data.train_targets.max()))
        training = None if skewed else data.train_targets.astype(small)
        classes = int(data.train_targets.max()) + 1
        return Labels(self.partition, classes, self.shard_size, training)

    def new_model(self, seed: int, instance: int) -> nn.Module:
        """A freshly initialised model: the same for every scheduler of an instance."""
        number = int(stream(seed, "weights", instance).integers(2**62))
        with seeded(number):
            return make_model(self.model, torch.as_tensor(self.dataset.train_inputs[:2]))

    def trained_model(self, weights: Mapping[str, Array]) -> nn.Module:
        """A model with weights from a training (``curves.weights[i]``), in eval mode."""
        model = self.new_model(0, 0)
        state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        if state.keys() != weights.keys() or any(p.shape != weights[k].shape for k, p in state.items()):
            raise FedwaveError(
                "the weights do not fit the model of this task: pass those of its own training, such as "
                "curves.weights[0]."
            )
        with torch.no_grad():
            for name, tensor in state.items():
                tensor.copy_(torch.as_tensor(weights[name]))
        return model.eval()


PRESETS: dict[str, dict[str, Any]] = {
    "mnist": {"model": "cnn", "shard_size": 10, "batch": 10, "epochs": 10},
    "cifar10": {"model": "vgg19", "shard_size": 50, "batch": 50, "epochs": 5},
    "synthetic": {"model": "cnn", "shard_size": 10, "batch": 10, "epochs": 10},
}


def task(
    name: str | Mapping[str, Any] | None = None,
    *,
    dataset: str | Mapping[str, Any] | Dataset | None = None,
    model: str | Mapping[str, Any] | Callable[[], nn.Module] | None = None,
    **numbers: Any,
) -> Task:
    """Make a Task on a dataset by name ("mnist", "cifar10", "synthetic"), or on a Dataset of your own.

    A dataset by name comes with the model and the numbers of the paper. ``model`` is a name or a function that makes an
    ``nn.Module``; your own Dataset needs one. ``numbers`` are the other fields of a Task. Parts can be given by name,
    with parameters. The partition of a Dataset with owners is "owner" unless another is given.

    >>> import fedwave as fw
    >>> fw.task("synthetic:train=100,test=50", epochs=5, partition="dirichlet:alpha=0.2")
    Task 'synthetic': 100 training and 50 test samples (1 x 28 x 28), 10 classes
      Cnn, shard_size 10, batch 10, epochs 5, eta 0.01, prox 0.01, l2 0.0
      partition dirichlet:alpha=0.2, aggregation lee:beta=0.001
      loss cross-entropy, metric accuracy, optimizer sgd
    """
    given: Any = dataset if dataset is not None else name
    if given is None:
        raise FedwaveError("a task needs data: name a dataset, such as 'mnist', or pass dataset=.")
    settings: dict[str, Any] = {}
    if isinstance(given, (str, Mapping)):
        settings = dict(PRESETS.get(registry.parse("dataset", given)["name"], {}))
        given = registry.build("dataset", given)
    if not isinstance(given, Dataset):
        raise FedwaveError(f"dataset is {short_repr(given)}, must be a Dataset or the name of one, such as 'mnist'.")
    if given.owner is not None:
        settings["partition"] = "owner"
    if model is not None:
        settings["model"] = model
    if "model" not in settings:
        raise FedwaveError(_NO_MODEL)
    chosen = _factory(settings.pop("model"))
    known = [f.name for f in fields(Task) if f.init and f.name not in ("dataset", "model")]
    for key in numbers:
        if key not in known:
            raise FedwaveError(f"a task has no field {key!r}; {did_you_mean(key, known)}")
    return Task(given, chosen, **(settings | numbers))


def bare_model(dataset: str | Mapping[str, Any], model: str | Mapping[str, Any] | None) -> nn.Module:
    """The model of a task by name, made without its data: lazy layers have no sizes yet."""
    preset = PRESETS.get(registry.parse("dataset", dataset)["name"], {})
    chosen = model if model is not None else preset.get("model")
    if chosen is None:
        raise FedwaveError(_NO_MODEL)
    with seeded(0):
        return make_model(_factory(chosen), None)


def _factory(model: Any) -> Callable[[], nn.Module]:
    """The function that makes a model: the given one, or a registered one with its parameters."""
    if not isinstance(model, (str, Mapping)):
        return model  # type: ignore[no-any-return]
    given = registry.parse("model", model)
    name = given.pop("name")
    make: Callable[..., nn.Module] = registry.find("model", name)
    check_parameters(f"model {name!r}", given, registry.parameter_names("model", name))
    return partial(make, **given) if given else make
