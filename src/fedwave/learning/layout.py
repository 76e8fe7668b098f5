"""Where each parameter of a model lies in one flat vector.

The models of a replay are rows of one tensor ``[model, P]``, so that gathering, mixing and storing them is one
operation each. Layers see views of the rows under the parameters' names.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor, nn

from fedwave.learning.state import Tensors

_ALIGNED = 16  # numbers; compiled kernels read aligned addresses faster


class Layout:
    """The trained parameters of a model, one after another, each at an aligned place; zeros between them."""

    def __init__(self, model: nn.Module) -> None:
        self.shapes = {k: tuple(p.shape) for k, p in model.named_parameters() if p.requires_grad}
        self._places: dict[str, tuple[int, int]] = {}  # first number, and how many
        self.size = 0
        for name, shape in self.shapes.items():
            self._places[name] = (self.size, prod(shape))
            self.size += -(-prod(shape) // _ALIGNED) * _ALIGNED

    def first(self, name: str) -> int:
        """The place of a parameter's first number."""
        return self._places[name][0]

    def flat(self, tensors: Tensors) -> Tensor:
        """The vector ``[..., P]`` of parameters ``[..., shape]``; a copy."""
        some = next(iter(tensors.values()))
        lead = some.shape[: some.ndim - len(next(iter(self.shapes.values())))]
        vector = torch.zeros(*lead, self.size, dtype=some.dtype, device=some.device)
        for name, view in self.views(vector).items():
            view.copy_(tensors[name])
        return vector

    def views(self, vector: Tensor) -> Tensors:
        """The parameters by name, ``[..., shape]``; what is written into them is written into ``vector``."""
        return {
            name: vector[..., first : first + count].view((*vector.shape[:-1], *self.shapes[name]))
            for name, (first, count) in self._places.items()
        }
