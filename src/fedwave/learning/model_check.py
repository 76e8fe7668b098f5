"""Makes models, and refuses models that cannot be trained; they are tried on two inputs before anything is run.

The models of all devices take turns in one module, and another module evaluates them. So the outputs of a model must
depend on its parameters, its buffers, the inputs and torch's generator alone. A trial trains two steps in turns and two
steps alone, and compares; then it evaluates two inputs together and one by one.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from fedwave.errors import FedwaveError, error_text
from fedwave.learning.chain_spec import known_layers
from fedwave.learning.criteria import Criterion, cross_entropy
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.dropout import key_dropout, seeded
from fedwave.learning.model_rows import Tensors, as_tensor, carried_state, trained_parameters

_STEPS, _RATE = 2, 0.05  # of the trial
_Loss = Callable[[Tensor], Tensor]  # of outputs
_OF_MODULES = ("_parameters", "_buffers", "_modules", "training")


def make_model(make: Callable[[], nn.Module], inputs: Tensor | None) -> nn.Module:
    """A new model; lazy layers get their sizes from ``inputs``, if there are any."""
    if isinstance(make, nn.Module) or not callable(make):
        raise FedwaveError(
            f"model is of type {type(make).__name__}, must be a function that makes an nn.Module: pass the class for "
            "new weights in every instance, or lambda: copy.deepcopy(net) to start all of them from the weights of net."
        )
    try:
        model: Any = make()
    except FedwaveError:
        raise
    except Exception as error:  # the function is the user's
        raise FedwaveError(
            f"the model cannot be made ({error_text(error)}): model must be a function without arguments that makes an "
            "nn.Module."
        ) from error
    if not isinstance(model, nn.Module):
        raise FedwaveError(
            f"the function model returns an object of type {type(model).__name__}, must return an nn.Module."
        )
    if inputs is not None and any(is_lazy(p) for p in [*model.parameters(), *model.buffers()]):
        with _refusing(inputs), torch.no_grad():
            model.eval()(inputs.clone())
        model.train()
    return model


def check_trainable(new_model: Callable[[int], nn.Module], data: Dataset, loss: Criterion, metric: Criterion) -> bool:
    """Raises FedwaveError if the model cannot be trained on these data; returns whether it draws random numbers.

    ``new_model`` makes the model of an instance. The random numbers are those of torch's generator, in training.
    """
    one, again, other = (new_model(instance).float() for instance in (0, 0, 1))
    _check_parameters(one)
    _check_apart(one, again, other)
    inputs, targets = torch.as_tensor(data.train_inputs[:2]), torch.as_tensor(data.train_targets[:2])
    outputs, _, drew = _pass(one, inputs, training=False)
    classes = data.classes if loss.function is cross_entropy else 0
    _check_outputs(outputs, targets, classes)
    loss.checked("loss", outputs.detach(), targets)
    metric.checked("metric", outputs.detach(), targets)
    if drew:
        raise FedwaveError(
            "the model draws from torch's generator in eval mode, so no accuracy could be repeated: draw in train mode "
            "only (F.dropout needs training=self.training)."
        )
    outputs, w, draws = _pass(one, inputs, training=True)
    _check_outputs(outputs, targets, classes)
    _check_gradient(loss.checked("loss", outputs, targets), w)
    if known_layers(one) is None:  # known layers need no trial
        kept = _kept(one)
        _pass(one, inputs, training=True)
        for name, value in _kept(one).items():
            if value != kept.get(name):
                raise FedwaveError(
                    f"the model keeps something from one pass to the next ({name}): it must be a buffer, as models of "
                    "all devices take turns in one module, and random numbers must come from torch's own generator."
                )
        _check_turns(one, again, other, inputs, lambda outputs: loss(outputs, as_tensor(targets, outputs.dtype)))
    return draws


def outputs_and_gradients(model: nn.Module, loss: Criterion, inputs: Any, targets: Any) -> tuple[Any, dict[str, Any]]:
    """Outputs in eval mode, and the gradients of the loss, as arrays; None for a parameter that is not used."""
    outputs, _, _ = _pass(model, torch.as_tensor(inputs), training=False)
    found, w, _ = _pass(model, torch.as_tensor(inputs), training=True)
    measured = loss(found, torch.as_tensor(targets))
    gradients = torch.autograd.grad(measured, list(w.values()), allow_unused=True)
    return outputs.detach().numpy(), {k: None if g is None else g.numpy() for k, g in zip(w, gradients, strict=True)}


def _check_parameters(model: nn.Module) -> None:
    parameters = dict(model.named_parameters())
    if not any(p.requires_grad for p in parameters.values()):
        raise FedwaveError("the model has no parameter to train: at least one must have requires_grad=True.")
    for name, p in parameters.items():
        if p.is_complex() or p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
            raise FedwaveError(
                f"the parameter {name!r} of the model is complex or has a hook, must be real without hooks: do in "
                "forward what they do."
            )


def _check_apart(one: nn.Module, again: nn.Module, other: nn.Module) -> None:
    """Raises unless the function makes new models, and the same ones under the same seed."""
    objects = {id(thing) for thing in (*one.modules(), *one.parameters(), *one.buffers())}
    if any(id(thing) in objects for thing in (*other.modules(), *other.parameters(), *other.buffers())):
        raise FedwaveError(
            "the function model makes two models that share layers or weights: make new ones in every call, such as "
            "copy.deepcopy(backbone)."
        )
    same = trained_parameters(again) | carried_state(again)
    for name, tensor in (trained_parameters(one) | carried_state(one)).items():
        if not torch.equal(tensor.nan_to_num(), same[name].nan_to_num()):
            raise FedwaveError(
                f"two models made under one seed differ in {name!r}, so no run could be repeated: draw first weights "
                "from torch's own generator."
            )


def _pass(model: nn.Module, inputs: Tensor, *, training: bool) -> tuple[Any, Tensors, bool]:
    """The outputs of one pass, the parameters that enter it, and whether it drew from torch's generator."""
    masks = key_dropout(model)
    w, rest = {name: p.requires_grad_() for name, p in trained_parameters(model).items()}, carried_state(model)
    with _refusing(inputs), seeded(1), masks.keyed_by(torch.tensor(1)):
        model.train(training)
        before = torch.random.get_rng_state()
        outputs = functional_call(model, (w, rest), (inputs.clone(),))
        return outputs, w, not torch.equal(before, torch.random.get_rng_state())


