"""Models as rows of tensors: of the runs, of the lanes at work, of devices that keep a model of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedwave.learning.state import Tensors
from fedwave.types import Array, IntArray


@dataclass
class Models:
    """Several models: parameters ``[N, P]`` (layout.py), and the rest of their state by name, ``[N, ...]``."""

    w: Tensor
    rest: Tensors

    @classmethod
    def stacked(cls, vectors: list[Tensor], rests: list[Tensors]) -> Models:
        """One row for each."""
        return cls(torch.stack(vectors), {k: torch.stack([one[k] for one in rests]) for k in rests[0]})

    def __len__(self) -> int:
        return len(self.w)

    def rows(self, which: IntArray | slice) -> Models:
        """Some of them; copies, unless a slice is given."""
        chosen = which if isinstance(which, slice) else to_device(self.w.device, which)
        return Models(self.w[chosen], {k: p[chosen] for k, p in self.rest.items()})

    def put(self, which: IntArray, models: Models) -> None:
        """Replace some of them."""
        if len(which):
            chosen = to_device(self.w.device, which)
            self.w[chosen] = models.w
            for k, p in self.rest.items():
                p[chosen] = models.rest[k]

    def padded(self, count: int) -> Models:
        """A copy with the last row repeated, so that there are ``count``."""
        more = count - len(self)

        def grown(p: Tensor) -> Tensor:
            return torch.cat([p, p[-1:].expand(more, *p.shape[1:])]) if more else p.clone()

        return Models(grown(self.w), {k: grown(p) for k, p in self.rest.items()})


def joined(parts: list[Tensors]) -> Tensors:
    """The rows of all parts, one part after the other."""
    return {k: torch.cat([part[k] for part in parts]) for k in parts[0]} if parts else {}


def concat_columns(tensors: Tensors, names: list[str]) -> Tensor:
    """Some tensors ``[N, ...]`` of one type as one ``[N, Q]``: one operation for all of them, not one for each."""
    return torch.cat([tensors[k].reshape(len(tensors[k]), -1) for k in names], dim=1)


def split_columns(side_by_side: Tensor, like: Tensors, names: list[str]) -> Tensors:
    """The inverse of ``concat_columns``."""
    widths = [like[k][0].numel() for k in names]
    parts = torch.split(side_by_side, widths, dim=1)
    return {k: part.reshape(like[k].shape) for k, part in zip(names, parts, strict=True)}


def to_device(device: torch.device, numbers: Array) -> Tensor:
    """Numbers as a tensor on the device, without waiting for it."""
    tensor = torch.as_tensor(np.ascontiguousarray(numbers))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
