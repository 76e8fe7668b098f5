"""Can this model be trained here? Tried once, on two images, before anything is run.

The models of all devices take turns in one module, so what a model computes must follow from its parameters, its
buffers, the images and torch's generator alone. A model that does otherwise is refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fedwave.errors import FedwaveError
from fedwave.learning.data.dataset import Dataset
from fedwave.learning.noise import key_dropout, seeded

_CPU = torch.device("cpu")
_TORCH = "torch's generator"


def made(make: Callable[[], nn.Module], images: Tensor) -> nn.Module:
    """A new model; lazy layers get their sizes from ``images``."""
    if isinstance(make, nn.Module):
        name = type(make).__name__
        raise FedwaveError(
            f"model is a {name} object, must be a function that makes one: pass model={name} for new weights in every "
            "instance, or model=lambda: copy.deepcopy(net) to start all of them from the weights of net."
        )
    if not callable(make):
        kind = type(make).__name__
        raise FedwaveError(f"model is a {kind}, must be a function that makes an nn.Module.")
    try:
        model: Any = make()
    except FedwaveError:
        raise
    except Exception as error:  # the function is the user's
        raise FedwaveError(
            f"the model cannot be made ({said(error)}): model must be a function without arguments that makes an "
            "nn.Module."
        ) from error
    if not isinstance(model, nn.Module):
        kind = type(model).__name__
        raise FedwaveError(f"the function model makes a {kind}, must make an nn.Module.")
    if any(is_lazy(p) for p in [*model.parameters(), *model.buffers()]):
        with _refusing(images), torch.no_grad():
            model.eval()(images)
        model.train()
    return model


def check(model: nn.Module, data: Dataset) -> bool:
    """Refuse a model that cannot be trained on these data. True: it draws from torch's generator in training."""
    _check_parameters(model)
    trial = _Trial(model.float(), data)
    _, drawn = trial.outputs(training=False)
    if drawn:
        raise FedwaveError(
            f"the model draws from {drawn} in eval mode, so no accuracy could be repeated: draw in train mode only "
            "(F.dropout needs training=self.training)."
        )
    first, drawn = trial.outputs(training=True)
    if drawn not in ("", _TORCH):
        raise FedwaveError(
            f"the model draws from {drawn}, so no training could be repeated: draw from torch's own generator."
        )
    trial.check_gradient(first)
    second, _ = trial.outputs(training=True)
    if not torch.allclose(first, second, rtol=1e-4, atol=1e-5, equal_nan=True):
        raise FedwaveError(
            "two passes of the model over the same images differ: what it keeps from one pass to the next must be a "
            "buffer."
        )
    return drawn == _TORCH


def said(error: Exception) -> str:
    """The first line of an error of somebody else's code, without its full stop."""
    first = (str(error).splitlines() or [""])[0].rstrip(". ")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


class _Trial:
    """A model and two images."""

    def __init__(self, model: nn.Module, data: Dataset) -> None:
        self._model, self._classes = model, data.classes
        self._images = torch.as_tensor(data.train_images[:2])
        self._labels = torch.as_tensor(data.train_labels[:2])
        self._buffers = dict(model.named_buffers())
        state = {**dict(model.named_parameters()), **self._buffers}
        self._start = [(tensor, tensor.detach().clone()) for tensor in state.values()]
        self._step = key_dropout(model)

    def outputs(self, training: bool) -> tuple[Tensor, str]:
        """The outputs of one pass from the start, and the generator that it drew from ("" if none)."""
        with torch.no_grad():
            for tensor, start in self._start:
                tensor.copy_(start)
        self._model.train(training)
        with _refusing(self._images), seeded(1, _CPU), self._step.draws_by(torch.tensor(1)):
            before = _generators()
            found = self._model(self._images)
            after = _generators()
        for name, buffer in self._model.named_buffers():
            if buffer is not self._buffers.get(name):
                raise FedwaveError(
                    f"the model's forward puts a new tensor in the place of its buffer {name!r}, which would be lost: "
                    f"write into the old one, as in self.{name}.copy_(...)."
                )
        drawn = (name for name in before if not np.array_equal(before[name], after[name]))
        return self._checked(found), next(drawn, "")

    def check_gradient(self, outputs: Tensor) -> None:
        """Refuse outputs that no parameter can be learnt from."""
        trained = [p for p in self._model.parameters() if p.requires_grad]
        with _refusing(self._images):
            loss = F.cross_entropy(outputs, self._labels)
            found = (
                torch.autograd.grad(loss, trained, allow_unused=True) if loss.requires_grad else []
            )
        if all(gradient is None for gradient in found):
            raise FedwaveError(
                "no parameter of the model enters the loss: do not detach in forward, and leave it out of no_grad()."
            )

    def _checked(self, found: Any) -> Tensor:
        if not isinstance(found, Tensor):
            raise FedwaveError(
                f"the model returns a {type(found).__name__}, must return a tensor: the logits alone, one output per "
                "class."
            )
        if found.shape[:-1] != (2,) or found.shape[-1] < self._classes:
            raise FedwaveError(
                f"the model's output has shape {tuple(found.shape)} for two images, but the labels need "
                f"(2, {self._classes}) or more: give it one output per class."
            )
        if not found.is_floating_point():
            raise FedwaveError(
                f"the model's output is of type {str(found.dtype).removeprefix('torch.')}, must be floating-point "
                "logits."
            )
        return found


def _check_parameters(model: nn.Module) -> None:
    parameters = dict(model.named_parameters())
    if not any(p.requires_grad for p in parameters.values()):
        raise FedwaveError(
            "the model has no parameter to train: at least one must have requires_grad=True."
        )
    for name, p in parameters.items():
        if p.is_complex():
            raise FedwaveError(
                f"the parameter {name!r} of the model is complex, must be real: keep its two parts as two parameters."
            )
        if p._backward_hooks:
            raise FedwaveError(
                f"the parameter {name!r} of the model has a hook, which would be ignored: do what it does in forward."
            )


@contextmanager
def _refusing(images: Tensor) -> Iterator[None]:
    """Turn an error of the user's forward into a sentence."""
    try:
        yield
    except FedwaveError:
        raise
    except Exception as error:
        shape = tuple(images.shape[1:])
        raise FedwaveError(
            f"the model cannot take images of shape {shape}: {said(error)}."
        ) from error  # fmt: skip


def _generators() -> dict[str, Any]:
    """The states of the generators that a model could draw from."""
    numpy: Any = np.random.get_state()  # noqa: NPY002 (the model might use it)
    return {
        _TORCH: torch.random.get_rng_state().numpy(),
        "NumPy's generator": np.append(numpy[1], numpy[2]),
        "Python's random module": np.array(random.getstate()[1]),
    }
