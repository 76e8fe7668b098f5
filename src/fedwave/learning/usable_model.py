"""Can this model be trained here? Tried once, on two images, before anything is run.

The models of all devices take turns in one module, and another module judges them. So what a model computes must
follow from its parameters, its buffers, the images and torch's generator alone. A model that does otherwise is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from fedwave.errors import FedwaveError
from fedwave.learning.batched_layers import side_by_side
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.kept_state import different, kept, random_states
from fedwave.learning.noise import key_dropout, seeded
from fedwave.learning.state import Tensors, carried_of, trained_of

_CPU = torch.device("cpu")
_TORCH = "torch's generator"
_STEPS, _RATE = 2, 0.05  # of the trial training


def made(make: Callable[[], nn.Module], images: Tensor | None) -> nn.Module:
    """A new model; lazy layers get their sizes from ``images``, if there are any."""
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
    if images is not None and any(is_lazy(p) for p in [*model.parameters(), *model.buffers()]):
        with _refusing(images), torch.no_grad():
            model.eval()(images.clone())  # a model may write into its images
        model.train()
    return model


def check(new_model: Callable[[int], nn.Module], data: Dataset) -> bool:
    """Refuse a model that cannot be trained on these data. True: it draws from torch's generator in training.

    ``new_model`` makes the model of an instance.
    """
    one, again, other = new_model(0), new_model(0), new_model(1)
    _check_parameters(one)
    _check_apart(one, again, other)
    trial = _Trial(one.float(), data)
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
    before = kept(one)
    second, _ = trial.outputs(training=True)
    name = different(before, kept(one))
    if name or not torch.allclose(first, second, rtol=1e-4, atol=1e-5, equal_nan=True):
        what = f" ({name})" if name else ""
        raise FedwaveError(
            f"the model keeps something from one pass to the next{what}: it must be a buffer, as models of all devices "
            "take turns in one module."
        )
    if side_by_side(one) is None:  # known layers need no trial
        _check_exchange(one, again, other, data)
    return drawn == _TORCH


def said(error: Exception) -> str:
    """The first line of an error of somebody else's code, without its full stop."""
    first = (str(error).splitlines() or [""])[0].rstrip(". ")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


