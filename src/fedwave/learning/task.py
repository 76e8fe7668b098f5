"""A learning task: data, model and the numbers of local training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import nn

from fedwave.errors import FedwaveError, did_you_mean, is_number, whole
from fedwave.learning.data.dataset import Dataset, load_dataset
from fedwave.learning.models import MODELS
from fedwave.learning.partition import Iid, Partition, Sampler
from fedwave.rng import stream


@dataclass(frozen=True, eq=False)
class Task:
    """What devices learn, and how.

    A shard is ``shard_size`` samples. A device trains ``epochs`` epochs of plain SGD with rate ``eta`` in batches
    of ``batch`` on mean cross-entropy + (prox/2) ||w - start||^2 + (l2/2) ||w||^2. Gradients that could not be
    delivered decay by ``beta`` a round.
    """

    dataset: Dataset
    model: Callable[[], nn.Module]
    shard_size: int = 10
    batch: int = 10
    epochs: int = 10
    eta: float = 0.01
    beta: float = 0.001
    prox: float = 0.01  # the paper names the term and gives no value
    l2: float = 0.0
    partition: Partition = field(default_factory=Iid)

    def __post_init__(self) -> None:
        for name in ("shard_size", "batch", "epochs"):
            object.__setattr__(self, name, whole(f"task {name}", getattr(self, name), 1))
        for name in ("eta", "beta", "prox", "l2"):
            value = getattr(self, name)
            if not (is_number(value) and value >= 0):
                raise FedwaveError(f"task {name} is {value}, must be a number >= 0.")
        if self.eta == 0:
            raise FedwaveError("task eta is 0, must be a number > 0.")
        if self.batch == 1:
            raise FedwaveError(
                "task batch is 1, must be larger: a batch of one sample is never trained on."
            )
        self._check_model()

    def sampler(self) -> Sampler:
        """Draws the shards of this task."""
        return Sampler(self.dataset.train_labels, self.partition, self.shard_size)

    def new_model(self, seed: int, instance: int) -> nn.Module:
        """A freshly initialised model: the same for every scheduler of an instance."""
        number = int(stream(seed, "weights", instance).integers(2**62))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(number)
            return self.model()

    def _check_model(self) -> None:
        images = torch.as_tensor(self.dataset.train_images[:2])
        try:
            with torch.no_grad():
                outputs = self.new_model(0, 0).eval()(images)
        except (RuntimeError, ValueError) as error:
            first = str(error).split("\n")[0]
            raise FedwaveError(
                f"the model cannot take images of shape {tuple(images.shape[1:])}: {first}."
            ) from None
        wanted = self.dataset.classes
        if outputs.ndim != 2 or outputs.shape[1] < wanted:
            raise FedwaveError(
                f"the model's output has shape {tuple(outputs.shape)} for two images, but the labels need "
                f"(2, {wanted}) or more: give it one output per class."
            )


PRESETS: dict[str, dict[str, Any]] = {
    "mnist": {"model": "cnn", "shard_size": 10, "batch": 10, "epochs": 10},
    "cifar10": {"model": "vgg19", "shard_size": 50, "batch": 50, "epochs": 5},
    "synthetic": {"model": "cnn", "shard_size": 10, "batch": 10, "epochs": 10},
}


def task(
    name: str | None = None,
    *,
    dataset: str | Dataset | None = None,
    model: str | Callable[[], nn.Module] | None = None,
    **numbers: Any,
) -> Task:
    """A task by name ("mnist", "cifar10", "synthetic"), or from your own Dataset and model factory.

    Any number can be replaced: ``task("mnist", epochs=5, partition=Dirichlet(0.2))``.
    """
    given = dataset if dataset is not None else name
    if given is None:
        raise FedwaveError("a task needs data: name one, such as 'mnist', or pass dataset=.")
    settings: dict[str, Any] = {}
    if isinstance(given, str):
        if given not in PRESETS:
            raise FedwaveError(f"there is no dataset {given!r}; {did_you_mean(given, PRESETS)}")
        settings = dict(PRESETS[given])
        given = load_dataset(given)
    if model is not None:
        settings["model"] = model
    if "model" not in settings:
        raise FedwaveError(
            "a task on your own data needs model=, a function that makes an nn.Module."
        )
    chosen = settings.pop("model")
    if isinstance(chosen, str):
        if chosen not in MODELS:
            raise FedwaveError(f"there is no model {chosen!r}; {did_you_mean(chosen, MODELS)}")
        chosen = MODELS[chosen]
    known = [f.name for f in fields(Task) if f.name not in ("dataset", "model")]
    for key in numbers:
        if key not in known:
            raise FedwaveError(f"a task has no field {key!r}; {did_you_mean(key, known)}")
    return Task(given, chosen, **(settings | numbers))


def subset(size: int, wanted: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A fixed choice of ``wanted`` samples out of ``size``, the same in every run."""
    if wanted >= size:
        return np.arange(size)
    return np.sort(np.random.default_rng(0).permutation(size)[:wanted])
