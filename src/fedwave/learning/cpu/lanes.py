"""Lanes, and the judgement, of known chains on a CPU by compiled code (chain.py): one lane per thread."""

from __future__ import annotations

import numpy as np
import torch

from fedwave.learning.cpu.chain import CpuChain
from fedwave.learning.dropout import key_dropout
from fedwave.learning.layout import Layout
from fedwave.learning.rows import Models
from fedwave.learning.sampling import Batches
from fedwave.learning.settings import one_thread
from fedwave.learning.task import Task
from fedwave.types import Array, IntArray

_TYPES = {torch.float32: np.float32, torch.float64: np.float64}


class CpuLanes:
    """Trains blocks of lanes; made by ``of``."""

    @staticmethod
    def of(task: Task, dtype: torch.dtype) -> CpuLanes | None:
        """None if the compiled code cannot train this model: then torch does."""
        model = task.new_model(0, 0).to(dtype)
        key_dropout(model)
        with one_thread():
            chain = CpuChain.of(
                model,
                Layout(model),
                task.dataset.train_images,
                task.dataset.train_labels,
                eta=task.eta,
                prox=task.prox,
                l2=task.l2,
                dtype=_TYPES[dtype],
            )
        return None if chain is None else CpuLanes(chain)

    def __init__(self, chain: CpuChain) -> None:
        self._chain = chain

    def can_train(self, batches: Batches) -> bool:
        """Any batches."""
        return True

    def __call__(self, start: Models, batches: Batches, keys: IntArray) -> Models:
        """The models after training."""
        models = start.padded(len(start))  # a copy
        steps = [
            [row[:size] for row, size in zip(samples, sizes, strict=True) if size]
            for samples, sizes in zip(batches.samples, batches.sizes, strict=True)
        ]
        rest = {k: p.numpy() for k, p in models.rest.items()}
        threads = torch.get_num_threads()
        self._chain.train_many(models.w.numpy(), start.w.numpy(), rest, steps, keys.tolist(), threads)
        return models

    def logits(self, models: Models, row: int, images: Array) -> Array:
        """What one of the models says about images in evaluation mode, ``[image, class]``."""
        rest = {k: p[row].numpy() for k, p in models.rest.items()}
        return self._chain.logits(models.w[row].numpy(), rest, images)
