"""Trains and evaluates many deep convolutional networks side by side, layer by layer.

A convolution of all lanes is one batched matrix product of their columns (im2col), or, where a map is wide and has few
channels, one grouped convolution. What lies between two products is one pass over the memory each way (wide_ops.py).
The gradients are written out by hand: a layer's weights are updated as soon as their gradient is known, so that no
gradient of the whole model is ever stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedwave.learning.backends.gpu.blocks import ChainBlocks, LinearBlock
from fedwave.learning.backends.gpu.cuda_graph import StepGraphs
from fedwave.learning.backends.gpu.wide_ops import ConvBlock, LaneRows, Map, SgdRule, WideOps
from fedwave.learning.model_rows import Layout, Tensors

_GROUPED = (4, 8, 16, 32)  # lanes of a grouped convolution: few numbers, since cuDNN searches a kernel for each
_RECORDED = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32)  # places of a recorded step


class WideChain:
    """Steps and logits of chains of convolutions, batch norm, ReLU, pooling and linear layers."""

    def __init__(
        self,
        blocks: ChainBlocks,
        layout: Layout,
        images: Tensor,
        labels: Tensor,
        *,
        batch: int,
        rule: SgdRule,
        half: torch.dtype | None,
        width: int,
        ops: WideOps,
        group_wide_maps: bool,
        record: bool,
    ) -> None:
        self._blocks, self._linears = blocks.convolutions, blocks.linears
        self._layout, self._images, self._labels = layout, images, labels
        self._batch, self._rule, self._width, self._ops = batch, rule, width, ops
        self._dtype = half or images.dtype
        self._grouped = group_wide_maps
        self._copies: list[Tensor] = []
        self._graphs = StepGraphs(width, batch, images.device) if record else None

    @staticmethod
    def supports(blocks: ChainBlocks) -> bool:
        """Can it compute these blocks?"""
        return bool(blocks.convolutions) and all(block.pool in (1, 2) for block in blocks.convolutions)

    def __call__(self, w: Tensor, start: Tensor, rest: Tensors, samples: Tensor, steps: list[int]) -> None:
        """Train all lanes in place; they are sorted longest first."""
        plan = segments(steps, self._width)
        if not plan:
            return
        sizes = [self._size(len(s.lanes)) for s in plan]
        widest = self._padded(max(sizes))
        # What is recorded must stay where it is, so there is room for all places from the start.
        room = widest if self._graphs is None else self._padded(self._size(self._width))
        self._prepare(room, w.device)
        batches, models, changed = self._on_device(plan, widest, samples)
        state = (w, start, rest)
        if self._graphs is not None:
            self._graphs.begin([w, start, *rest.values(), *self._copies])

        def record(lane_of: Tensor, chosen: Tensor) -> None:
            self._step(self._rows(state, lane_of, len(chosen)), chosen)

        step = 0
        for i, (segment, size) in enumerate(zip(plan, sizes, strict=True)):
            self._copy_weights(self._rows(state, changed[i], widest))
            rows = self._rows(state, models[i], size)
            for _ in range(segment.count):
                if self._graphs is None:
                    self._step(rows, batches[step, :size])
                else:
                    self._graphs(size, batches[step], models[i], record)
                step += 1

    def _on_device(self, plan: list[Segment], widest: int, samples: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The samples ``[step, place, sample]``; the lane in each place, and where it is new, of every segment."""
        chosen, models, changed = [], [], []
        held = [-1] * widest
        for segment in plan:
            idle = widest - len(segment.lanes)
            steps = np.array(segment.first) + np.arange(segment.count)[:, None]
            rows = steps * samples.shape[1] + np.array(segment.lanes)
            chosen.append(np.pad(rows, ((0, 0), (0, idle))))
            now = segment.lanes + [-1] * idle
            models.append(now)
            changed.append([a if a != b else -1 for a, b in zip(now, held, strict=True)])
            held = now
        device = samples.device
        rows = torch.as_tensor(np.concatenate(chosen)).to(device, non_blocking=True)
        lanes = torch.tensor([models, changed], dtype=torch.int32).to(device, non_blocking=True)
        return samples.flatten(0, 1)[rows].int(), lanes[0], lanes[1]

    def _rows(self, state: tuple[Tensor, Tensor, Tensors], lane_of: Tensor, count: int) -> LaneRows:
        return LaneRows(*state, lane_of, count, self._layout, self._rule)

    def _size(self, count: int) -> int:
        """The number of places that are computed for ``count`` lanes; it takes few values if steps are recorded."""
        if self._graphs is None:
            return count
        return next((n for n in _RECORDED if n >= count), -(-count // 8) * 8)

    @torch.no_grad()
    def logits(self, w: Tensor, rest: Tensors, images: Tensor) -> Tensor:
        """The logits ``[model, image, class]`` in evaluation mode, in pieces of some images."""
        count = len(w)
        padded = self._padded(count)
        self._prepare(padded, w.device)
        lanes = torch.arange(padded, dtype=torch.int32, device=w.device)
        rows = self._rows((w, w, rest), torch.where(lanes < count, lanes, -1), count)
        self._copy_weights(rows)
        stats = [self._ops.running_statistics(block, rows) for block in self._blocks]
        piece = max(1, self._width * self._batch // count)
        found = []
        for some in torch.split(images, piece):
            chosen = torch.arange(len(some), dtype=torch.int32, device=w.device)
            chosen = chosen.expand(count, -1).contiguous()
            x: Any = None
            for i, block in enumerate(self._blocks):
                y, _ = self._convolved(i, block, x, some, chosen)
                x = self._ops.activate(y, block, stats[i], self._group(i + 1, count))
            h = _features(x.lanes())
            for j, linear in enumerate(self._linears):
                h = self._linear(j, linear, h, rows)
            found.append(h)
        return torch.cat(found, 1)

    def _prepare(self, places: int, device: torch.device) -> None:
        """Room for copies of the weights, as the products read them."""
        if self._copies and len(self._copies[0]) >= places:
            return
        shapes = [(b.outputs, b.wide) for b in self._blocks]
        shapes += [(p.outputs, p.inputs) for p in self._linears]
        self._copies = [torch.zeros(places, *s, dtype=self._dtype, device=device) for s in shapes]

    def _copy_weights(self, rows: LaneRows) -> None:
        names = [b.name for b in self._blocks] + [p.name for p in self._linears]
        for name, copy in zip(names, self._copies, strict=True):
            self._ops.step_weights(rows, name, None, copy)

    @torch.no_grad()
    def _step(self, rows: LaneRows, chosen: Tensor) -> None:
        ops, count = self._ops, rows.count
        rows = replace(rows, present=(chosen >= 0).sum(1, dtype=torch.int32))
        x: Any = None
        kept = []
        for i, block in enumerate(self._blocks):
            y, columns = self._convolved(i, block, x, self._images, chosen)
            stats = ops.statistics(y, block, rows)
            out = ops.activate(y, block, stats, self._group(i + 1, count))
            kept.append((x, columns, y, stats))
            x = out
        shape, group = x.shape, x.group
        gradient = self._head(_features(x.lanes()), rows, chosen)
        grad: Any = Map.of_lanes(_pixels(gradient, shape), group)
        del x, out, gradient
        for i, block in reversed(list(enumerate(self._blocks))):
            x, columns, y, stats = kept.pop()
            ops.gradient_sums(grad, y, block, stats, rows)
            grad = ops.before_activation(grad, y, block, stats, rows)
            del y
            grad = self._convolution_backward(i, block, x, columns, grad, rows)
            del x, columns

    # Convolutions, by one of two ways.

    def _padded(self, count: int) -> int:
        """The number of lanes of a grouped convolution for ``count`` lanes."""
        if not self._grouped:
            return count
        return next((n for n in _GROUPED if n >= count), -(-count // _GROUPED[-1]) * _GROUPED[-1])

    def _group(self, i: int, count: int) -> int:
        """The number of lanes side by side in the map that block ``i`` reads; 1 if they lie one after another."""
        if not self._grouped or i >= len(self._blocks) or i == 0:
            return 1
        return self._padded(count) if self._blocks[i].wants_groups else 1

    def _convolved(self, i: int, block: ConvBlock, x: Any, images: Tensor, chosen: Tensor) -> tuple[Map, Tensor | None]:
        copy = self._copies[i]
        shape = (len(chosen), chosen.shape[1], *block.convolved)
        if i and x.group > 1:
            y = F.conv2d(
                x.side_by_side(), _kernels(copy[: x.group], block), None, block.stride, block.padding, 1, x.group
            )
            return Map.of_side_by_side(y, shape, x.group), None
        columns = self._ops.columns(x, block) if i else self._ops.image_columns(images, chosen, block, self._dtype)
        y = torch.bmm(columns, copy[: len(chosen)].transpose(1, 2))
        return Map(y, shape, 1), columns

    def _convolution_backward(
        self, i: int, block: ConvBlock, x: Any, columns: Tensor | None, grad: Map, rows: LaneRows
    ) -> Map | None:
        """The gradient of the block's input; its weights are updated."""
        copy = self._copies[i]
        before = None
        if columns is None:
            maps = grad.side_by_side(), x.side_by_side(), _kernels(copy[: x.group], block)
            sizes = [block.stride] * 2, [block.padding] * 2, [1, 1]
            # Not transposed; the gradients of input and weights are wanted, that of a bias is not.
            out = torch.ops.aten.convolution_backward(*maps, None, *sizes, False, [0, 0], x.group, [True, True, False])
            before = Map.of_side_by_side(out[0], x.shape, x.group)
            of_weights = out[1].permute(0, 2, 3, 1).reshape(x.group, block.outputs, block.wide)
        else:
            g = grad.data.view(rows.count, -1, block.outputs)
            if i:
                of_columns = torch.bmm(g, copy[: rows.count])
                before = self._ops.from_columns(of_columns, block, x.shape, x.group)
                del of_columns
            of_weights = torch.bmm(g.transpose(1, 2), columns)
        self._ops.step_weights(rows, block.name, of_weights, copy)
        return before

    # Linear layers and the loss.

    def _linear(self, j: int, linear: LinearBlock, h: Tensor, rows: LaneRows) -> Tensor:
        out = torch.bmm(h, self._copies[len(self._blocks) + j][: rows.count].transpose(1, 2))
        if linear.has_bias:
            out = out + rows.vector(f"{linear.name}.bias")[:, None].to(out.dtype)
        return out.relu() if linear.relu else out

    def _head(self, h: Tensor, rows: LaneRows, chosen: Tensor) -> Tensor:
        """The gradient of the features; the linear layers are updated."""
        labels = self._labels[chosen.clamp(min=0).long()]
        present = (chosen >= 0)[:, :, None]
        inputs = []
        for j, linear in enumerate(self._linears):
            inputs.append(h)
            h = self._linear(j, linear, h, rows)
        wide = h.float() if h.element_size() < 4 else h
        g = torch.softmax(wide, 2)
        g.scatter_add_(2, labels[:, :, None], torch.full_like(g[:, :, :1], -1.0))
        g = (g * present / present.sum(1, keepdim=True).clamp(min=1)).to(h.dtype)
        for j, linear in reversed(list(enumerate(self._linears))):
            copy = self._copies[len(self._blocks) + j]
            before = torch.bmm(g, copy[: rows.count])
            self._ops.step_weights(rows, linear.name, torch.bmm(g.transpose(1, 2), inputs[j]), copy)
            if linear.has_bias:
                of_bias = g.sum(1, dtype=torch.promote_types(g.dtype, torch.float32))
                self._ops.step_vector(rows, f"{linear.name}.bias", of_bias)
            if j and self._linears[j - 1].relu:
                before = before * (inputs[j] > 0)
            g = before
        return g


def _kernels(copy: Tensor, block: ConvBlock) -> Tensor:
    """The weights of a grouped convolution, channels last."""
    k = block.kernel
    return copy.view(-1, k, k, block.inputs).permute(0, 3, 1, 2)


def _features(maps: Tensor) -> Tensor:
    """Maps ``[lane, sample, row, column, channel]`` as torch flattens them, channels first."""
    return maps.permute(0, 1, 4, 2, 3).flatten(2)


def _pixels(features: Tensor, shape: tuple[int, ...]) -> Tensor:
    lanes, samples, rows, columns, channels = shape
    return features.view(lanes, samples, channels, rows, columns).permute(0, 1, 3, 4, 2)


# The order of lanes of different length, when only some fit side by side.


@dataclass(frozen=True)
class Segment:
    """Steps in which the same lanes are trained, one in each place."""

    lanes: list[int]
    first: list[int]  # the step that each lane is at
    count: int  # steps


def segments(steps: list[int], width: int) -> list[Segment]:
    """The segments of lanes with these numbers of steps, given longest first.

    A finished lane makes room for the next one. Lanes keep their places as long as there are others waiting.

    >>> [(s.lanes, s.first, s.count) for s in segments([3, 2, 2], 2)]
    [([0, 1], [0, 0], 2), ([0, 2], [2, 0], 1), ([2], [1], 1)]
    """
    waiting = [lane for lane, count in enumerate(steps) if count > 0][::-1]
    lanes = [waiting.pop() for _ in range(min(width, len(waiting)))]
    done = [0] * len(steps)
    made = []
    while lanes:
        count = min(steps[lane] - done[lane] for lane in lanes)
        made.append(Segment(list(lanes), [done[lane] for lane in lanes], count))
        for lane in lanes:
            done[lane] += count
        for place in reversed(range(len(lanes))):
            if done[lanes[place]] == steps[lanes[place]]:
                if waiting:
                    lanes[place] = waiting.pop()
                else:
                    lanes[place] = lanes[-1]
                    lanes.pop()
    return made
