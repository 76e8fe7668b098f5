"""Chains of known layers on a CPU by compiled code (chain.py): one lane per thread."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedwave.learning.backends.base import Backend, Precision
from fedwave.learning.backends.cpu.chain import CpuChain
from fedwave.learning.dropout import key_dropout
from fedwave.learning.layout import Layout
from fedwave.learning.rows import Models
from fedwave.learning.sampling import Batches
from fedwave.learning.settings import one_thread
from fedwave.learning.task import Task
from fedwave.types import IntArray

_TYPES = {torch.float32: np.float32, torch.float64: np.float64}


class NumbaBackend(Backend):
    """Made by ``of``."""

    @classmethod
    def of(cls, task: Task, precision: Precision) -> NumbaBackend | None:
        """None if compiled code cannot train this model in this precision."""
        if precision.half is not None:
            return None
        model = task.new_model(0, 0).to(precision.dtype)
        key_dropout(model)
        data, rates = task.dataset, {"eta": task.eta, "prox": task.prox, "l2": task.l2}
        with one_thread():
            chain = CpuChain.of(
                model, Layout(model), data.train_images, data.train_labels, **rates, dtype=_TYPES[precision.dtype]
            )
        return None if chain is None else cls(chain)

    def __init__(self, chain: CpuChain) -> None:
        self._chain, self.needs_keys = chain, chain.spec.draws

    def train(self, rows: Models, batches: Batches, keys: IntArray) -> Models:
        models = rows.padded(len(rows))  # a copy
        steps = [
            [row[:size] for row, size in zip(samples, sizes, strict=True) if size]
            for samples, sizes in zip(batches.samples, batches.sizes, strict=True)
        ]
        rest = {k: p.numpy() for k, p in models.rest.items()}
        threads = torch.get_num_threads()
        self._chain.train_many(models.w.numpy(), rows.w.numpy(), rest, steps, keys.tolist(), threads)
        return models

    def logits(self, rows: Models, images: Tensor) -> Tensor:
        found = []
        for row in range(len(rows)):
            rest = {k: p[row].numpy() for k, p in rows.rest.items()}
            found.append(self._chain.logits(rows.w[row].numpy(), rest, images.numpy()))
        return torch.as_tensor(np.stack(found))
