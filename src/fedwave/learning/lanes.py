"""Many models trained side by side, each in its own lane: one vectorised step updates all of them.

Every lane has its own weights, running statistics and number of steps. Lanes are sorted longest first, so
that the unfinished ones are always a prefix. Any nn.Module works, on CPU and CUDA.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from fedwave.learning.batched_layers import Forward, side_by_side
from fedwave.learning.evaluation import Tensors
from fedwave.learning.task import Task
from fedwave.types import IntArray


@dataclass(frozen=True)
class Lane:
    """One local training: where it starts, and the samples of each of its steps."""

    start: Tensors
    buffers: Tensors
    steps: list[IntArray]


class LaneTrainer:
    """Local training of many lanes; ``lanes`` at a time."""

    def __init__(
        self,
        task: Task,
        device: torch.device,
        dtype: torch.dtype,
        lanes: int,
        autocast: torch.dtype | None = None,
    ) -> None:
        self._task, self._device, self._at_once = task, device, lanes
        self._images = torch.as_tensor(task.dataset.train_images).to(device, dtype)
        self._labels = torch.as_tensor(task.dataset.train_labels).to(device)
        self._model: nn.Module = task.new_model(0, 0).to(device, dtype).train()
        self._autocast = autocast
        # Channels-last layout in half precision only: on an H200 it is faster there and slower in float32.
        self._channels_last = device.type == "cuda" and autocast is not None
        self._forward = side_by_side(self._model, self._channels_last)
        self._channels_last &= self._forward is not None
        # cuDNN searches its fastest kernel once per shape, so the number of lanes takes few values.
        self._multiple = 32 if device.type == "cuda" else 1
        if device.type == "cuda":
            torch.backends.cudnn.benchmark = True
        self._gradient: Callable[[Tensors, Tensors, Tensor, Tensor], Tensors]
        if self._forward is not None:
            self._gradient = partial(self._gradient_of_chain, self._forward)
        else:
            if autocast is not None:
                # Vectorised by torch, batch norm cannot mix half-precision inputs with float32 statistics.
                for module in self._model.modules():
                    if isinstance(module, _BatchNorm):
                        module.register_forward_pre_hook(lambda _, inputs: (inputs[0].float(),))
            # randomness: a model with dropout draws for each lane; the paper's models have none.
            self._gradient = vmap(grad(self._loss_of_one), randomness="different")

    def __call__(self, lanes: list[Lane]) -> list[tuple[Tensors, Tensors]]:
        """Parameters and buffers after training, in the order of ``lanes``."""
        order = sorted(range(len(lanes)), key=lambda i: -len(lanes[i].steps))
        results: dict[int, tuple[Tensors, Tensors]] = {}
        for first in range(0, len(order), self._at_once):
            chosen = order[first : first + self._at_once]
            missing = -len(chosen) % self._multiple
            idle = [replace(lanes[chosen[-1]], steps=[])] * missing
            w, buffers = self._train([lanes[i] for i in chosen] + idle)
            for row, i in enumerate(chosen):
                results[i] = (
                    {k: p[row] for k, p in w.items()},
                    {k: p[row] for k, p in buffers.items()},
                )
        return [results[i] for i in range(len(lanes))]

    def _train(self, lanes: list[Lane]) -> tuple[Tensors, Tensors]:
        start = {k: self._stack([lane.start[k] for lane in lanes]) for k in lanes[0].start}
        buffers = {k: torch.stack([lane.buffers[k] for lane in lanes]) for k in lanes[0].buffers}
        w = {k: p.clone() for k, p in start.items()}
        for step in range(len(lanes[0].steps)):
            at_work = [lane.steps[step] for lane in lanes if len(lane.steps) > step]
            sizes = np.array([len(samples) for samples in at_work])
            for size in np.unique(sizes):  # nearly always one; a last short batch makes a second
                rows = np.flatnonzero(sizes == size)
                samples = torch.as_tensor(np.stack([at_work[r] for r in rows])).to(self._device)
                self._step(w, start, buffers, rows, samples)
        return w, buffers

    def _stack(self, one_each: list[Tensor]) -> Tensor:
        stacked = torch.stack(one_each)
        if self._channels_last and stacked.ndim == 5:  # of a convolution
            stacked = stacked.movedim(2, -1).contiguous().movedim(-1, 2)
        return stacked

    def _step(
        self, w: Tensors, start: Tensors, buffers: Tensors, rows: IntArray, samples: Tensor
    ) -> None:
        """One SGD step of the lanes in ``rows``, in place."""
        if len(rows) == rows[-1] + 1:
            self._step_prefix(w, start, buffers, samples)
            return
        missing = -len(rows) % self._multiple
        copied = np.append(rows, np.repeat(rows[:1], missing))
        w_, start_, buffers_ = (
            {k: p[copied] for k, p in state.items()} for state in (w, start, buffers)
        )
        self._step_prefix(w_, start_, buffers_, samples)
        for state, part in ((w, w_), (buffers, buffers_)):
            for k, p in part.items():
                state[k][rows] = p[: len(rows)]

    def _step_prefix(self, w: Tensors, start: Tensors, buffers: Tensors, samples: Tensor) -> None:
        """One SGD step of the first ``len(samples)`` lanes, in place; these are views and need no copy."""
        count = len(samples)
        wide = -(-count // self._multiple) * self._multiple
        # Finished lanes fill up the number; their results are discarded.
        idle = {k: p[count:wide].clone() for k, p in buffers.items()}
        along = torch.cat([samples, samples[:1].expand(wide - count, -1)])
        gradient = self._gradient(
            {k: p[:wide] for k, p in w.items()}, {k: p[:wide] for k, p in buffers.items()},
            self._images[along], self._labels[along],
        )  # fmt: skip
        for k, p in buffers.items():
            p[count:wide] = idle[k]
        eta, prox, l2 = self._task.eta, self._task.prox, self._task.l2
        for k, p in w.items():
            # The gradients of the proximal and the l2 term are known in closed form.
            p[:count].mul_(1 - eta * (prox + l2)).add_(start[k][:count], alpha=eta * prox)
            p[:count].sub_(gradient[k][:count], alpha=eta)

    def _gradient_of_chain(
        self, forward: Forward, w: Tensors, buffers: Tensors, images: Tensor, labels: Tensor
    ) -> Tensors:
        w = {k: p.detach().requires_grad_() for k, p in w.items()}
        with self._precision():
            logits = forward(w, buffers, images)
        logits = logits.flatten(0, 1)
        logits = logits.float() if self._autocast else logits
        # The mean over a lane's samples, summed over the lanes: each gets the gradient of its own loss.
        loss = F.cross_entropy(logits, labels.flatten(), reduction="sum") / labels.shape[1]
        return dict(zip(w, torch.autograd.grad(loss, list(w.values())), strict=True))

    def _loss_of_one(self, w: Tensors, buffers: Tensors, images: Tensor, labels: Tensor) -> Tensor:
        with self._precision():
            logits = functional_call(self._model, (w, buffers), (images,))
        return F.cross_entropy(logits.float() if self._autocast else logits, labels)

    def _precision(self) -> torch.autocast:
        wanted = self._autocast
        return torch.autocast(self._device.type, wanted, enabled=wanted is not None)