def _check_outputs(found: Any, targets: Tensor, classes: int) -> None:
    """Raises unless the outputs are a tensor for two samples; with ``classes``, logits of each target's class."""
    what, right = f"a {type(found).__name__}", False
    if isinstance(found, Tensor):
        what = f"{str(found.dtype).removeprefix('torch.')} of shape {tuple(found.shape)}"
        right = found.is_floating_point() and found.shape[:1] == (2,)
        if classes and right:
            right = found.shape[:-1] == targets.shape and found.shape[-1] >= classes
    if not right:
        shape = ", ".join(map(str, (*targets.shape, classes))) if classes else "2, ..."
        rule = " or wider: one output per class" if classes else ""
        raise FedwaveError(
            f"the model returns {what} for two samples, must return one tensor of floating-point numbers of shape "
            f"({shape}){rule}."
        )


def _check_gradient(loss: Tensor, w: Tensors) -> None:
    found = torch.autograd.grad(loss, list(w.values()), allow_unused=True) if loss.requires_grad else ()
    gradients = [gradient for gradient in found if gradient is not None]
    if not gradients or any(gradient.is_sparse for gradient in gradients):
        raise FedwaveError(
            "the loss has no gradient, or a sparse one, by the parameters of the model: do not detach in forward, "
            "leave it out of no_grad(), and use no sparse=True."
        )