class _Trial:
    """A model and two images."""

    def __init__(self, model: nn.Module, data: Dataset) -> None:
        self._model, self._classes = model, data.classes
        self._images, self._labels = _two(data)
        self._names = [name for name, _ in model.named_parameters()]
        self._buffers = dict(model.named_buffers())
        self._trained = _trained_names(model)
        state = {**dict(model.named_parameters()), **self._buffers}
        self._start = [(tensor, tensor.detach().clone()) for tensor in state.values()]
        self._step = key_dropout(model)

    def outputs(self, training: bool) -> tuple[Tensor, str]:
        """The outputs of one pass from the start, and the generator that it drew from ("" if none)."""
        with torch.no_grad(), _refusing(self._images):
            for tensor, start in self._start:
                tensor.copy_(start)
        self._model.train(training)
        if _trained_names(self._model) != self._trained:
            raise FedwaveError(
                "the model's train() or eval() changes requires_grad, which is looked at once: freeze in __init__."
            )
        with _refusing(self._images), seeded(1, _CPU), self._step.draws_by(torch.tensor(1)):
            before = random_states()
            found = self._model(self._images.clone())
            drawn = different(before, random_states())
        self._check_tensors()
        return self._checked(found), drawn

    def check_gradient(self, outputs: Tensor) -> None:
        """Refuse outputs that no parameter can be learnt from."""
        trained = [p for p in self._model.parameters() if p.requires_grad]
        with _refusing(self._images):
            loss = F.cross_entropy(outputs, self._labels)
            found = torch.autograd.grad(loss, trained, allow_unused=True) if loss.requires_grad else []
        if all(gradient is None for gradient in found):
            raise FedwaveError(
                "no parameter of the model enters the loss: do not detach in forward, and leave it out of no_grad()."
            )
        if any(gradient is not None and gradient.is_sparse for gradient in found):
            raise FedwaveError("the model has sparse gradients, must have dense ones: sparse=False.")

    def _check_tensors(self) -> None:
        for name, buffer in self._model.named_buffers():
            if buffer is not self._buffers.get(name):
                raise FedwaveError(
                    f"the model's forward puts a new tensor in the place of its buffer {name!r}, which would be lost: "
                    f"write into the old one, as in self.{name}.copy_(...)."
                )
        for name, _ in self._model.named_parameters():
            if name not in self._names:
                raise FedwaveError(
                    f"the model makes the parameter {name!r} in forward, where it would not be trained: make it in "
                    "__init__, or use lazy layers."
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


def _two(data: Dataset) -> tuple[Tensor, Tensor]:
    # Copies: a model may write into its images.
    images = torch.as_tensor(data.train_images[:2]).clone()
    return images, torch.as_tensor(data.train_labels[:2])


def _trained_names(model: nn.Module) -> list[str]:
    return [name for name, p in model.named_parameters() if p.requires_grad]


def _check_parameters(model: nn.Module) -> None:
    parameters = dict(model.named_parameters())
    if not any(p.requires_grad for p in parameters.values()):
        raise FedwaveError("the model has no parameter to train: at least one must have requires_grad=True.")
    for name, p in parameters.items():
        if p.is_complex():
            raise FedwaveError(
                f"the parameter {name!r} of the model is complex, must be real: keep its two parts as two parameters."
            )
        if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
            raise FedwaveError(
                f"the parameter {name!r} of the model has a hook, which would be ignored: do what it does in forward."
            )


def _check_apart(one: nn.Module, again: nn.Module, other: nn.Module) -> None:
    """Refuse a function that does not make new models, or not the same ones under the same seed."""
    objects = {id(thing) for thing in (*one.modules(), *one.parameters(), *one.buffers())}
    if any(id(thing) in objects for thing in (*other.modules(), *other.parameters(), *other.buffers())):
        raise FedwaveError(
            "the function model makes two models that share layers or weights: make new ones in every call, such as "
            "copy.deepcopy(backbone)."
        )
    for mine, same in ((trained_of(one), trained_of(again)), (carried_of(one), carried_of(again))):
        for name, tensor in mine.items():
            if not torch.equal(tensor.nan_to_num(), same[name].nan_to_num()):
                raise FedwaveError(
                    f"two models made under one seed differ in {name!r}, so no run could be repeated: draw first "
                    "weights from torch's own generator."
                )


def _check_exchange(trains: nn.Module, judges: nn.Module, alone: nn.Module, data: Dataset) -> None:
    """Refuse a model that does not compute in other modules, with its tensors, what it computes in its own."""
    for dtype, relative in ((torch.float64, 1e-6), (torch.float32, 1e-2)):
        models = [model.to(dtype) for model in (trains, judges, alone)]
        start, rest = trained_of(models[2]), carried_of(models[2])
        images, labels = _two(data)
        images = images.to(dtype)
        try:
            own = _trained_alone(models[2], images, labels)
        except Exception:  # forward is the user's: in double precision it may fail with anything
            if dtype is torch.float32:
                raise
            continue
        with _refusing(images):
            exchanged = _trained_in_turns(models[0], models[1], start, rest, images, labels)
        size = max(float(output.abs().max()) for output in own)
        for mine, theirs in zip(own, exchanged, strict=True):
            if float((mine - theirs).abs().max()) > relative * size:
                raise FedwaveError(
                    "the model computes something else when its weights are put into another module of its kind, as is "
                    "done here: what it computes, in train and in eval mode, must follow from parameters, buffers and "
                    "images alone, also in the backward pass (no torch.utils.checkpoint)."
                )
        return


def _trained_alone(model: nn.Module, images: Tensor, labels: Tensor) -> list[Tensor]:
    """The outputs after every step of ordinary training."""
    step, found = key_dropout(model), []
    for number in range(_STEPS):
        model.train()
        optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=_RATE)
        optimiser.zero_grad()
        with seeded(number, _CPU), step.draws_by(torch.tensor(number)):
            F.cross_entropy(model(images.clone()), labels).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        with torch.no_grad():
            found.append(model.eval()(images.clone()))
    return found


def _trained_in_turns(
    trains: nn.Module, judges: nn.Module, w: Tensors, rest: Tensors, images: Tensor, labels: Tensor
) -> list[Tensor]:
    """The same, in one module that trains and another one that judges."""
    step, found = key_dropout(trains), []
    for number in range(_STEPS):
        trains.train()
        w = {name: p.detach().clone().requires_grad_() for name, p in w.items()}
        with seeded(number, _CPU), step.draws_by(torch.tensor(number)):
            loss = F.cross_entropy(functional_call(trains, (w, rest), (images.clone(),)), labels)
            gradients = torch.autograd.grad(loss, list(w.values()), allow_unused=True)
        w = {k: p if g is None else p - _RATE * g for (k, p), g in zip(w.items(), gradients, strict=True)}
        with torch.no_grad():
            judges.eval()
            found.append(functional_call(judges, (w, rest), (images.clone(),)))
    return found


@contextmanager
def _refusing(images: Tensor) -> Iterator[None]:
    """Turn an error of the user's forward into a sentence."""
    try:
        yield
    except FedwaveError:
        raise
    except Exception as error:
        shape = tuple(images.shape[1:])
        raise FedwaveError(f"the model cannot take images of shape {shape}: {said(error)}.") from error
