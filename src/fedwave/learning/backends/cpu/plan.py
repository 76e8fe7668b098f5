"""A chain of layers as tables: which compiled layers run, where their numbers lie (kernels.py).

A plan is made for one batch size. All numbers of a training lie in one array: parameters and statistics, the start,
gradients, and what each layer reads and writes. A row of integers says for each layer where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from fedwave.learning.backends.spec import ChainLayer, ChainSpec
from fedwave.learning.dropout import KeyedDropout
from fedwave.types import FloatArray, IntArray

# Kinds of layers.
CONV, POOL, LINEAR, NORM, DROPOUT, RELU_LAYER, TANH, SIGMOID, GELU, GELU_TANH = range(10)

# The columns of a row. Positions: input, output, their gradients, weight and bias.
KIND, X, Y, GX, GY, W, B = range(7)
# Sizes: channels (of the input), height and width, output channels, their height and width, kernel.
C, H, WD, O, HO, WO, KH, KW = range(7, 15)  # noqa: E741
SY, SX, TOP, LEFT, DY, DX = range(15, 21)  # stride, padding in front, dilation
# The padded input and its gradient; height, width, and columns per phase of the stride; is it a copy?
P, GP, HP, WP, WQ, PACKED = range(21, 27)
T_IN, T_OUT = range(27, 29)  # tables: where rows of the input and of the output lie
# What the forward pass leaves: the largest pixel of each window of a max-pool; mean and scale of batch norm.
ARGMAX, SAVED = range(29, 31)
RELU, TILES = range(31, 33)  # does a max-pool also do ReLU; does each pixel lie in one window?
MEAN, VARIANCE = range(33, 35)  # the running statistics
T_TURNED, T_WEIGHTS = range(35, 37)  # tables of a linear layer: rows of its input by samples, rows of weights
COLUMNS = 37

_OWN = {"weight": W, "bias": B, "running_mean": MEAN, "running_var": VARIANCE}
_ROOM = 64  # numbers behind every piece of memory: vectors read over the end of it
_ALIGNED = 16


@dataclass(frozen=True)
class Plan:
    """The tables of a chain for one batch size."""

    batch: int
    ops: IntArray  # [layer, COLUMNS]
    numbers: FloatArray  # [layer, 2]: p of dropout; momentum and eps of batch norm
    table: IntArray
    size: int  # of the memory
    start: int  # where the start of training lies; parameters and statistics lie at 0
    gradients: int
    first: int  # the first layer that is trained
    features: int  # of a sample
    classes: int
    output: int  # where the logits lie; their gradient
    output_gradient: int


class _Memory:
    """Hands out room in one array."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, count: int) -> int:
        first = self.size
        self.size += -(-(count + _ROOM) // _ALIGNED) * _ALIGNED
        return first


class _Table:
    def __init__(self) -> None:
        self._pieces: list[IntArray] = []
        self._size = 0

    def add(self, numbers: IntArray) -> int:
        first = self._size
        self._pieces.append(numbers.astype(np.int64).ravel())
        self._size += numbers.size
        return first

    def rows(self, count: int, apart: int) -> int:
        return self.add(np.arange(count) * apart)

    def done(self) -> IntArray:
        return np.concatenate([*self._pieces, np.zeros(1, np.int64)])


def reduced(spec: ChainSpec) -> list[tuple[ChainLayer, bool]]:
    """The layers that compute something; True for a max-pool that has taken in the ReLU before or behind it.

    The two commute, and so do their gradients: where the largest of a window is not positive, the gradient is zero.
    """
    found: list[tuple[ChainLayer, bool]] = []
    for place in spec.layers:
        layer = place.layer
        if isinstance(layer, nn.Flatten | nn.Identity) or (isinstance(layer, KeyedDropout) and layer.p == 0):
            continue
        if found and isinstance(layer, nn.ReLU) and isinstance(found[-1][0].layer, nn.MaxPool2d):
            found[-1] = (found[-1][0], True)
        elif found and isinstance(layer, nn.MaxPool2d) and isinstance(found[-1][0].layer, nn.ReLU):
            found[-1] = (place, True)
        else:
            found.append((place, False))
    return found


def plan_of(spec: ChainSpec, positions: Mapping[str, int], trained: set[str], size: int, batch: int) -> Plan:
    """The plan of a chain; ``positions`` of parameters and statistics, ``size`` numbers in all."""
    memory, table = _Memory(), _Table()
    state = memory.take(size)
    start, gradients = memory.take(size), memory.take(size)
    layers = reduced(spec)
    ops = np.full((len(layers), COLUMNS), -1, dtype=np.int64)
    numbers = np.zeros((len(layers), 2))
    first = next(
        i
        for i, (place, _) in enumerate(layers)
        if any(f"{place.name}.{part}" in trained for part in ("weight", "bias"))
    )
    features = int(np.prod(layers[0][0].before))
    at, gradient = memory.take(features * batch), -1
    for i, (place, with_relu) in enumerate(layers):
        op, layer = ops[i], place.layer
        op[X], op[GX] = at, gradient
        behind = int(np.prod(place.behind)) * batch
        at = op[Y] = memory.take(behind)
        if i >= first:
            gradient = op[GY] = memory.take(behind)
        for part, column in _OWN.items():
            op[column] = positions.get(f"{place.name}.{part}", -1)
        if isinstance(layer, nn.Conv2d):
            _convolution(op, layer, place, batch, memory, table)
        elif isinstance(layer, nn.MaxPool2d):
            _pool(op, layer, place, batch, memory, with_relu)
        elif isinstance(layer, nn.Linear):
            _linear(op, layer, batch, memory, table)
        elif isinstance(layer, nn.BatchNorm2d):
            _sizes(op, NORM, place)
            if layer.momentum is not None:
                numbers[i] = layer.momentum, layer.eps
            op[SAVED] = memory.take(2 * layer.num_features)
        else:
            op[KIND] = _pointwise(layer)
            op[C] = behind // batch
            if isinstance(layer, KeyedDropout):
                numbers[i, 0] = layer.p
    assert state == 0
    classes = layers[-1][0].behind[0]
    return Plan(
        batch, ops, numbers, table.done(), memory.size, start, gradients, first, features, classes, at, gradient
    )


def _pointwise(layer: nn.Module) -> int:
    if isinstance(layer, nn.GELU):
        return GELU_TANH if layer.approximate == "tanh" else GELU
    kinds = {nn.ReLU: RELU_LAYER, nn.Tanh: TANH, nn.Sigmoid: SIGMOID, KeyedDropout: DROPOUT}
    return kinds[type(layer)]


def _sizes(op: IntArray, kind: int, place: ChainLayer) -> None:
    op[KIND] = kind
    op[C], op[H], op[WD] = place.before
    op[O], op[HO], op[WO] = place.behind


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _convolution(op: IntArray, layer: nn.Conv2d, place: ChainLayer, batch: int, memory: _Memory, table: _Table) -> None:
    _sizes(op, CONV, place)
    op[KH], op[KW] = layer.kernel_size
    op[SY], op[SX] = layer.stride
    op[DY], op[DX] = layer.dilation
    # In front of the image; "same" puts the smaller half there.
    if isinstance(layer.padding, str):
        spread = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        op[TOP], op[LEFT] = (s // 2 if layer.padding == "same" else 0 for s in spread)
    else:
        op[TOP], op[LEFT] = layer.padding
    op[HP] = max(op[TOP] + op[H], (op[HO] - 1) * op[SY] + op[DY] * (op[KH] - 1) + 1)
    op[WP] = max(op[LEFT] + op[WD], (op[WO] - 1) * op[SX] + op[DX] * (op[KW] - 1) + 1)
    op[WQ] = -(-op[WP] // op[SX])
    op[PACKED] = int((op[HP], op[WP], op[SX]) != (op[H], op[WD], 1))
    op[P], op[GP] = op[X], op[GX]
    if op[PACKED]:
        count = int(op[C] * op[HP] * op[SX] * op[WQ]) * batch
        op[P] = memory.take(count)
        op[GP] = memory.take(count) if op[GX] >= 0 else -1
    c, ky, kx = np.ogrid[: op[C], : op[KH], : op[KW]]
    across = kx * op[DX]
    row = (c * op[HP] + ky * op[DY]) * op[SX] + across % op[SX]
    op[T_IN] = table.add((row * op[WQ] + across // op[SX]) * batch)
    op[T_OUT] = table.rows(int(op[O]), int(op[HO] * op[WO]) * batch)


def _pool(op: IntArray, layer: nn.MaxPool2d, place: ChainLayer, batch: int, memory: _Memory, with_relu: bool) -> None:
    _sizes(op, POOL, place)
    op[KH], op[KW] = _pair(layer.kernel_size)
    op[SY], op[SX] = _pair(layer.stride)
    op[TOP], op[LEFT] = _pair(layer.padding)
    op[DY], op[DX] = _pair(layer.dilation)
    op[ARGMAX] = memory.take(int(op[O] * op[HO] * op[WO]) * batch)
    op[RELU] = int(with_relu)
    kernel, stride = (op[KH], op[KW]), (op[SY], op[SX])
    covered = (op[HO] * op[KH], op[WO] * op[KW]) == (op[H], op[WD])
    plain = (op[TOP], op[LEFT], op[DY], op[DX]) == (0, 0, 1, 1)
    op[TILES] = int(kernel == stride and covered and plain)


def _linear(op: IntArray, layer: nn.Linear, batch: int, memory: _Memory, table: _Table) -> None:
    op[KIND] = LINEAR
    op[C], op[O] = layer.in_features, layer.out_features
    op[T_IN], op[T_OUT] = table.rows(int(op[C]), batch), table.rows(int(op[O]), batch)
    op[SAVED] = memory.take(int(op[C]) * batch)
    op[T_TURNED], op[T_WEIGHTS] = table.rows(batch, int(op[C])), table.rows(int(op[O]), int(op[C]))
