"""The server step of an aggregation rule, applied to the parameters of a model as one vector ``[P]``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedwave.aggregation import Aggregation, Memory, Uploads
from fedwave.learning.model_rows import Tensors


def initial_memory(rule: Aggregation, w: Tensor) -> Tensors:
    """The rule's memory before the first round; empty without a server step."""
    return _tensors(rule.start(torch.zeros_like(w)), w) if rule.has_server_step() else {}


def server_step(rule: Aggregation, memory: Tensors, update: Tensor, uploads: Uploads) -> tuple[Tensors, Tensor]:
    """The memory after a round, and the step that w takes instead of the round's own ``update``."""
    if not rule.has_server_step():
        return memory, update
    after, step = rule.server_step(memory, update, uploads)
    return _tensors(after, update), step.view_as(update)


def as_tensor(value: Any) -> Tensor:
    """An array as a tensor, for the contract checks of rules, which do not import torch."""
    return torch.as_tensor(value)


def _tensors(memory: Memory, like: Tensor) -> Tensors:
    """A user's rule may keep plain numbers in its memory, but a checkpoint needs tensors."""
    return {k: torch.as_tensor(v, device=like.device) for k, v in memory.items()}
