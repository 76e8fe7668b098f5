"""Lanes of known chains on a GPU: the steps of all of them are started at once (chain_steps.py)."""

from __future__ import annotations

import numpy as np
import torch

from fedwave.learning.gpu.chain_steps import ChainSteps
from fedwave.learning.layout import Layout
from fedwave.learning.rows import Models, to_device
from fedwave.learning.sampling import Batches
from fedwave.learning.task import Task
from fedwave.types import IntArray


class ChainLanes:
    """Trains blocks of lanes in rows that stay where they are, so that steps are recorded once.

    ``room``: how many lanes the largest block will have, if that is known. Without it the rows grow, and every time
    all steps are recorded anew.
    """

    def __init__(
        self, task: Task, images: torch.Tensor, labels: torch.Tensor, autocast: torch.dtype | None, room: int = 0
    ) -> None:
        self._task, self._room = task, room
        model = task.new_model(0, 0).to(images)  # the device and the type of the training images
        self._steps = ChainSteps(
            model,
            Layout(model),
            images,
            labels,
            batch=task.batch,
            eta=task.eta,
            prox=task.prox,
            l2=task.l2,
            autocast=autocast,
        )
        self._rows: Models | None = None
        self._start: torch.Tensor | None = None

    def can_train(self, batches: Batches) -> bool:
        """Not every way can train on short batches."""
        full = self._task.batch
        return not self._steps.needs_full_batches or bool(np.isin(batches.sizes, (0, full)).all())

    def __call__(self, start: Models, batches: Batches, keys: IntArray) -> Models:
        """The models after training, in rows that the next call overwrites."""
        count, device = len(start), start.w.device
        if self._rows is None or len(self._rows) < count:
            self._rows = self._start = None  # the old ones make room for the new
            self._rows = start.padded(max(count, self._room))
            self._start = self._rows.w.clone()
        assert self._start is not None
        rows = self._rows.rows(slice(count))
        rows.w.copy_(start.w)
        self._start[:count].copy_(start.w)
        for name, p in rows.rest.items():
            p.copy_(start.rest[name])
        samples = to_device(device, batches.samples.astype(np.int32).swapaxes(0, 1))
        at_work = np.count_nonzero(batches.sizes, axis=0).tolist()
        self._steps(self._rows.w, self._start, self._rows.rest, samples, at_work, to_device(device, keys))
        return rows
