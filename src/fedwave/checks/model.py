"""The contract of a model: a function that makes an nn.Module which can be trained."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from fedwave.checks.common import Check, CheckReport, report
from fedwave.errors import FedwaveError
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.model_check import make_model, outputs_and_gradients
from fedwave.learning.task import Task

_SHAPES = ((1, 28, 28), (3, 32, 32))  # of MNIST and CIFAR-10


def check_model(make: Any, name: str, dataset: Dataset | None = None) -> CheckReport:
    """Run the checks on a function that makes a model; ``dataset`` has images that it is made for."""
    return report(f"model {name!r}", CHECKS, _Subject(make, dataset))


class _Subject:
    """The function, and the smallest task that it fits into."""

    def __init__(self, make: Any, dataset: Dataset | None) -> None:
        self.make, self.dataset = make, dataset

    @cached_property
    def task(self) -> Task:
        if self.dataset is not None:
            return self._on(self.dataset)
        for shape in _SHAPES:
            try:
                return self._on(_random_images(shape))
            except FedwaveError as error:
                why = str(error)
        raise FedwaveError(
            f"{why.rstrip('.')}; it takes neither images of shape {_SHAPES[0]} nor {_SHAPES[1]} with ten classes: pass "
            "dataset=, a Dataset that it is made for."
        )

    def _on(self, data: Dataset) -> Task:
        return Task(data, self.make, shard_size=2, batch=2, epochs=1, eta=0.05)


def _random_images(shape: tuple[int, ...]) -> Dataset:
    rng = np.random.default_rng(0)
    images, labels = rng.standard_normal((20, *shape), np.float32), np.arange(20) % 10
    return Dataset("random", images, labels, images, labels)


def _declaration(subject: _Subject) -> None:
    make_model(subject.make, None)


def _images(subject: _Subject) -> None:
    task = subject.task  # refuses a model that cannot be trained on them (model_check.py)
    images, labels = task.dataset.train_images[:3], task.dataset.train_labels[:3]
    if not np.isfinite(outputs_and_gradients(task.new_model(0, 0), images, labels)[0]).all():
        raise FedwaveError("its outputs are NaN or infinite before any training.")


def _gradients(subject: _Subject) -> None:
    data = subject.task.dataset
    model = subject.task.new_model(0, 0)
    for name, gradient in outputs_and_gradients(model, data.train_images[:2], data.train_labels[:2])[1].items():
        if gradient is None:
            raise FedwaveError(
                f"the parameter {name!r} does not enter the loss: use it in forward, or make it a buffer."
            )
        if not np.isfinite(gradient).all():
            raise FedwaveError(f"the gradient of {name!r} is NaN or infinite in the first step.")


CHECKS: dict[str, Check] = {"declaration": _declaration, "images": _images, "gradients": _gradients}
