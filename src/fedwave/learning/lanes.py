"""Many models trained side by side, each in a lane of its own: one vectorised step moves them all.

Every lane has its own weights, running statistics and number of steps. Lanes are sorted longest first, so
that the ones still at work are always a prefix. Any nn.Module works, on CPU and CUDA.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from fedwave.learning.evaluation import State
from fedwave.learning.task import Task
from fedwave.types import IntArray


@dataclass(frozen=True)
class Lane:
    """One local training: where it starts, and the samples of each of its steps."""

    start: State
    buffers: State
    steps: list[IntArray]


class LaneTrainer:
    """Local training of many lanes; ``block`` lanes at a time."""

    def __init__(
        self,
        task: Task,
        device: torch.device,
        dtype: torch.dtype,
        block: int,
        autocast: torch.dtype | None = None,
    ) -> None:
        self._task, self._device, self._block = task, device, block
        self._images = torch.as_tensor(task.dataset.train_images).to(device, dtype)
        self._labels = torch.as_tensor(task.dataset.train_labels).to(device)
        self._model: nn.Module = task.new_model(0, 0).to(device, dtype).train()
        self._autocast = autocast
        if autocast is not None:
            # Side by side, batch norm cannot mix half-precision inputs with its float32 statistics.
            for module in self._model.modules():
                if isinstance(module, _BatchNorm):
                    module.register_forward_pre_hook(lambda _, inputs: (inputs[0].float(),))
        # randomness: a model with dropout draws for each lane; the paper's models have none.
        self._gradient = vmap(grad(self._loss), randomness="different")

    def __call__(self, lanes: list[Lane]) -> list[tuple[State, State]]:
        """Parameters and buffers after training, in the order of ``lanes``."""
        order = sorted(range(len(lanes)), key=lambda i: -len(lanes[i].steps))
        results: dict[int, tuple[State, State]] = {}
        for first in range(0, len(order), self._block):
            chosen = order[first : first + self._block]
            w, buffers = self._train([lanes[i] for i in chosen])
            for row, i in enumerate(chosen):
                results[i] = (
                    {k: p[row] for k, p in w.items()},
                    {k: p[row] for k, p in buffers.items()},
                )
        return [results[i] for i in range(len(lanes))]

    def _train(self, lanes: list[Lane]) -> tuple[State, State]:
        start = {k: torch.stack([lane.start[k] for lane in lanes]) for k in lanes[0].start}
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

    def _step(
        self, w: State, start: State, buffers: State, rows: IntArray, samples: Tensor
    ) -> None:
        """One SGD step of the lanes in ``rows``, in place."""
        whole = len(rows) == rows[-1] + 1  # a prefix is a view and needs no copy
        index: slice | Tensor = (
            slice(0, len(rows)) if whole else torch.as_tensor(rows).to(self._device)
        )
        part = {k: p[index] for k, p in w.items()}
        part_buffers = {k: p[index] for k, p in buffers.items()}
        gradient = self._gradient(part, part_buffers, self._images[samples], self._labels[samples])
        task = self._task
        for k, p in part.items():
            # The gradients of the proximal and the l2 term are known in closed form.
            pull = task.prox * (p - start[k][index]) + task.l2 * p
            p -= task.eta * (gradient[k] + pull)
        if not whole:
            for k, p in part.items():
                w[k][index] = p
            for k, p in part_buffers.items():
                buffers[k][index] = p

    def _loss(self, w: State, buffers: State, images: Tensor, labels: Tensor) -> Tensor:
        if self._autocast is None:
            logits = functional_call(self._model, (w, buffers), (images,))
        else:
            with torch.autocast(self._device.type, self._autocast):
                logits = functional_call(self._model, (w, buffers), (images,))
        return F.cross_entropy(logits.float() if self._autocast else logits, labels)
