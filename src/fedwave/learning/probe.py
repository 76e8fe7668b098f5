"""Models and tensors as plain arrays, for the contract checks."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fedwave.learning.task import Task
from fedwave.types import Array


def is_module(value: Any) -> bool:
    """Is it an nn.Module?"""
    return isinstance(value, nn.Module)


def tensor(value: Any) -> Tensor:
    """An array as a tensor."""
    return torch.as_tensor(value)


def logits(task: Task, *batches: Array) -> list[Array]:
    """The outputs of a new model for some batches of images, one after the other."""
    model = task.new_model(0, 0).eval()
    with torch.no_grad():
        return [model(torch.tensor(images)).numpy() for images in batches]


def gradients(task: Task) -> dict[str, Array | None]:
    """Gradients of the loss over the first two training images; None for a parameter that is not used."""
    model = task.new_model(0, 0).train()
    w = {name: p.detach().requires_grad_() for name, p in model.named_parameters() if p.requires_grad}
    images = torch.tensor(task.dataset.train_images[:2])
    labels = torch.as_tensor(task.dataset.train_labels[:2])
    loss = F.cross_entropy(functional_call(model, w, (images,)), labels)
    found = torch.autograd.grad(loss, list(w.values()), allow_unused=True)
    return {k: None if g is None else g.numpy() for k, g in zip(w, found, strict=True)}
