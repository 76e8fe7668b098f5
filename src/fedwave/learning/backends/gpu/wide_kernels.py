"""The operations of wide_ops.py by kernels that read and write every number once.

The kernels are in wide_chain.cu. torch takes several passes over the memory for the same.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedwave.learning.backends.gpu.cuda_source import Kernels, compiled_kernels
from fedwave.learning.backends.gpu.wide_ops import ConvBlock, LaneRows, Map, WideOps


class CudaOps(WideOps):
    """The operations by kernels, in bfloat16 or float32."""

    def __init__(self, half: bool) -> None:
        self._source = ("#define HALF\n" if half else "") + Path(__file__).with_name("wide_chain.cu").read_text()

    @cached_property
    def _kernels(self) -> Kernels:
        return compiled_kernels(self._source)

    def _launch(self, name: str, grid: tuple[int, int], threads: int, *arguments: Any, shared: int = 0) -> None:
        """Run a kernel. A Map is passed as its data and its group, a tuple as its items."""
        flat = [item for argument in arguments for item in _items(argument)]
        self._kernels.launch(name, grid, threads, *flat, shared=shared)

    def _each(self, name: str, threads: int, *arguments: Any) -> None:
        """One thread for each of ``threads`` pieces of work."""
        self._launch(name, (-(-threads // 256), 1), 256, *arguments)

    def columns(self, x: Map, block: ConvBlock) -> Tensor:
        lanes, samples = x.shape[:2]
        rows, columns, _ = block.convolved
        out = x.data.new_empty(lanes, samples * rows * columns, block.wide)
        threads = lanes * samples * rows * columns * block.inputs // 8
        self._each("columns", threads, x, out, lanes, _sizes(block, samples))
        return out

    def image_columns(self, images: Tensor, chosen: Tensor, block: ConvBlock, dtype: torch.dtype) -> Tensor:
        lanes, samples = chosen.shape
        rows, columns, _ = block.convolved
        out = torch.empty(lanes, samples * rows * columns, block.wide, dtype=dtype, device=images.device)
        sizes = _sizes(block, samples)
        self._each("image_columns", out.numel() // 8, images, chosen, out, lanes, block.wide, sizes)
        return out

    def from_columns(self, grad: Tensor, block: ConvBlock, shape: tuple[int, ...], group: int) -> Map:
        out = Map.empty(shape, group, grad)
        lanes, samples = shape[:2]
        threads = lanes * samples * block.height * block.width * block.inputs // 8
        self._each("from_columns", threads, grad, out, lanes, _sizes(block, samples))
        return out

    def statistics(self, y: Map, block: ConvBlock, rows: LaneRows) -> Tensor:
        lanes, samples, height, width, channels = y.shape
        present = (rows.present, samples * height * width, height * width, channels)
        stats = torch.empty(lanes, 6, channels, device=y.data.device)
        parts, shares = stats, 0
        running: tuple[Any, ...] = (stats, stats, stats)
        if block.norm:
            at = f"{block.norm}."
            running = tuple(rows.rest[at + n] for n in ("running_mean", "running_var", "num_batches_tracked"))
            shares, each = _shares(samples * height * width, channels)
            parts = torch.empty(lanes, shares, 2, channels, device=y.data.device)
            self._launch("moments", (shares, lanes), 256, y, parts, present, each)
        models = (rows.lane_of, rows.w, rows.layout.size, *self._places(block, rows))
        norm = (*running, block.momentum, block.eps)
        self._launch(
            "finish_moments", (-(-channels // 128), lanes), 128, parts, shares, y, present, models, norm, stats
        )
        return stats

    def activate(self, y: Map, block: ConvBlock, stats: Tensor, group: int) -> Map:
        lanes, samples, height, width, channels = y.shape
        rows, columns = height // block.pool, width // block.pool
        out = Map.empty((lanes, samples, rows, columns, channels), group, y.data)
        shares, each = _shares(samples * rows * columns, channels)
        sizes = (*y.shape[1:], each)
        self._launch(f"activate{block.pool}", (shares, lanes), 256, y, out, stats, int(block.relu), sizes)
        return out

    def gradient_sums(self, grad: Map, y: Map, block: ConvBlock, stats: Tensor, rows: LaneRows) -> None:
        lanes, samples, height, width, channels = y.shape
        windows = samples * (height // block.pool) * (width // block.pool)
        shares, each = _shares(windows, channels)
        parts = torch.empty(lanes, shares, 2, channels, device=y.data.device)
        before, sizes = (grad, y, stats, int(block.relu)), (*y.shape[1:], each)
        self._launch(f"gradient_sums{block.pool}", (shares, lanes), 256, *before, parts, rows.present, sizes)
        models = (rows.lane_of, rows.w, rows.start, rows.layout.size, *self._places(block, rows), *rows.rule)
        present, grid = (rows.present, height * width, channels), (-(-channels // 128), lanes)
        self._launch("finish_gradient_sums", grid, 128, parts, shares, present, models, stats)

    def before_activation(self, grad: Map, y: Map, block: ConvBlock, stats: Tensor, rows: LaneRows) -> Map:
        lanes, samples, height, width, channels = y.shape
        out = Map(torch.empty_like(y.data), y.shape, y.group)
        windows = samples * -(-height // block.pool) * -(-width // block.pool)
        shares, each = _shares(windows, channels)
        before, sizes = (grad, y, stats, int(block.relu)), (*y.shape[1:], each)
        name = f"before_activation{block.pool}"
        self._launch(name, (shares, lanes), 256, *before, out.data, rows.present, sizes)
        return out

    def step_weights(self, rows: LaneRows, name: str, grad: Tensor | None, copy: Tensor) -> None:
        outputs, inputs, *kernel = rows.layout.shapes[f"{name}.weight"]
        taps = kernel[0] * kernel[1] if kernel else 1
        tile = max(8, 4608 // taps // 8 * 8)
        grid, sizes = (-(-outputs * inputs // tile), rows.count), (outputs, inputs, taps, copy.shape[2], tile)
        models = self._models(rows, f"{name}.weight")
        self._launch("step_weights", grid, 256, models, grad, copy, sizes, rows.rule, shared=4 * tile * taps)

    def step_vector(self, rows: LaneRows, name: str, grad: Tensor) -> None:
        models, count = self._models(rows, name), grad.shape[1]
        threads = rows.count * count
        self._each("step_vector", threads, models, grad.contiguous(), rows.count, count, rows.rule)

    @staticmethod
    def _models(rows: LaneRows, name: str) -> tuple[Any, ...]:
        """Where a parameter of the models lies."""
        return rows.w, rows.start, rows.layout.size, rows.layout.first(name), rows.lane_of

    @staticmethod
    def _places(block: ConvBlock, rows: LaneRows) -> list[int]:
        """Positions of the batch norm's weight and bias and of the convolution's bias; -1 where there is none."""
        first = rows.layout.first
        norm = [first(f"{block.norm}.{p}") for p in ("weight", "bias")] if block.norm else [-1, -1]
        return [*norm, first(f"{block.name}.bias") if block.has_bias else -1]


def _items(argument: Any) -> tuple[Any, ...]:
    if isinstance(argument, Map):
        return argument.data, argument.group
    return argument if isinstance(argument, tuple) else (argument,)


def _sizes(block: ConvBlock, samples: int) -> tuple[int, ...]:
    rows, columns, _ = block.convolved
    return (samples, block.height, block.width, block.inputs, rows, columns, block.kernel, block.padding, block.stride)


def _shares(rows: int, channels: int) -> tuple[int, int]:
    """The number of parts that a sum over rows is cut into, and their length."""
    each = max(64, 16 * 256 * 8 // channels)
    return -(-rows // each), each
