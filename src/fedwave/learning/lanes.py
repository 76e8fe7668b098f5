"""Many models trained side by side, each in its own lane: one vectorised step updates all of them.

Every lane has its own weights, running statistics and number of steps. Lanes are sorted longest first, so
that the unfinished ones are always a prefix. Any nn.Module works, on CPU and CUDA.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedwave.learning.batched_layers import side_by_side
from fedwave.learning.cpu.lanes import CpuLanes
from fedwave.learning.dropout import step_keys
from fedwave.learning.gpu.chain_lanes import ChainLanes
from fedwave.learning.gradients import Gradients, Way
from fedwave.learning.layout import Layout
from fedwave.learning.rows import Models, to_device
from fedwave.learning.sampling import Batches
from fedwave.learning.task import Task
from fedwave.types import IntArray


class LaneTrainer:
    """Local training of many lanes at once; ``room``: how many at most, if that is known."""

    def __init__(
        self,
        task: Task,
        device: torch.device,
        dtype: torch.dtype,
        autocast: torch.dtype | None = None,
        *,
        way: Way | None = None,
        room: int = 0,
    ) -> None:
        self._task, self._device = task, device
        self._layout = Layout(task.new_model(0, 0))
        self._images = torch.as_tensor(task.dataset.train_images).to(device, dtype)
        self._labels = torch.as_tensor(task.dataset.train_labels).to(device)
        # Channels-last layout in half precision only: on an H200 it is faster there and slower in float32.
        wanted = device.type == "cuda" and autocast is not None
        self._gradients = Gradients(task, device, dtype, autocast, way=way, channels_last=wanted)
        self._fast = self._fast_lanes(autocast, room) if way is None else None
        # cuDNN searches its fastest kernel once per shape, so the number of lanes takes few values.
        self._multiple = 32 if device.type == "cuda" and self.way != "one by one" else 1
        if device.type == "cuda":
            torch.backends.cudnn.benchmark = True
            # Torch would round the factors of a convolution to ten bits: float32 is asked for, and bfloat16 is faster.
            torch.backends.cudnn.allow_tf32 = False

    def _fast_lanes(self, autocast: torch.dtype | None, room: int) -> ChainLanes | CpuLanes | None:
        """What trains this model faster than torch alone; None if nothing does."""
        task, images = self._task, self._images
        if self._device.type == "cuda":
            known = side_by_side(task.new_model(0, 0)) is not None
            return ChainLanes(task, images, self._labels, autocast, room) if known else None
        return CpuLanes.of(task, images.dtype) if autocast is None else None

    @property
    def way(self) -> Way:
        """How gradients are computed."""
        return self._gradients.way

    @property
    def compiled(self) -> CpuLanes | None:
        """The compiled code that trains on a CPU, if it does: it can judge too."""
        return self._fast if isinstance(self._fast, CpuLanes) else None

    @property
    def needs_keys(self) -> bool:
        """Do lanes need keys, because the model has random layers?"""
        return self._gradients.needs_keys

    def __call__(self, start: Models, batches: Batches, keys: IntArray) -> Models:
        """The models after training, in rows that the next call may overwrite.

        Lanes are rows, longest first; ``keys`` are those of their random layers.
        """
        if self._fast is not None and self._fast.can_train(batches):
            return self._fast(start, batches, keys)
        count = len(start)
        models = start.padded(-(-count // self._multiple) * self._multiple)
        first = models.w.clone()
        steps = to_device(self._device, batches.samples.swapaxes(0, 1))
        of_lanes = to_device(self._device, np.resize(keys, len(models)))
        for step in range(int(batches.steps[0]) if count else 0):
            sizes = batches.sizes[:, step]
            now = step_keys(of_lanes, step) if self.needs_keys else of_lanes
            for size in np.unique(sizes[sizes > 0]).tolist():  # a last short batch makes a second
                rows = np.flatnonzero(sizes == size)
                self._step(models, first, rows, steps[step, :, :size], now)
        return models.rows(slice(count))

    def _step(self, models: Models, start: Tensor, rows: IntArray, samples: Tensor, keys: Tensor) -> None:
        """One SGD step of the lanes in ``rows``, in place."""
        if len(rows) == rows[-1] + 1:
            self._step_prefix(models, start, samples[: len(rows)], keys)
            return
        wide = np.resize(rows, -(-len(rows) // self._multiple) * self._multiple)
        chosen = to_device(self._device, wide)
        part = models.rows(wide)
        self._step_prefix(part, start[chosen], samples[chosen[: len(rows)]], keys[chosen])
        models.put(rows, part.rows(slice(len(rows))))

    def _step_prefix(self, models: Models, start: Tensor, samples: Tensor, keys: Tensor) -> None:
        """One SGD step of the first ``len(samples)`` lanes, in place; these are views and need no copy."""
        count = len(samples)
        wide = -(-count // self._multiple) * self._multiple
        # Finished lanes fill up the number; their results are discarded.
        idle = {k: p[count:wide].clone() for k, p in models.rest.items()}
        along = torch.cat([samples, samples[:1].expand(wide - count, -1)])
        gradient = self._gradients(
            self._layout.views(models.w[:wide]),
            {k: p[:wide] for k, p in models.rest.items()},
            self._images[along],
            self._labels[along],
            keys[:wide],
        )
        for k, p in models.rest.items():
            p[count:wide] = idle[k]
        eta, prox, l2 = self._task.eta, self._task.prox, self._task.l2
        w = models.w[:count]
        # The gradients of the proximal and the l2 term are known in closed form. As a difference: w (1 - eta prox) +
        # start eta prox would move w even where it equals start, because the rounded factors do not sum to 1.
        regular = (w - start[:count]).mul_(eta * prox).add_(w, alpha=eta * l2) if prox or l2 else None
        for k, p in self._layout.views(w).items():
            p.sub_(gradient[k][:count], alpha=eta)
        if regular is not None:
            w.sub_(regular)
