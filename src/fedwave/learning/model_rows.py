"""The state of models as tensors: of one model by name, of many models as rows.

The state of a model has two parts. The *trained parameters* are what SGD changes; the *carried state* is the rest:
buffers such as running statistics, and frozen parameters. Many models of one kind are the rows of ``ModelRows``: their
trained parameters are one tensor ``[N, P]``, so that gathering, mixing and storing them is one operation each. A
``Layout`` says where each parameter lies in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor, nn

from fedwave.counter_rng import count_within
from fedwave.types import Array, IntArray

Tensors = dict[str, Tensor]  # by the name of the parameter or buffer

_ALIGNED = 16  # numbers; compiled kernels read aligned addresses faster


def as_tensor(array: Array | Tensor, dtype: torch.dtype, device: torch.device | str = "cpu") -> Tensor:
    """Inputs or targets as a tensor: whole numbers stay what they are, others get this type."""
    tensor = torch.as_tensor(array)
    return tensor.to(device, dtype) if tensor.is_floating_point() else tensor.to(device)


def trained_parameters(model: nn.Module) -> Tensors:
    """Copies of the parameters that are trained."""
    return {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}


def carried_state(model: nn.Module) -> Tensors:
    """Copies of the rest: frozen parameters (``requires_grad=False``), then buffers such as running statistics."""
    frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
    return {name: p.detach().clone() for name, p in (frozen | dict(model.named_buffers())).items()}


class Layout:
    """Where each trained parameter of a model lies in a row: one after another, aligned, with zeros in between.

    >>> layout = Layout(nn.Linear(3, 2))
    >>> layout.size, layout.first("weight"), layout.first("bias")
    (32, 0, 16)
    """

    def __init__(self, model: nn.Module) -> None:
        self.shapes = {k: tuple(p.shape) for k, p in model.named_parameters() if p.requires_grad}
        self._spans: dict[str, tuple[int, int]] = {}  # the first number, and how many
        self.size = 0
        for name, shape in self.shapes.items():
            self._spans[name] = (self.size, prod(shape))
            self.size += -(-prod(shape) // _ALIGNED) * _ALIGNED

    def first(self, name: str) -> int:
        """The position of a parameter's first number in a row."""
        return self._spans[name][0]

    def flat(self, tensors: Tensors) -> Tensor:
        """The rows ``[..., P]`` of parameters ``[..., shape]``; a copy."""
        some = next(iter(tensors.values()))
        lead = some.shape[: some.ndim - len(next(iter(self.shapes.values())))]
        vector = torch.zeros(*lead, self.size, dtype=some.dtype, device=some.device)
        for name, view in self.views(vector).items():
            view.copy_(tensors[name])
        return vector

    def views(self, vector: Tensor) -> Tensors:
        """The parameters ``[..., shape]`` of rows ``[..., P]``, as views: writing into them writes into the rows."""
        return {
            name: vector[..., first : first + count].view((*vector.shape[:-1], *self.shapes[name]))
            for name, (first, count) in self._spans.items()
        }


@dataclass
class ModelRows:
    """Several models of one kind, a row each."""

    w: Tensor  # [N, P]: trained parameters, see Layout
    rest: Tensors  # carried state, [N, ...] each

    @classmethod
    def of(cls, models: Sequence[nn.Module], layout: Layout) -> ModelRows:
        """One row for each model; copies."""
        rests = [carried_state(model) for model in models]
        w = torch.stack([layout.flat(trained_parameters(model)) for model in models])
        return cls(w, {k: torch.stack([one[k] for one in rests]) for k in rests[0]})

    def __len__(self) -> int:
        return len(self.w)

    def rows(self, which: IntArray | slice) -> ModelRows:
        """Some of the rows: copies by number, views by slice."""
        chosen = which if isinstance(which, slice) else to_device(self.w.device, which)
        return ModelRows(self.w[chosen], {k: p[chosen] for k, p in self.rest.items()})

    def put(self, which: IntArray, models: ModelRows) -> None:
        """Replace some of the rows."""
        if len(which):
            chosen = to_device(self.w.device, which)
            self.w[chosen] = models.w
            for k, p in self.rest.items():
                p[chosen] = models.rest[k]

    def padded(self, count: int) -> ModelRows:
        """A copy with ``count`` rows; the last row is repeated to fill it up."""
        more = count - len(self)

        def grown(p: Tensor) -> Tensor:
            return torch.cat([p, p[-1:].expand(more, *p.shape[1:])]) if more else p.clone()

        return ModelRows(grown(self.w), {k: grown(p) for k, p in self.rest.items()})


def one_per_run(runs: IntArray) -> list[IntArray]:
    """Where the first entry of every run is, then the second, and so on: no run is written twice at once.

    >>> one_per_run(np.array([0, 0, 0, 4, 4]))
    [array([0, 3]), array([1, 4]), array([2])]
    """
    rank = count_within(np.bincount(runs)[np.unique(runs)])
    return [np.flatnonzero(rank == now) for now in range(int(rank.max(initial=-1)) + 1)]


def to_device(device: torch.device, numbers: Array) -> Tensor:
    """Numbers as a tensor on the device; does not wait for the copy."""
    tensor = torch.as_tensor(np.ascontiguousarray(numbers))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
