"""The operations between the matrix products of wide_chain.py: columns, batch norm, ReLU, pooling, the SGD update.

Here by torch, on any device and in any precision. wide_kernels.py does the same on a GPU, faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedwave.learning.model_rows import Layout, Tensors


class SgdRule(NamedTuple):
    """The SGD update: w becomes w - (eta * gradient + decay * w + pull * (w - start)).

    As a difference w - start: w * (1 - pull) + start * pull would move w even where it equals start, because the
    rounded factors do not sum to 1.
    """

    eta: float
    decay: float
    pull: float

    @classmethod
    def of(cls, eta: float, prox: float, l2: float) -> SgdRule:
        return cls(eta, eta * l2, eta * prox)

    def moved(self, w: Tensor, gradient: Tensor | None, start: Tensor) -> Tensor:
        """w after the step; the gradient is None if the model's output does not depend on w."""
        down = self.decay * w
        if gradient is not None:
            down = down + self.eta * gradient
        if self.pull:
            down = down + self.pull * (w - start)
        return w - down


@dataclass(frozen=True)
class LaneRows:
    """The models of a step: ``lane_of`` is the row of ``w`` in each place, below zero where the place is idle."""

    w: Tensor
    start: Tensor
    rest: Tensors
    lane_of: Tensor
    count: int
    layout: Layout
    rule: SgdRule
    present: Tensor | None = None  # the number of samples of each lane: the first ones of its batch

    @property
    def index(self) -> Tensor:
        return self.lane_of[: self.count].long()

    def vector(self, name: str) -> Tensor:
        return self.layout.views(self.w)[name][self.index.clamp(min=0)]


