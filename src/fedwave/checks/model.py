"""The contract of a model: a function that makes an nn.Module which can be trained."""

from __future__ import annotations

import numpy as np

from fedwave.checks.shared import Family, Trial
from fedwave.errors import FedwaveError
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.model_check import make_model, outputs_and_gradients
from fedwave.learning.task import Task

_SHAPES = ((1, 28, 28), (3, 32, 32))  # of MNIST and CIFAR-10


def _try(trial: Trial) -> None:
    make_model(trial.part, None)


def _task(trial: Trial) -> Task:
    """The smallest task that the model fits into; a model that cannot be trained is refused (model_check.py)."""
    why = ""
    for data in [trial.dataset] if trial.dataset is not None else map(_random_images, _SHAPES):
        try:
            return Task(data, trial.part, shard_size=2, batch=2, epochs=1, eta=0.05)
        except FedwaveError as error:
            if trial.dataset is not None:
                raise
            why = str(error).rstrip(".")
    raise FedwaveError(
        f"{why}; it takes neither images of shape {_SHAPES[0]} nor {_SHAPES[1]} with ten classes: pass dataset=, a "
        "Dataset that it is made for."
    )


def _random_images(shape: tuple[int, ...]) -> Dataset:
    rng = np.random.default_rng(0)
    images, labels = rng.standard_normal((20, *shape), np.float32), np.arange(20) % 10
    return Dataset("random", images, labels, images, labels)


def _images(trial: Trial) -> None:
    task = _task(trial)
    images, labels = task.dataset.train_inputs[:3], task.dataset.train_targets[:3]
    outputs, _ = outputs_and_gradients(task.new_model(0, 0), task.loss, images, labels)
    if not np.isfinite(outputs).all():
        raise FedwaveError("its outputs are NaN or infinite before any training.")
    trial.notes.append(task)


def _gradients(trial: Trial) -> None:
    (task,) = trial.notes
    _, gradients = outputs_and_gradients(
        task.new_model(0, 0), task.loss, task.dataset.train_inputs[:2], task.dataset.train_targets[:2]
    )
    for name, gradient in gradients.items():
        if gradient is None:
            raise FedwaveError(
                f"the parameter {name!r} does not enter the loss: use it in forward, or make it a buffer."
            )
        if not np.isfinite(gradient).all():
            raise FedwaveError(f"the gradient of {name!r} is NaN or infinite in the first step.")


FAMILY = Family(
    try_part=_try, checks={"images": _images, "gradients": _gradients}, trial_name="declaration", shared_checks=()
)
