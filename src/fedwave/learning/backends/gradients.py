"""The gradients of many models at once, by the fastest of three methods that computes them correctly.

- "chain": a plain chain of known layers, all models by one call per layer (batched_layers.py).
- "vectorised": torch.func runs forward once for all models. It is tried on a few inputs first, and taken if it gives
  what each model gives alone.
- "one by one": each model alone, as in the reference trainer. Always correct, also for layers that draw from torch's
  generator.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from fedwave.errors import FedwaveError, error_text
from fedwave.learning.backends.base import Precision
from fedwave.learning.backends.batched_layers import batched_forward
from fedwave.learning.dropout import KeyedDropout, key_dropout, seeded
from fedwave.learning.model_rows import Tensors, as_tensor, carried_state, trained_parameters
from fedwave.learning.task import Task

GradientMethod = Literal["chain", "vectorised", "one by one"]


class Gradients:
    """Gradients of the loss of many models; the fastest ``method`` is chosen unless one is given."""

    def __init__(
        self, task: Task, precision: Precision, *, method: GradientMethod | None = None, channels_last: bool = False
    ) -> None:
        self._precision, self._half = precision, precision.half is not None
        device, dtype = precision.device, precision.dtype
        self._model: nn.Module = task.new_model(0, 0).to(device, dtype).train()
        self._masks = key_dropout(self._model)
        self._forward = batched_forward(self._model, channels_last)
        self._draws, self._criterion = task.draws, task.loss
        dropout = any(isinstance(m, KeyedDropout) and m.p > 0 for m in self._model.modules())
        self.needs_keys = self._draws or dropout
        if (device.type, dtype, self._half) != ("cpu", torch.float32, False):
            self._check_runs(as_tensor(task.dataset.train_inputs[:2], dtype, device))
        if method is None:
            method = "chain" if self._forward and task.is_usual else _choose_method(task, precision)
        self.method: GradientMethod = method
        if method == "vectorised" and self._half:
            # Vectorised by torch, batch norm cannot mix half-precision inputs with float32 statistics.
            for module in self._model.modules():
                if isinstance(module, _BatchNorm):
                    module.register_forward_pre_hook(lambda _, inputs: (inputs[0].float(),))
        self._vectorised = vmap(grad(self._loss), randomness="error")

    def __call__(self, w: Tensors, rest: Tensors, inputs: Tensor, targets: Tensor, keys: Tensor) -> Tensors:
        """Gradients of every model's mean loss, ``[lane, ...]``; running statistics in ``rest`` change in place.

        ``keys`` are those of the step, one for each model.
        """
        if self.method == "chain":
            return self._by_chain(w, rest, inputs, targets, keys)
        if self.method == "vectorised":
            found: Tensors = self._vectorised(w, rest, inputs, targets, keys)
            return found
        return self._one_by_one(w, rest, inputs, targets, keys)

    def _by_chain(self, w: Tensors, rest: Tensors, inputs: Tensor, targets: Tensor, keys: Tensor) -> Tensors:
        assert self._forward is not None
        w = {k: p.detach().requires_grad_() for k, p in w.items()}
        with self._precision.autocast(), self._masks.keyed_by(keys):
            logits = self._forward(w, rest, inputs)
        logits = logits.flatten(0, 1)
        logits = logits.float() if self._half else logits
        # The mean over a lane's samples, summed over the lanes: each gets the gradient of its own loss.
        loss = F.cross_entropy(logits, targets.flatten(), reduction="sum") / targets.shape[1]
        return _gradient(loss, w)

    def _one_by_one(self, w: Tensors, rest: Tensors, inputs: Tensor, targets: Tensor, keys: Tensor) -> Tensors:
        found = []
        for lane, key in enumerate(keys.tolist() if self._draws else [0] * len(inputs)):
            mine = {k: p[lane].detach().requires_grad_() for k, p in w.items()}
            carried = {k: p[lane] for k, p in rest.items()}  # views: what is written into them is kept
            with seeded(key, self._precision.device):
                loss = self._loss(mine, carried, inputs[lane], targets[lane], keys[lane])
                found.append(_gradient(loss, mine))
        return {k: torch.stack([one[k] for one in found]) for k in w}

    def _loss(self, w: Tensors, rest: Tensors, inputs: Tensor, targets: Tensor, key: Tensor) -> Tensor:
        with self._precision.autocast(), self._masks.keyed_by(key):
            logits = functional_call(self._model, (w, rest), (inputs,))
        loss: Tensor = self._criterion(logits.float() if self._half else logits, targets)
        return loss

    def _check_runs(self, inputs: Tensor) -> None:
        """Raises unless the model runs on this device in this precision; the task has tried float32 on the CPU."""
        device, half = self._precision.device, self._precision.half
        where = f"{device.type} in {str(half or inputs.dtype).removeprefix('torch.')}"
        try:
            with torch.no_grad(), self._precision.autocast(), seeded(0, device):
                # A copy of the state, since batch norm would take these inputs into its running statistics.
                copies = trained_parameters(self._model), carried_state(self._model)
                functional_call(self._model, copies, (inputs.clone(),))
        except Exception as error:  # forward is the user's
            raise FedwaveError(
                f"the model cannot run on {where}: {error_text(error)}; choose another device or precision."
            ) from error


def _gradient(loss: Tensor, w: Tensors) -> Tensors:
    found = torch.autograd.grad(loss, list(w.values()), allow_unused=True)
    return {k: torch.zeros_like(p) if g is None else g for (k, p), g in zip(w.items(), found, strict=True)}


def _choose_method(task: Task, precision: Precision) -> GradientMethod:
    """The method for a model that is not a chain: tried with two models on the first batch, on the same device.

    Compared in double precision if the model can do that: there, a difference is no rounding error.
    """
    if task.draws:
        return "one by one"
    for kind, relative in ((torch.float64, 1e-9), (torch.float32, 1e-3)):
        try:
            alone = _trial(task, Precision(precision.device, kind), "one by one")
        except Exception:  # forward is the user's: in double precision it may fail with anything
            continue
        try:
            together = _trial(task, Precision(precision.device, kind), "vectorised")
            if Precision(precision.device, kind) != precision:
                _trial(task, precision, "vectorised")
        except Exception:
            return "one by one"
        return "vectorised" if _close(alone, together, relative) else "one by one"
    return "one by one"


def _trial(task: Task, precision: Precision, method: GradientMethod) -> Tensors:
    """The gradients and the state after one step of two models."""
    device, dtype = precision.device, precision.dtype
    models = [task.new_model(0, instance).to(device, dtype) for instance in range(2)]
    w, rest = (
        {k: torch.stack([one[k] for one in states]) for k in states[0]}
        for states in ([trained_parameters(m) for m in models], [carried_state(m) for m in models])
    )
    size = min(task.batch, len(task.dataset.train_targets))
    inputs = as_tensor(task.dataset.train_inputs[:size], dtype, device)
    targets = as_tensor(task.dataset.train_targets[:size], dtype, device)
    gradients = Gradients(task, precision, method=method)
    found = gradients(
        w, rest, torch.stack([inputs] * 2), torch.stack([targets] * 2), torch.tensor([1, 2], device=device)
    )
    states = {"w": w, "rest": rest, "gradient": found}
    return {f"{kind}/{k}": p for kind, state in states.items() for k, p in state.items()}


def _close(alone: Tensors, together: Tensors, relative: float) -> bool:
    for kind in ("w/", "rest/", "gradient/"):
        mine = [k for k in alone if k.startswith(kind) and alone[k].numel()]
        size = max((float(alone[k].double().abs().max()) for k in mine), default=0.0)
        for k in mine:
            if not float((alone[k].double() - together[k].double()).abs().max()) <= relative * size:
                return False
    return True