class _Pickler(pickle.Pickler):
    """Pickles tensors by their values: equal ones give equal bytes."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            numbers = value.detach().cpu().contiguous().flatten().view(torch.uint8)
            return bytes, (numbers.numpy().tobytes(),)
        return NotImplemented


def _kept(model: nn.Module) -> dict[str, bytes]:
    """Plain attributes of a model and its layers, as bytes to compare; without those that cannot be pickled."""
    found = {}
    for place, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in _OF_MODULES and "hooks" not in name:
                file = io.BytesIO()
                try:
                    _Pickler(file).dump(value)
                except Exception:  # an attribute of the user, which may fail with anything
                    continue
                found[f"{place}.{name}" if place else name] = file.getvalue()
    return found


def _check_turns(trains: nn.Module, evaluates: nn.Module, alone: nn.Module, inputs: Tensor, loss: _Loss) -> None:
    """Raises unless another module of the same kind computes the same with the tensors of this one, input by input.

    Compared in double precision if the model can do that: there, a difference is no rounding error.
    """
    for dtype, relative in ((torch.float64, 1e-6), (torch.float32, 1e-2)):
        for model in (trains, evaluates, alone):
            model.to(dtype)
        start, rest = trained_parameters(alone), carried_state(alone)
        inputs = as_tensor(inputs, dtype)
        try:
            own = _trained_alone(alone, inputs, loss)
        except Exception:  # forward is the user's: in double precision it may fail with anything
            if dtype is torch.float32:
                raise
            continue
        with _refusing(inputs):
            in_turns = _trained_in_turns(trains, evaluates, start, rest, inputs, loss)
        limit = relative * max(float(output.abs().max()) for output in own)
        if any(_differ(a, b, limit) for a, b in zip(own, in_turns, strict=True)):
            raise FedwaveError(
                "the model computes something else when its weights are put into another module of its kind, as "
                "training does: its outputs, in train and in eval mode, must depend on parameters and buffers that "
                "__init__ makes (write into them: self.mean.copy_(...)), inputs and torch's generator alone, also in "
                "the backward pass (no torch.utils.checkpoint), and train() must not freeze."
            )
        with _refusing(inputs[:1]), torch.no_grad():
            one_by_one = torch.cat([alone(x.clone()) for x in torch.split(inputs, 1)])
        if _differ(own[-1], one_by_one, limit):
            raise FedwaveError(
                "in eval mode the outputs of the model for an input depend on the other inputs of its batch: treat "
                "every input by itself (batch norm with track_running_stats=True, no squeeze() of the first dimension)."
            )
        return


def _differ(a: Tensor, b: Tensor, limit: float) -> bool:
    return a.shape != b.shape or float((a - b).abs().max()) > limit


def _trained_alone(model: nn.Module, inputs: Tensor, loss: _Loss) -> list[Tensor]:
    """The outputs in and after every step of ordinary training."""
    masks, found = key_dropout(model), []
    for number in range(_STEPS):
        model.train()
        optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=_RATE)
        optimiser.zero_grad()
        with seeded(number), masks.keyed_by(torch.tensor(number)):
            outputs = model(inputs.clone())
        loss(outputs).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        with torch.no_grad():
            found += [outputs.detach(), model.eval()(inputs.clone())]
    return found


def _trained_in_turns(
    trains: nn.Module, evaluates: nn.Module, w: Tensors, rest: Tensors, inputs: Tensor, loss: _Loss
) -> list[Tensor]:
    """The same, in one module that trains and another one that evaluates."""
    masks, found = key_dropout(trains), []
    for number in range(_STEPS):
        trains.train()
        w = {name: p.detach().clone().requires_grad_() for name, p in w.items()}
        with seeded(number), masks.keyed_by(torch.tensor(number)):
            outputs = functional_call(trains, (w, rest), (inputs.clone(),))
        gradients = torch.autograd.grad(loss(outputs), list(w.values()), allow_unused=True)
        w = {k: p if g is None else p - _RATE * g for (k, p), g in zip(w.items(), gradients, strict=True)}
        with torch.no_grad():
            evaluates.eval()
            found += [outputs.detach(), functional_call(evaluates, (w, rest), (inputs.clone(),))]
    return found


@contextmanager
def _refusing(inputs: Tensor) -> Iterator[None]:
    """Turns an error of the user's forward into a FedwaveError."""
    try:
        yield
    except FedwaveError:
        raise
    except Exception as error:
        what = f"{'inputs' if len(inputs) > 1 else 'a single input'} of shape {tuple(inputs.shape[1:])}"
        whole = "" if inputs.is_floating_point() else " and whole numbers (of measurements make them float32)"
        raise FedwaveError(f"the model cannot take {what}{whole}: {error_text(error)}.") from error