@dataclass(frozen=True)
class ConvBlock:
    """A convolution with the batch norm, the ReLU and the pooling after it."""

    name: str
    inputs: int
    height: int
    width: int
    outputs: int
    kernel: int
    padding: int
    stride: int
    has_bias: bool
    norm: str = ""  # the name of the batch norm layer
    momentum: float = 0.0
    eps: float = 0.0
    relu: bool = False
    pool: int = 1

    @classmethod
    def of(cls, name: str, layer: nn.Conv2d, shape: tuple[int, ...]) -> ConvBlock | None:
        """The block of a convolution on maps of this shape; None unless it is square and without dilation."""
        padding, kernel, stride = layer.padding, layer.kernel_size[0], layer.stride[0]
        square = layer.kernel_size == (kernel, kernel) and layer.stride == (stride, stride)
        if isinstance(padding, str) or padding[0] != padding[1] or not square:
            return None
        if layer.dilation != (1, 1):
            return None
        channels, height, width = shape
        return cls(
            name, channels, height, width, layer.out_channels, kernel, padding[0], stride, layer.bias is not None
        )

    @cached_property
    def convolved(self) -> tuple[int, int, int]:
        """Rows, columns and channels after the convolution."""
        rows, columns = ((n + 2 * self.padding - self.kernel) // self.stride + 1 for n in (self.height, self.width))
        return rows, columns, self.outputs

    @property
    def out_shape(self) -> tuple[int, int, int]:
        rows, columns, channels = self.convolved
        return channels, rows // self.pool, columns // self.pool

    @property
    def wide(self) -> int:
        """Numbers in a column, filled up to a multiple of eight."""
        return -(-(self.kernel**2) * self.inputs // 8) * 8

    @property
    def wants_groups(self) -> bool:
        """Is a grouped convolution faster than a product? On an H200: where the columns would be large."""
        return self.inputs == self.outputs <= 64 and self.height * self.width >= 512

    def padded_columns(self) -> int:
        return self.wide - self.kernel**2 * self.inputs


@dataclass(frozen=True)
class Map:
    """Activations of many lanes.

    ``data`` is [lane, sample, row, column, channel] with group 1, else [sample, row, column, lane, channel] with
    ``group`` lanes, of which the first ``shape[0]`` count. ``shape`` is (lane, sample, row, column, channel).
    """

    data: Tensor
    shape: tuple[int, ...]
    group: int

    @classmethod
    def empty(cls, shape: tuple[int, ...], group: int, like: Tensor) -> Map:
        count = max(group, shape[0]) if group > 1 else shape[0]
        numbers = count * shape[1] * shape[2] * shape[3] * shape[4]
        return cls(torch.empty(numbers, dtype=like.dtype, device=like.device), shape, group)

    @classmethod
    def of_lanes(cls, lanes: Tensor, group: int) -> Map:
        if group == 1:
            return cls(lanes.contiguous(), tuple(lanes.shape), 1)
        idle = lanes.new_zeros(group - len(lanes), *lanes.shape[1:])
        data = torch.cat([lanes, idle]).permute(1, 2, 3, 0, 4).contiguous()
        return cls(data, tuple(lanes.shape), group)

    @classmethod
    def of_side_by_side(cls, x: Tensor, shape: tuple[int, ...], group: int) -> Map:
        return cls(x.permute(0, 2, 3, 1).contiguous(), shape, group)

    def lanes(self) -> Tensor:
        """[lane, sample, row, column, channel]."""
        if self.group == 1:
            return self.data.view(self.shape)
        count, samples, rows, columns, channels = self.shape
        whole = self.data.view(samples, rows, columns, self.group, channels)
        return whole.permute(3, 0, 1, 2, 4)[:count]

    def side_by_side(self) -> Tensor:
        """[sample, lane and channel, row, column] in channels-last order."""
        _, samples, rows, columns, channels = self.shape
        return self.data.view(samples, rows, columns, self.group * channels).permute(0, 3, 1, 2)


class WideOps:
    """The operations by torch.

    ``stats`` are [lane, 6, channel]: mean, 1 / deviation, scale, shift, and two means of the gradient.
    """

    def columns(self, x: Map, block: ConvBlock) -> Tensor:
        return self._columns_of(x.lanes().permute(0, 1, 4, 2, 3), block)

    def image_columns(self, images: Tensor, chosen: Tensor, block: ConvBlock, dtype: torch.dtype) -> Tensor:
        return F.pad(self._columns_of(images[chosen.clamp(min=0).long()].to(dtype), block), (0, block.padded_columns()))

    @staticmethod
    def _columns_of(x: Tensor, block: ConvBlock) -> Tensor:
        found = F.unfold(x.flatten(0, 1), block.kernel, 1, block.padding, block.stride)
        found = found.view(len(found), block.inputs, block.kernel**2, -1).permute(0, 3, 2, 1)
        return found.reshape(len(x), -1, block.kernel**2 * block.inputs)

    def from_columns(self, grad: Tensor, block: ConvBlock, shape: tuple[int, ...], group: int) -> Map:
        lanes, samples = shape[:2]
        g = grad.view(lanes * samples, -1, block.kernel**2, block.inputs).permute(0, 3, 2, 1).flatten(1, 2)
        size = (block.height, block.width)
        x = F.fold(g, size, block.kernel, 1, block.padding, block.stride)
        x = x.view(lanes, samples, block.inputs, *size).permute(0, 1, 3, 4, 2)
        return Map.of_lanes(x, group)

    def statistics(self, y: Map, block: ConvBlock, rows: LaneRows) -> Tensor:
        """Of the present samples; running statistics change in place."""
        x = _wide(y.lanes())
        zero = x.new_zeros(rows.count, block.outputs)
        bias = rows.vector(f"{block.name}.bias") if block.has_bias else zero
        if not block.norm:
            return torch.stack([zero, zero + 1, zero + 1, bias, zero, zero], 1)
        there, counted = self._there(y, rows)
        mean = (x * there).sum((1, 2, 3)) / counted
        var = ((x - mean[:, None, None, None]) ** 2 * there).sum((1, 2, 3)) / counted
        index = rows.index
        at = f"{block.norm}."
        for name, new in (("running_mean", mean + bias), ("running_var", var * counted / (counted - 1))):
            kept = rows.rest[at + name]
            kept[index] += block.momentum * (new - kept[index])
        rows.rest[at + "num_batches_tracked"][index] += 1
        return self._affine(block, rows, mean, var)

    def running_statistics(self, block: ConvBlock, rows: LaneRows) -> Tensor:
        """The same for evaluation, from the running statistics."""
        bias: Any = rows.vector(f"{block.name}.bias") if block.has_bias else 0.0
        if block.norm:
            at, index = f"{block.norm}.", rows.index
            mean = rows.rest[at + "running_mean"][index] - bias
            return self._affine(block, rows, mean, rows.rest[at + "running_var"][index])
        zero = rows.w.new_zeros(rows.count, block.outputs)
        return torch.stack([zero, zero + 1, zero + 1, zero + bias, zero, zero], 1)

    @staticmethod
    def _affine(block: ConvBlock, rows: LaneRows, mean: Tensor, var: Tensor) -> Tensor:
        inverse = (var + block.eps).rsqrt()
        scale = rows.vector(f"{block.norm}.weight") * inverse
        shift = rows.vector(f"{block.norm}.bias") - mean * scale
        return torch.stack([mean, inverse, scale, shift, mean * 0, mean * 0], 1)

    def activate(self, y: Map, block: ConvBlock, stats: Tensor, group: int) -> Map:
        u = self._normalised(y, stats)
        return Map.of_lanes(_pooled(u.relu() if block.relu else u, block.pool), group)

    def gradient_sums(self, grad: Map, y: Map, block: ConvBlock, stats: Tensor, rows: LaneRows) -> None:
        """Two means of the gradient, into ``stats``; the parameters of the batch norm, or the bias, are updated."""
        du = self._through_activation(grad, y, block, stats)
        mean, inverse = (stats[:, k, None, None, None] for k in (0, 1))
        first = du.sum((1, 2, 3))
        if block.norm:
            second = (du * (_wide(y.lanes()) - mean) * inverse).sum((1, 2, 3))
            counted = self._there(y, rows)[1]
            stats[:, 4], stats[:, 5] = first / counted, second / counted
            self.step_vector(rows, f"{block.norm}.weight", second)
            self.step_vector(rows, f"{block.norm}.bias", first)
            first = first * 0  # normalisation takes a bias away again
        if block.has_bias:
            self.step_vector(rows, f"{block.name}.bias", first)

    def before_activation(self, grad: Map, y: Map, block: ConvBlock, stats: Tensor, rows: LaneRows) -> Map:
        """The gradient of the convolution's result."""
        du = self._through_activation(grad, y, block, stats)
        mean, inverse, scale, _, one, two = (stats[:, k, None, None, None] for k in range(6))
        x = (_wide(y.lanes()) - mean) * inverse
        found = scale * (du - one - x * two) * self._there(y, rows)[0]
        return Map.of_lanes(found.to(y.data.dtype), y.group)

    def step_weights(self, rows: LaneRows, name: str, grad: Tensor | None, copy: Tensor) -> None:
        """The SGD step from a gradient [lane, output, tap and input], and the copy of the weights in that order."""
        place = torch.arange(rows.count, device=copy.device)[rows.index >= 0]
        index = rows.index[place]
        w = rows.layout.views(rows.w)[f"{name}.weight"]
        outputs, inputs, *kernel = w.shape[1:]
        used = w[0, 0].numel()
        if grad is not None:
            g = grad[place][..., :used].reshape(len(place), outputs, -1, inputs).transpose(2, 3)
            g = g.reshape(len(place), outputs, inputs, *kernel)
            self._step(rows, f"{name}.weight", index, g)
        flat = w[index].flatten(3) if kernel else w[index][..., None]
        copy[place, :, :used] = flat.transpose(2, 3).flatten(2).to(copy.dtype)

    def step_vector(self, rows: LaneRows, name: str, grad: Tensor) -> None:
        """The SGD step of a vector of every lane."""
        place = torch.arange(rows.count, device=grad.device)[rows.index >= 0]
        self._step(rows, name, rows.index[place], grad[place])

    @staticmethod
    def _step(rows: LaneRows, name: str, index: Tensor, grad: Tensor) -> None:
        w, start = (rows.layout.views(of)[name] for of in (rows.w, rows.start))
        w[index] = rows.rule.moved(w[index], grad, start[index])

    @staticmethod
    def _there(y: Map, rows: LaneRows) -> tuple[Tensor, Tensor]:
        """A mask of the samples of each lane, ``[lane, sample, 1, 1, 1]``, and the number of their pixels by lane."""
        assert rows.present is not None
        places = torch.arange(y.shape[1], device=y.data.device)
        there = places < rows.present[:, None]
        return there[:, :, None, None, None], rows.present[:, None] * (y.shape[2] * y.shape[3])

    @staticmethod
    def _normalised(y: Map, stats: Tensor) -> Tensor:
        scale, shift = (stats[:, k, None, None, None] for k in (2, 3))
        return (_wide(y.lanes()) * scale + shift).to(y.data.dtype)

    def _through_activation(self, grad: Map, y: Map, block: ConvBlock, stats: Tensor) -> Tensor:
        """The gradient of the normalised numbers."""
        with torch.enable_grad():
            u = self._normalised(y, stats).requires_grad_()
            out = _pooled(u.relu() if block.relu else u, block.pool)
            (found,) = torch.autograd.grad(out, u, grad.lanes())
        return _wide(found)


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.element_size() < 4 else x


def _pooled(x: Tensor, pool: int) -> Tensor:
    if pool == 1:
        return x
    found = F.max_pool2d(x.permute(0, 1, 4, 2, 3).flatten(0, 1), pool)
    return found.view(*x.shape[:2], *found.shape[1:]).permute(0, 1, 3, 4, 2)
