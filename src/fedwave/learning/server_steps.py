"""The server step of an aggregation rule, applied to the parameters of a model as one vector."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedwave.aggregation import Aggregation, Memory, Uploads
from fedwave.learning.model_rows import Tensors


def start(rule: Aggregation, w: Tensors) -> Tensors:
    """The rule's memory before the first round; empty without a server step."""
    if not rule.has_server_step():
        return {}
    return _tensors(rule.start(torch.zeros_like(_vector(w))), w)


def step(rule: Aggregation, memory: Tensors, update: Tensors, uploads: Uploads) -> tuple[Tensors, Tensors]:
    """The memory after a round, and the step that w takes instead of the round's own ``update``."""
    if not rule.has_server_step():
        return memory, update
    after, vector = rule.server_step(memory, _vector(update), uploads)
    pieces = torch.split(vector, [p.numel() for p in update.values()])
    shaped = zip(update.items(), pieces, strict=True)
    return _tensors(after, update), {k: piece.view_as(p) for (k, p), piece in shaped}


def as_tensor(value: Any) -> Tensor:
    """An array as a tensor, for the contract checks of rules."""
    return torch.as_tensor(value)


def _vector(tensors: Tensors) -> Tensor:
    return torch.cat([p.flatten() for p in tensors.values()])


def _tensors(memory: Memory, like: Tensors) -> Tensors:
    """A user's rule may keep plain numbers in its memory, but a checkpoint needs tensors."""
    device = next(iter(like.values())).device
    return {k: torch.as_tensor(v, device=device) for k, v in memory.items()}
