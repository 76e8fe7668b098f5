"""Losses and metrics of a task: functions of a model's outputs and the targets.

A *criterion* returns a number for each sample, or their mean. ``better`` says which of its values are better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fedwave.errors import FedwaveError, check_parameters, error_text, short_repr
from fedwave.learning.curves import Curves
from fedwave.parts import registry

Function = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of logits, one output per class; targets are classes."""
    return F.cross_entropy(outputs.flatten(0, -2), targets.flatten())


def accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The share of targets whose class has the largest output."""
    return (outputs.argmax(dim=-1) == targets).to(torch.float32).mean()


def mse(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error."""
    return _errors(outputs, targets).square().mean()


def mae(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean absolute error."""
    return _errors(outputs, targets).abs().mean()


def _errors(outputs: Tensor, targets: Tensor) -> Tensor:
    """Their differences; a single output needs no axis in the targets. Nothing is broadcast: that would mix samples."""
    if outputs.shape == (*targets.shape, 1):
        outputs = outputs.squeeze(-1)
    if outputs.shape != targets.shape:
        raise FedwaveError(
            f"the outputs have shape {tuple(outputs.shape)} but the targets {tuple(targets.shape)}: a model must "
            "return as many numbers for a sample as its target has."
        )
    return outputs - targets


_BETTER = {cross_entropy: "lower", accuracy: "higher", mse: "lower", mae: "lower"}


@dataclass(frozen=True)
class Criterion:
    """A loss or a metric: a function with its name and with the word for its better values."""

    name: str  # a column of results
    text: str  # as it was given
    better: str  # "higher", "lower", or "" if it does not say
    function: Function

    @classmethod
    def of(cls, what: str, given: Any) -> Criterion:
        """From a name, with parameters or without, or a function; ``what`` is "loss" or "metric"."""
        if isinstance(given, Criterion):
            return given
        function, text = given, str(getattr(given, "__name__", type(given).__name__))
        if isinstance(given, (str, Mapping)):
            more = registry.parse("criterion", given)
            name, text = more.pop("name"), registry.text(given)
            function = registry.find("criterion", name)
            check_parameters(f"{what} {name!r}", more, registry.parameter_names("criterion", name)[2:])
            better, function = _better(function), partial(function, **more) if more else function
        else:
            name, better = text, _better(given)
        if not callable(function) or isinstance(given, type):
            raise FedwaveError(
                f"{what} is {short_repr(given)}, must be a name, such as 'mse', or a function of outputs and targets."
            )
        column = name.replace("-", "_")
        return cls(column if column.isidentifier() else f"own_{what}", text, better, function)

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over the samples."""
        found = self.function(outputs, targets)
        return found.mean() if found.ndim else found

    def checked(self, what: str, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean; raises FedwaveError if the function fails, or returns anything but numbers for these samples."""
        try:
            found: Tensor = self.function(outputs, targets)  # or anything else
        except FedwaveError:
            raise
        except Exception as error:  # the function is the user's
            raise FedwaveError(
                f"the {what} {self.text!r} fails for outputs of shape {tuple(outputs.shape)} and targets "
                f"of shape {tuple(targets.shape)}: {error_text(error)}."
            ) from error
        samples = len(targets)
        right = isinstance(found, Tensor) and found.is_floating_point() and found.shape in ((), (samples,))
        if not right:
            shape = f" of shape {tuple(found.shape)} and type {found.dtype}" if isinstance(found, Tensor) else ""
            raise FedwaveError(
                f"the {what} {self.text!r} returns a {type(found).__name__}{shape} for {samples} samples, must "
                f"return a floating-point tensor of shape () or ({samples},): their mean, or a number for each."
            )
        # Outputs that are no numbers are the model's: such a run diverges in round 1.
        if torch.isfinite(outputs).all() and not torch.isfinite(found).all():
            raise FedwaveError(
                f"the {what} {self.text!r} is {float(found.detach().mean())} before any training, must be finite: "
                "scale the inputs or the targets, or correct the function."
            )
        return found.mean()


def check_metric(metric: Criterion) -> None:
    """Raises FedwaveError for a metric that does not say which values are better, or whose name has another meaning."""
    if not metric.better:
        raise FedwaveError(
            f"the metric {metric.text!r} does not say which of its values are better: set its attribute better, "
            f"{metric.text}.better = 'lower' or 'higher'."
        )
    if (hasattr(Curves, metric.name) and metric.name != "accuracy") or metric.name.endswith("_on_all"):
        raise FedwaveError(f"the metric is called {metric.name!r}, which means something else: give it another name.")


def _better(function: Any) -> str:
    found = _BETTER.get(function, getattr(function, "better", ""))
    if found not in ("higher", "lower", ""):
        raise FedwaveError(f"better of a metric is {short_repr(found)}, must be 'higher' or 'lower'.")
    return str(found)


def try_criterion(given: Any) -> list[float]:
    """The means of a criterion for logits and classes, and for numbers, where it takes them."""
    one, rng = Criterion.of("criterion", given), torch.Generator().manual_seed(0)
    logits, numbers = (torch.randn(4, 3, generator=rng) for _ in range(2))
    found, why = [], ""
    for targets in (torch.arange(4) % 3, numbers):
        try:
            found.append(float(one.checked("criterion", logits, targets)))
        except FedwaveError as error:
            why = str(error)
    if not found:
        raise FedwaveError(why)
    return found
