"""The state of a model as tensors by name: what is trained, and what is carried along."""

from __future__ import annotations

from torch import Tensor, nn

Tensors = dict[str, Tensor]


def trained_of(model: nn.Module) -> Tensors:
    """Copies of the parameters that are trained."""
    return {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}


def carried_of(model: nn.Module) -> Tensors:
    """Copies of the rest: buffers such as running statistics, and frozen parameters (``requires_grad=False``)."""
    frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
    return {name: p.detach().clone() for name, p in (frozen | dict(model.named_buffers())).items()}
