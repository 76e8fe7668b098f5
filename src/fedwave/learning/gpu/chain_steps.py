"""SGD steps, and the judgement, of many models side by side that are rows of one tensor (layout.py).

For chains of known layers (batched_layers.py). Three ways compute the same:

- "fused": small chains on a GPU, all steps of all lanes by one kernel (fused_chain.py);
- "wide": convolutional networks, layer by layer with gradients written out by hand (wide_chain.py); on a GPU by kernels
  of its own and recorded, else by torch;
- "general": any known layers by torch's automatic differentiation, layer by layer.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fedwave.errors import FedwaveError
from fedwave.learning.batched_layers import side_by_side
from fedwave.learning.dropout import key_dropout, step_keys
from fedwave.learning.gpu.cuda_source import can_compile
from fedwave.learning.gpu.fused_chain import FusedChain
from fedwave.learning.gpu.wide_chain import Linear, WideChain, parts_of
from fedwave.learning.gpu.wide_kernels import CudaOps
from fedwave.learning.gpu.wide_ops import Block, Rule, WideOps
from fedwave.learning.layout import Layout
from fedwave.learning.state import Tensors

ChainWay = Literal["fused", "wide", "general"]
_LOGITS_AT_ONCE = 2**26  # numbers


class ChainSteps:
    """Local training of many lanes; ``places`` of them side by side where the way has a limit.

    A batch may be short: then samples below zero, which are absent, follow the others.
    """

    def __init__(
        self,
        model: nn.Module,
        layout: Layout,
        images: Tensor,
        labels: Tensor,
        *,
        batch: int,
        eta: float,
        prox: float = 0.0,
        l2: float = 0.0,
        autocast: torch.dtype | None = None,
        places: int = 32,
        way: ChainWay | None = None,
    ) -> None:
        self._model, self._layout, self._autocast = model.train(), layout, autocast
        self._images, self._labels = images.contiguous(), labels
        self._rule = Rule.of(eta, prox, l2)
        self._step = key_dropout(model)
        self._forward = side_by_side(model, _channels_last(images, autocast))
        if self._forward is None:
            raise FedwaveError("the model is no chain of known layers.")
        image = tuple(images.shape[1:])
        self._fused = _fused(model, layout, images, batch, autocast, way)
        wide = None if self._fused else _wide_parts(model, image, images, autocast, way)
        self._wide = None
        if wide is not None:
            on_gpu = _own_kernels(images, autocast)
            self._wide = WideChain(
                wide,
                layout,
                self._images,
                labels,
                batch=batch,
                rule=self._rule,
                half=autocast,
                width=places,
                ops=CudaOps(autocast is not None) if on_gpu else WideOps(),
                group_wide_maps=on_gpu,
                record=on_gpu,
            )
        self.way: ChainWay = "fused" if self._fused else "wide" if self._wide else "general"
        if way not in (None, self.way):
            raise FedwaveError(f"this chain cannot be trained the way {way!r}.")

    @property
    def needs_full_batches(self) -> bool:
        """Must every batch be full? Torch's batch norm would count the absent samples."""
        return self.way == "general" and any(isinstance(m, nn.BatchNorm2d) for m in self._model.modules())

    @property
    def bytes_per_place(self) -> int | None:
        """About how much memory a lane at work takes, besides its rows of the state; None: not known."""
        if self._fused is not None:
            return self._fused.scratch_bytes
        return None if self._wide is None else self._wide.bytes_per_place

    def __call__(
        self, w: Tensor, start: Tensor, rest: Tensors, samples: Tensor, at_work: list[int], keys: Tensor | None = None
    ) -> None:
        """All steps, in place: ``w`` and ``start`` are ``[lane, P]``, ``rest`` has the rest of the state by name.

        ``samples`` are ``[step, lane, batch]``. Lanes are sorted longest first: step s updates the first
        ``at_work[s]``. ``keys`` are those of the lanes' random layers. Nothing waits for the GPU.
        """
        if self._fused is not None:
            steps = _steps_of(at_work).astype(np.int32)
            on_device = torch.as_tensor(steps).to(w.device, non_blocking=True)
            rule = (self._rule.eta, self._rule.decay, self._rule.pull)
            self._fused.train(w, start, self._images, self._labels, samples.int().contiguous(), on_device, rule)
        elif self._wide is not None:
            self._wide(w, start, rest, samples, _steps_of(at_work).tolist())
        else:
            for step, count in enumerate(at_work):
                now = None if keys is None else step_keys(keys[:count], step)
                some = {k: p[:count] for k, p in rest.items()}
                self._general(w[:count], start[:count], some, samples[step, :count], now)

    def _general(self, w: Tensor, start: Tensor, rest: Tensors, samples: Tensor, keys: Tensor | None) -> None:
        assert self._forward is not None
        samples = samples.long()
        absent = samples < 0
        images, labels = self._images[samples.clamp(min=0)], self._labels[samples.clamp(min=0)]
        views = {k: p.detach().requires_grad_() for k, p in self._layout.views(w).items()}
        no_keys = torch.zeros(len(w), dtype=torch.int64, device=w.device)
        with (
            torch.autocast(w.device.type, self._autocast, enabled=self._autocast is not None),
            self._step.draws_by(no_keys if keys is None else keys),
        ):
            logits = self._forward(views, rest, images)
        logits = logits.float() if self._autocast else logits
        each = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        each = each.view(samples.shape).masked_fill(absent, 0.0)
        loss = (each.sum(1) / (~absent).sum(1).clamp(min=1)).sum()
        found = torch.autograd.grad(loss, list(views.values()), allow_unused=True)
        own, pulls = self._layout.views(w), self._layout.views(start)
        with torch.no_grad():
            for name, gradient in zip(views, found, strict=True):
                own[name].copy_(self._rule.moved(own[name], gradient, pulls[name]))


