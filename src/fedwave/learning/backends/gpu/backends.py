"""Chains on a GPU: small ones by one kernel (fused_chain.py), deep ones layer by layer (wide_chain.py)."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor

from fedwave.learning.backends.base import Backend, Precision
from fedwave.learning.backends.gpu.blocks import ChainBlocks
from fedwave.learning.backends.gpu.cuda_source import can_compile
from fedwave.learning.backends.gpu.fused_chain import FusedChain
from fedwave.learning.backends.gpu.wide_chain import WideChain
from fedwave.learning.backends.gpu.wide_kernels import CudaOps
from fedwave.learning.backends.gpu.wide_ops import SgdRule, WideOps
from fedwave.learning.chain_spec import ChainSpec
from fedwave.learning.model_rows import Layout, ModelRows, to_device
from fedwave.learning.sampling import Batches
from fedwave.learning.task import Task
from fedwave.types import IntArray

_WIDTH = 32  # lanes of a wide chain that are computed side by side


class GpuBackend(Backend):
    """Trains lanes in rows that stay in place, so that steps are recorded once.

    ``room`` is the number of lanes of the largest call, if it is known. Without it the rows grow, and all steps are
    recorded again each time.
    """

    needs_keys = False

    def __init__(self, room: int) -> None:
        self._room = room
        self._rows: ModelRows | None = None
        self._start: Tensor | None = None

    def train(self, rows: ModelRows, batches: Batches, keys: IntArray) -> ModelRows:
        count, device = len(rows), rows.w.device
        if self._rows is None or len(self._rows) < count:
            self._rows = self._start = None  # the old ones make room for the new
            self._rows = rows.padded(max(count, self._room))
            self._start = self._rows.w.clone()
        assert self._start is not None
        own = self._rows.rows(slice(count))
        own.w.copy_(rows.w)
        self._start[:count].copy_(rows.w)
        for name, p in own.rest.items():
            p.copy_(rows.rest[name])
        samples = to_device(device, batches.samples.astype(np.int32).swapaxes(0, 1))
        self._steps(self._rows, self._start, samples, batches.steps)
        return own

    @abstractmethod
    def _steps(self, rows: ModelRows, start: Tensor, samples: Tensor, steps: IntArray) -> None:
        """Train the first lanes in place; ``samples`` are ``[step, lane, batch]``, below zero where there is none."""


class FusedBackend(GpuBackend):
    """Trains small chains in float32 (fused_chain.py); made by ``of``."""

    @classmethod
    def of(cls, task: Task, precision: Precision, batch: int | None = None, room: int = 0) -> FusedBackend | None:
        """None if the chain is not small or has other layers; without a ``batch``, the backend only evaluates."""
        blocks, layout = _blocks_and_layout(task)
        if blocks is None or not _can_use_kernels(precision) or precision.half is not None:
            return None
        properties = torch.cuda.get_device_properties(precision.device)
        memory = getattr(properties, "shared_memory_per_block_optin", 48 * 1024)
        chain = FusedChain.of(blocks, layout, batch or 10, memory)
        if chain is None:
            return None
        rule = SgdRule.of(task.eta, task.prox, task.l2)
        return cls(chain, rule, _data(task, precision, batch), room)

    def __init__(self, chain: FusedChain, rule: SgdRule, data: tuple[Tensor, Tensor], room: int) -> None:
        super().__init__(room)
        self._chain, self._rule, self._data = chain, rule, data

    def _steps(self, rows: ModelRows, start: Tensor, samples: Tensor, steps: IntArray) -> None:
        on_device = torch.as_tensor(steps.astype(np.int32)).to(samples.device, non_blocking=True)
        self._chain.train(rows.w, start, self._data, samples.contiguous(), on_device, self._rule)

    def logits(self, rows: ModelRows, images: Tensor) -> Tensor:
        return self._chain.logits(rows.w.contiguous(), images.contiguous())


class WideBackend(GpuBackend):
    """Trains deep convolutional networks (wide_chain.py); made by ``of``."""

    @classmethod
    def of(cls, task: Task, precision: Precision, batch: int | None = None, room: int = 0) -> WideBackend | None:
        """None if the chain has other layers; without a ``batch``, the backend only evaluates."""
        blocks, layout = _blocks_and_layout(task)
        if blocks is None or not WideChain.supports(blocks):
            return None
        own = _can_use_kernels(precision)
        if own and not all(b.outputs % 8 == 0 and b.outputs <= 2048 for b in blocks.convolutions):
            return None  # a thread works on eight channels; a block has 256 threads
        if not own and batch is None:
            return None
        chain = WideChain(
            blocks,
            layout,
            *_data(task, precision, batch),
            batch=batch or 100,
            rule=SgdRule.of(task.eta, task.prox, task.l2),
            half=precision.half,
            width=_WIDTH,
            ops=CudaOps(precision.half is not None) if own else WideOps(),
            group_wide_maps=own,
            record=own and batch is not None,
        )
        return cls(chain, room)

    def __init__(self, chain: WideChain, room: int) -> None:
        super().__init__(room)
        self._chain = chain

    def _steps(self, rows: ModelRows, start: Tensor, samples: Tensor, steps: IntArray) -> None:
        self._chain(rows.w, start, rows.rest, samples, steps.tolist())

    def logits(self, rows: ModelRows, images: Tensor) -> Tensor:
        rest = {k: p.contiguous() for k, p in rows.rest.items()}
        return self._chain.logits(rows.w.contiguous(), rest, images.contiguous())


def _blocks_and_layout(task: Task) -> tuple[ChainBlocks | None, Layout]:
    model = task.new_model(0, 0)
    spec = ChainSpec.of(model, task.dataset.train_inputs.shape[1:])
    return None if spec is None else ChainBlocks.of(spec), Layout(model)


def _data(task: Task, precision: Precision, batch: int | None) -> tuple[Tensor, Tensor]:
    """The training images and labels; empty without a batch."""
    some = slice(0) if batch is None else slice(None)
    images = torch.as_tensor(task.dataset.train_inputs[some]).to(precision.device, precision.dtype)
    return images.contiguous(), torch.as_tensor(task.dataset.train_targets[some]).to(precision.device)


def _can_use_kernels(precision: Precision) -> bool:
    """Can the kernels of this package be used?"""
    if precision.device.type != "cuda" or precision.dtype != torch.float32 or not can_compile():
        return False
    # Older GPUs cannot convert to bfloat16.
    has_half = torch.cuda.get_device_capability(precision.device) >= (8, 0)
    return precision.half is None or (precision.half == torch.bfloat16 and has_half)
