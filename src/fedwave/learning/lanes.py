"""Many models trained side by side, each in its own lane: one vectorised step updates all of them.

Every lane has its own weights, running statistics and number of steps. Lanes are sorted longest first, so
that the unfinished ones are always a prefix. Any nn.Module works, on CPU and CUDA.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedwave.learning.gradients import Gradients, Way
from fedwave.learning.noise import step_keys
from fedwave.learning.state import Tensors
from fedwave.learning.task import Task
from fedwave.types import IntArray


@dataclass(frozen=True)
class Lane:
    """One local training: where it starts, and the samples of each of its steps."""

    start: Tensors
    buffers: Tensors
    steps: list[IntArray]
    key: int = 0  # of its random layers


class LaneTrainer:
    """Local training of many lanes; ``lanes`` at a time."""

    def __init__(
        self,
        task: Task,
        device: torch.device,
        dtype: torch.dtype,
        lanes: int,
        autocast: torch.dtype | None = None,
        *,
        way: Way | None = None,
    ) -> None:
        self._task, self._device, self._at_once = task, device, lanes
        self._images = torch.as_tensor(task.dataset.train_images).to(device, dtype)
        self._labels = torch.as_tensor(task.dataset.train_labels).to(device)
        # Channels-last layout in half precision only: on an H200 it is faster there and slower in float32.
        wanted = device.type == "cuda" and autocast is not None
        self._gradients = Gradients(task, device, dtype, autocast, way=way, channels_last=wanted)
        self._channels_last = wanted and self.way == "chain"
        # cuDNN searches its fastest kernel once per shape, so the number of lanes takes few values.
        self._multiple = 32 if device.type == "cuda" and self.way != "one by one" else 1
        if device.type == "cuda":
            torch.backends.cudnn.benchmark = True

    @property
    def way(self) -> Way:
        """How gradients are computed."""
        return self._gradients.way

    @property
    def needs_keys(self) -> bool:
        """Do lanes need keys, because the model has random layers?"""
        return self._gradients.needs_keys

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
        keys = torch.tensor([lane.key for lane in lanes], device=self._device)
        for step in range(len(lanes[0].steps)):
            at_work = [lane.steps[step] for lane in lanes if len(lane.steps) > step]
            sizes = np.array([len(samples) for samples in at_work])
            now = step_keys(keys, step) if self.needs_keys else keys
            for size in np.unique(sizes):  # nearly always one; a last short batch makes a second
                rows = np.flatnonzero(sizes == size)
                samples = torch.as_tensor(np.stack([at_work[r] for r in rows])).to(self._device)
                self._step(w, start, buffers, rows, samples, now)
        return w, buffers

    def _stack(self, one_each: list[Tensor]) -> Tensor:
        stacked = torch.stack(one_each)
        if self._channels_last and stacked.ndim == 5:  # of a convolution
            stacked = stacked.movedim(2, -1).contiguous().movedim(-1, 2)
        return stacked

    def _step(
        self, w: Tensors, start: Tensors, buffers: Tensors, rows: IntArray, samples: Tensor, keys: Tensor
    ) -> None:  # fmt: skip
        """One SGD step of the lanes in ``rows``, in place."""
        if len(rows) == rows[-1] + 1:
            self._step_prefix(w, start, buffers, samples, keys)
            return
        missing = -len(rows) % self._multiple
        copied = np.append(rows, np.repeat(rows[:1], missing))
        w_, start_, buffers_ = (
            {k: p[copied] for k, p in state.items()} for state in (w, start, buffers)
        )
        self._step_prefix(w_, start_, buffers_, samples, keys[copied])
        for state, part in ((w, w_), (buffers, buffers_)):
            for k, p in part.items():
                state[k][rows] = p[: len(rows)]

    def _step_prefix(
        self, w: Tensors, start: Tensors, buffers: Tensors, samples: Tensor, keys: Tensor
    ) -> None:
        """One SGD step of the first ``len(samples)`` lanes, in place; these are views and need no copy."""
        count = len(samples)
        wide = -(-count // self._multiple) * self._multiple
        # Finished lanes fill up the number; their results are discarded.
        idle = {k: p[count:wide].clone() for k, p in buffers.items()}
        along = torch.cat([samples, samples[:1].expand(wide - count, -1)])
        gradient = self._gradients(
            {k: p[:wide] for k, p in w.items()}, {k: p[:wide] for k, p in buffers.items()},
            self._images[along], self._labels[along], keys[:wide],
        )  # fmt: skip
        for k, p in buffers.items():
            p[count:wide] = idle[k]
        eta, prox, l2 = self._task.eta, self._task.prox, self._task.l2
        for k, p in w.items():
            # The gradients of the proximal and the l2 term are known in closed form.
            p[:count].mul_(1 - eta * (prox + l2)).add_(start[k][:count], alpha=eta * prox)
            p[:count].sub_(gradient[k][:count], alpha=eta)
