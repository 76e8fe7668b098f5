"""Trains any model on any device by torch: one vectorised step updates the models of many lanes.

Every lane has its own weights, running statistics and number of steps. Lanes are sorted longest first, so that the
unfinished ones are always a prefix.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedwave.learning.backends.base import Backend, Precision
from fedwave.learning.backends.gradients import GradientMethod, Gradients
from fedwave.learning.dropout import step_keys
from fedwave.learning.model_rows import Layout, ModelRows, Tensors, as_tensor, to_device
from fedwave.learning.optimizers import Sgd
from fedwave.learning.sampling import Batches
from fedwave.learning.task import Task
from fedwave.types import IntArray

_IMAGES_AT_ONCE = 1000  # 10,000 would need gigabytes for the first layer of a large model


def model_outputs(model: nn.Module, state: Tensors, inputs: Tensor) -> Tensor:
    """The outputs of one model with these parameters and buffers, in the mode that it is in."""
    # A copy: a model may write into its inputs.
    pieces = [functional_call(model, state, (x.clone(),)) for x in torch.split(inputs, _IMAGES_AT_ONCE)]
    return torch.cat(pieces)


class TorchBackend(Backend):
    """Trains and evaluates any model; the fastest ``method`` of gradients.py is chosen unless one is given."""

    def __init__(self, task: Task, precision: Precision, method: GradientMethod | None = None) -> None:
        self._task, self._precision = task, precision
        device, dtype = precision.device, precision.dtype
        on_gpu = device.type == "cuda"
        self._model = task.new_model(0, 0).to(device, dtype).eval()
        self._layout = Layout(self._model)
        self._inputs = as_tensor(task.dataset.train_inputs, dtype, device)
        self._targets = as_tensor(task.dataset.train_targets, dtype, device)
        # Channels-last layout in half precision only: on an H200 it is faster there and slower in float32.
        wanted = on_gpu and precision.half is not None
        self._gradients = Gradients(task, precision, method=method, channels_last=wanted)
        self.method, self.needs_keys = self._gradients.method, self._gradients.needs_keys
        # cuDNN searches for its fastest kernel once per shape, so the number of lanes takes few values.
        self._multiple = 32 if on_gpu and self.method != "one by one" else 1

    def train(self, rows: ModelRows, batches: Batches, keys: IntArray) -> ModelRows:
        count, device = len(rows), self._precision.device
        models = rows.padded(-(-count // self._multiple) * self._multiple)
        first, memory = models.w.clone(), self._task.optimizer.start(models.w)
        steps = to_device(device, batches.samples.swapaxes(0, 1))
        of_lanes = to_device(device, np.resize(keys, len(models)))
        for step in range(int(batches.steps[0]) if count else 0):
            sizes = batches.sizes[:, step]
            now = step_keys(of_lanes, step) if self.needs_keys else of_lanes
            for size in np.unique(sizes[sizes > 0]).tolist():  # a last short batch makes a second
                lanes = np.flatnonzero(sizes == size)
                self._step(models, first, memory, step + 1, lanes, steps[step, :, :size], now)
        return models.rows(slice(count))

    @torch.no_grad()
    def logits(self, rows: ModelRows, inputs: Tensor) -> Tensor:
        views = self._layout.views(rows.w) | rows.rest
        with self._precision.autocast():
            found = [model_outputs(self._model, {k: p[i] for k, p in views.items()}, inputs) for i in range(len(rows))]
        return torch.stack(found)

    def _step(
        self,
        models: ModelRows,
        start: Tensor,
        memory: Tensors,
        number: int,
        lanes: IntArray,
        samples: Tensor,
        keys: Tensor,
    ) -> None:
        """One step of some lanes, in place."""
        if len(lanes) == lanes[-1] + 1:
            self._step_prefix(models, start, memory, number, samples[: len(lanes)], keys)
            return
        wide = np.resize(lanes, -(-len(lanes) // self._multiple) * self._multiple)
        chosen = to_device(self._precision.device, wide)
        part = models.rows(wide)
        own = {k: p[chosen] for k, p in memory.items()}
        self._step_prefix(part, start[chosen], own, number, samples[chosen[: len(lanes)]], keys[chosen])
        models.put(lanes, part.rows(slice(len(lanes))))
        for k, p in memory.items():
            p[chosen[: len(lanes)]] = own[k][: len(lanes)]

    def _step_prefix(
        self, models: ModelRows, start: Tensor, memory: Tensors, number: int, samples: Tensor, keys: Tensor
    ) -> None:
        """One step of the first ``len(samples)`` lanes, in place; these are views and need no copy."""
        count = len(samples)
        wide = -(-count // self._multiple) * self._multiple
        # Finished lanes fill up the number; their results are discarded.
        idle = {k: p[count:wide].clone() for k, p in models.rest.items()}
        along = torch.cat([samples, samples[:1].expand(wide - count, -1)])
        gradient = self._gradients(
            self._layout.views(models.w[:wide]),
            {k: p[:wide] for k, p in models.rest.items()},
            self._inputs[along],
            self._targets[along],
            keys[:wide],
        )
        for k, p in models.rest.items():
            p[count:wide] = idle[k]
        eta, prox, l2 = self._task.eta, self._task.prox, self._task.l2
        w = models.w[:count]
        if not isinstance(self._task.optimizer, Sgd):
            whole = self._layout.flat({k: g[:count] for k, g in gradient.items()})
            whole += (w - start[:count]) * prox + w * l2
            after, direction = self._task.optimizer.step({k: p[:count] for k, p in memory.items()}, whole, number)
            for k, p in after.items():
                memory[k][:count] = p
            w.sub_(direction, alpha=eta)
            return
        # The gradients of the proximal and the l2 term are known in closed form. As a difference: w (1 - eta prox) +
        # start eta prox would move w even where it equals start, because the rounded factors do not sum to 1.
        regular = (w - start[:count]).mul_(eta * prox).add_(w, alpha=eta * l2) if prox or l2 else None
        for k, p in self._layout.views(w).items():
            p.sub_(gradient[k][:count], alpha=eta)
        if regular is not None:
            w.sub_(regular)
