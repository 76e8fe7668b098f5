"""Lays a chain of layers out as tables: which compiled layers run, and where their numbers lie (kernels.py).

A plan is made for one batch size. All numbers of a training lie in one array: parameters and statistics, the start,
gradients, and what each layer reads and writes. Each layer has a row of integers with their positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from fedwave.learning.chain_spec import ChainLayer, ChainSpec
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
OP_COLUMNS = 37

_OWN = {"weight": W, "bias": B, "running_mean": MEAN, "running_var": VARIANCE}
_ROOM = 64  # numbers behind every piece of memory: vectors read over the end of it
_ALIGNED = 16


@dataclass(frozen=True)
class ChainPlan:
    """The tables of a chain for one batch size."""

    batch: int
    ops: IntArray  # [layer, OP_COLUMNS]
    numbers: FloatArray  # [layer, 2]: p of dropout; momentum and eps of batch norm
    table: IntArray
    size: int  # of the memory
    start: int  # position of the start of training; parameters and statistics lie at 0
    gradients: int
    first: int  # the first layer that is trained
    classes: int
    output: int  # position of the logits, and of their gradient
    output_gradient: int

    def step_positions(self, trained: int) -> tuple[int, ...]:
        """What ``steps.run_steps`` needs beside the tables; ``trained`` is the number of trained parameters."""
        return (trained, self.start, self.gradients, self.first, self.classes, self.output, self.output_gradient)


class _Memory:
    """Hands out room in one array."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, count: int) -> int:
        first = self.size
        self.size += -(-(count + _ROOM) // _ALIGNED) * _ALIGNED
        return first


class _Table:
    """Collects positions in one array of integers."""

    def __init__(self) -> None:
        self._pieces: list[IntArray] = []
        self._size = 0

    def add(self, numbers: IntArray) -> int:
        first = self._size
        self._pieces.append(numbers.astype(np.int64).ravel())
        self._size += numbers.size
        return first

    def rows(self, count: int, distance: int) -> int:
        return self.add(np.arange(count) * distance)

    def done(self) -> IntArray:
        return np.concatenate([*self._pieces, np.zeros(1, np.int64)])


@dataclass(frozen=True)
class _Row:
    """The row of one layer, while it is written."""

    op: IntArray  # [OP_COLUMNS], a view
    numbers: FloatArray  # [2], a view
    place: ChainLayer
    with_relu: bool
    batch: int
    memory: _Memory
    table: _Table

    def set_sizes(self, kind: int) -> None:
        op = self.op
        op[KIND] = kind
        op[C], op[H], op[WD] = self.place.before
        op[O], op[HO], op[WO] = self.place.after


def supports(spec: ChainSpec) -> bool:
    """Can every layer of the chain be compiled?"""
    return all(type(one.layer) in _WRITERS or isinstance(one.layer, _DOES_NOTHING) for one in spec.layers)


def reduced(spec: ChainSpec) -> list[tuple[ChainLayer, bool]]:
    """The layers that compute something; True for a max-pool that has taken in the ReLU before or after it.

    The two commute, and so do their gradients: where the largest of a window is not positive, the gradient is zero.
    """
    found: list[tuple[ChainLayer, bool]] = []
    for place in spec.layers:
        layer = place.layer
        if isinstance(layer, _DOES_NOTHING) or (isinstance(layer, KeyedDropout) and layer.p == 0):
            continue
        if found and isinstance(layer, nn.ReLU) and isinstance(found[-1][0].layer, nn.MaxPool2d):
            found[-1] = (found[-1][0], True)
        elif found and isinstance(layer, nn.MaxPool2d) and isinstance(found[-1][0].layer, nn.ReLU):
            found[-1] = (place, True)
        else:
            found.append((place, False))
    return found


def plan_chain(spec: ChainSpec, positions: Mapping[str, int], trained: set[str], size: int, batch: int) -> ChainPlan:
    """The plan of a supported chain; ``positions`` of parameters and statistics, ``size`` numbers in all."""
    memory, table = _Memory(), _Table()
    state = memory.take(size)
    start, gradients = memory.take(size), memory.take(size)
    layers = reduced(spec)
    ops = np.full((len(layers), OP_COLUMNS), -1, dtype=np.int64)
    numbers = np.zeros((len(layers), 2))
    first = next(
        i
        for i, (place, _) in enumerate(layers)
        if any(f"{place.name}.{part}" in trained for part in ("weight", "bias"))
    )
    at, gradient = memory.take(int(np.prod(layers[0][0].before)) * batch), -1
    for i, (place, with_relu) in enumerate(layers):
        op = ops[i]
        op[X], op[GX] = at, gradient
        after = int(np.prod(place.after)) * batch
        at = op[Y] = memory.take(after)
        if i >= first:
            gradient = op[GY] = memory.take(after)
        for part, column in _OWN.items():
            op[column] = positions.get(f"{place.name}.{part}", -1)
        _WRITERS[type(place.layer)](_Row(op, numbers[i], place, with_relu, batch, memory, table), place.layer)
    assert state == 0
    classes = layers[-1][0].after[0]
    return ChainPlan(batch, ops, numbers, table.done(), memory.size, start, gradients, first, classes, at, gradient)


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _convolution(row: _Row, layer: nn.Conv2d) -> None:
    row.set_sizes(CONV)
    op, memory, table, batch = row.op, row.memory, row.table, row.batch
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
    line = (c * op[HP] + ky * op[DY]) * op[SX] + across % op[SX]
    op[T_IN] = table.add((line * op[WQ] + across // op[SX]) * batch)
    op[T_OUT] = table.rows(int(op[O]), int(op[HO] * op[WO]) * batch)


def _pool(row: _Row, layer: nn.MaxPool2d) -> None:
    row.set_sizes(POOL)
    op = row.op
    op[KH], op[KW] = _pair(layer.kernel_size)
    op[SY], op[SX] = _pair(layer.stride)
    op[TOP], op[LEFT] = _pair(layer.padding)
    op[DY], op[DX] = _pair(layer.dilation)
    op[ARGMAX] = row.memory.take(int(op[O] * op[HO] * op[WO]) * row.batch)
    op[RELU] = int(row.with_relu)
    kernel, stride = (op[KH], op[KW]), (op[SY], op[SX])
    covered = (op[HO] * op[KH], op[WO] * op[KW]) == (op[H], op[WD])
    plain = (op[TOP], op[LEFT], op[DY], op[DX]) == (0, 0, 1, 1)
    op[TILES] = int(kernel == stride and covered and plain)


def _linear(row: _Row, layer: nn.Linear) -> None:
    op, table, batch = row.op, row.table, row.batch
    op[KIND] = LINEAR
    op[C], op[O] = layer.in_features, layer.out_features
    op[T_IN], op[T_OUT] = table.rows(int(op[C]), batch), table.rows(int(op[O]), batch)
    op[SAVED] = row.memory.take(int(op[C]) * batch)
    op[T_TURNED], op[T_WEIGHTS] = table.rows(batch, int(op[C])), table.rows(int(op[O]), int(op[C]))


def _norm(row: _Row, layer: nn.BatchNorm2d) -> None:
    row.set_sizes(NORM)
    if layer.momentum is not None:
        row.numbers[:] = layer.momentum, layer.eps
    row.op[SAVED] = row.memory.take(2 * layer.num_features)


def _pointwise(kind: int) -> Callable[[_Row, Any], None]:
    def write(row: _Row, layer: nn.Module) -> None:
        row.op[KIND] = kind
        row.op[C] = int(np.prod(row.place.after))
        if isinstance(layer, KeyedDropout):
            row.numbers[0] = layer.p
        elif isinstance(layer, nn.GELU) and layer.approximate == "tanh":
            row.op[KIND] = GELU_TANH

    return write


# The layers that are compiled, and what writes their row. To add one: a kind and an entry here, and its forward and
# backward pass in kernels.py, called by steps.py.
_WRITERS: dict[type[nn.Module], Callable[[_Row, Any], None]] = {
    nn.Conv2d: _convolution,
    nn.MaxPool2d: _pool,
    nn.Linear: _linear,
    nn.BatchNorm2d: _norm,
    KeyedDropout: _pointwise(DROPOUT),
    nn.ReLU: _pointwise(RELU_LAYER),
    nn.Tanh: _pointwise(TANH),
    nn.Sigmoid: _pointwise(SIGMOID),
    nn.GELU: _pointwise(GELU),
}
_DOES_NOTHING = (nn.Flatten, nn.Identity)  # in this order of the numbers in memory
