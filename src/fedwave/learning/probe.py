"""Models and tensors as plain arrays, for the contract checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fedwave.learning.evaluation import EvaluationSizes, Evaluator
from fedwave.learning.reference import train_run
from fedwave.learning.replay import Replay, Settings
from fedwave.learning.schedule import Run, labelled_runs
from fedwave.learning.task import Task
from fedwave.network.arrivals import RecordedArrivals
from fedwave.network.devices import Device
from fedwave.network.network import Network
from fedwave.simulate import simulate
from fedwave.types import Array

_SIZES = EvaluationSizes(2, 2)
_SETTINGS = Settings(tolerance=0.0, precision="float64")


def is_module(value: Any) -> bool:
    """Is it an nn.Module?"""
    return isinstance(value, nn.Module)


def tensor(value: Any) -> Tensor:
    """An array as a tensor."""
    return torch.as_tensor(value)


def weights(task: Task, seed: int) -> dict[str, Array]:
    """Parameters and buffers of a new model."""
    return _arrays(task.new_model(seed, 0).state_dict())


def logits(task: Task, *batches: Array) -> list[Array]:
    """The outputs of a new model for some batches of images, one after the other."""
    model = task.new_model(0, 0).eval()
    with torch.no_grad():
        return [model(torch.as_tensor(images)).numpy() for images in batches]


def gradients(task: Task) -> dict[str, Array | None]:
    """Gradients of the loss over the first two training images; None for a parameter that is not used."""
    model = task.new_model(0, 0).train()
    w = {
        name: p.detach().requires_grad_() for name, p in model.named_parameters() if p.requires_grad
    }
    images = torch.as_tensor(task.dataset.train_images[:2])
    labels = torch.as_tensor(task.dataset.train_labels[:2])
    loss = F.cross_entropy(functional_call(model, w, (images,)), labels)
    found = torch.autograd.grad(loss, list(w.values()), allow_unused=True)
    return {k: None if g is None else g.numpy() for k, g in zip(w, found, strict=True)}


def trained_in_lanes(task: Task) -> dict[str, Array]:
    """The parameters after one round, by the fast trainer, in float64."""
    replay = Replay(_runs(), task, _SETTINGS, _SIZES)
    while replay.round < replay.rounds:
        replay.advance()
    return _arrays(replay.states[0].w)


def trained_by_reference(task: Task) -> dict[str, Array]:
    """The same by the reference trainer."""
    evaluator = Evaluator(task, _SIZES, torch.device("cpu"), _SETTINGS.dtype)
    return _arrays(train_run(_runs()[0], task, evaluator, _SETTINGS.dtype)[1])


def _runs() -> list[Run]:
    """One round of two devices, each of which gets a shard and delivers it."""
    network = Network(
        devices=[Device(rate=1, distance_m=10)] * 2,
        slots=2,
        arrivals=RecordedArrivals(np.ones((1, 2), np.int64)),
    )
    return labelled_runs({"age": simulate(network, "age", 1, 1)})


def _arrays(tensors: dict[str, Tensor]) -> dict[str, Array]:
    return {name: value.detach().numpy() for name, value in tensors.items()}