class ChainEvaluator:
    """What many models, rows of one tensor, say about the same images in evaluation mode."""

    def __init__(
        self, model: nn.Module, layout: Layout, images: Tensor, *, autocast: torch.dtype | None = None, places: int = 32
    ) -> None:
        self._model, self._layout, self._autocast = model, layout, autocast
        self._images = images.contiguous()
        image = tuple(images.shape[1:])
        self._fused = _fused(model, layout, images, 10, autocast, None)
        parts = None if self._fused else _wide_parts(model, image, images, autocast, None)
        self._wide = None
        if parts is not None and _own_kernels(images, autocast):
            nothing = torch.zeros(0, dtype=torch.int64, device=images.device)
            self._wide = WideChain(
                parts,
                layout,
                self._images,
                nothing,
                batch=100,
                rule=Rule(0.0, 1.0, 0.0),
                half=autocast,
                width=places,
                ops=CudaOps(autocast is not None),
                group_wide_maps=True,
                record=False,
            )

    def __call__(self, w: Tensor, rest: Tensors, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
        """Mean loss ``[model]`` and right answers ``[model, class]``, on the device."""
        each = max(1, _LOGITS_AT_ONCE // (len(labels) * classes))
        of_class = F.one_hot(labels, classes).to(torch.float32)
        losses, right = [], []
        for first in range(0, len(w), each):
            some = slice(first, first + each)
            logits = self.logits(w[some], {k: p[some] for k, p in rest.items()})
            # Half precision is too coarse for a mean over thousands of images.
            wide = logits.float() if logits.element_size() < 4 else logits
            mine = wide.gather(2, labels.expand(len(wide), -1)[:, :, None])[:, :, 0]
            losses.append((wide.logsumexp(2) - mine).mean(1))
            # Whole numbers below 2^24: exact in float32.
            right.append(((logits.argmax(2) == labels).to(torch.float32) @ of_class).long())
        return torch.cat(losses), torch.cat(right)

    @torch.no_grad()
    def logits(self, w: Tensor, rest: Tensors) -> Tensor:
        """``[model, image, class]``."""
        if self._fused is not None:
            return self._fused.logits(w.contiguous(), self._images)
        if self._wide is not None:
            rest = {k: p.contiguous() for k, p in rest.items()}
            return self._wide.logits(w.contiguous(), rest, self._images)
        views = self._layout.views(w)
        self._model.eval()
        found = []
        with torch.autocast(w.device.type, self._autocast, enabled=self._autocast is not None):
            for row in range(len(w)):
                state = {k: p[row] for k, p in (views | rest).items()}
                pieces = [functional_call(self._model, state, (x,)) for x in torch.split(self._images, 1000)]
                found.append(torch.cat(pieces))
        return torch.stack(found)


def _steps_of(at_work: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The number of steps of every lane."""
    lanes = np.arange(at_work[0] if at_work else 0)
    falling = -np.asarray(at_work, dtype=np.int64)
    return np.searchsorted(falling, -lanes, side="left")


def _channels_last(images: Tensor, autocast: torch.dtype | None) -> bool:
    return images.is_cuda and autocast is not None


def _fused(
    model: nn.Module, layout: Layout, images: Tensor, batch: int, autocast: torch.dtype | None, way: ChainWay | None
) -> FusedChain | None:
    if not images.is_cuda or images.dtype != torch.float32 or autocast is not None:
        return None
    if way not in (None, "fused") or not can_compile():
        return None
    properties = torch.cuda.get_device_properties(images.device)
    memory = getattr(properties, "shared_memory_per_block_optin", 48 * 1024)
    return FusedChain.of(model, layout, tuple(images.shape[1:]), batch, memory)


def _own_kernels(images: Tensor, autocast: torch.dtype | None) -> bool:
    """Can the wide way use kernels of its own?"""
    if not images.is_cuda or images.dtype != torch.float32 or not can_compile():
        return False
    # Older GPUs cannot convert to bfloat16.
    has_half = torch.cuda.get_device_capability(images.device) >= (8, 0)
    return autocast is None or (autocast == torch.bfloat16 and has_half)


def _wide_parts(
    model: nn.Module, image: tuple[int, ...], images: Tensor, autocast: torch.dtype | None, way: ChainWay | None
) -> tuple[list[Block], list[Linear]] | None:
    if way not in (None, "wide"):
        return None
    parts = parts_of(model, image)
    if parts is None or not _own_kernels(images, autocast):
        return parts
    # A thread works on eight channels; a block has 256 threads.
    fits = all(b.outputs % 8 == 0 and b.outputs <= 2048 for b in parts[0])
    return parts if fits else None
