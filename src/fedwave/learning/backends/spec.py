"""Reads a model that is a plain chain of known layers, once for all backends.

A layer is known by its exact type, since a subclass may compute something else. To add a layer: an entry in ``_known``,
and what the backends that support it do with it; the others refuse the chain, and torch computes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as every

from fedwave.learning.dropout import KeyedDropout

_POINTWISE = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Identity)
_ON_IMAGES = (nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d)
_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


@dataclass(frozen=True)
class ChainLayer:
    """A layer of a chain, and the shapes of one sample before and behind it."""

    name: str
    layer: nn.Module
    before: tuple[int, ...]
    behind: tuple[int, ...]


@dataclass(frozen=True)
class ChainSpec:
    """A chain of known layers."""

    layers: tuple[ChainLayer, ...]

    @classmethod
    def of(cls, model: nn.Module, image: tuple[int, ...]) -> ChainSpec | None:
        """The layers of a model for images of this shape; None if it is no chain of known layers, or does not fit."""
        layers = known_layers(model)
        if layers is None:
            return None
        some = next(model.parameters(), torch.empty(0))
        x = torch.zeros(1, *image, dtype=some.dtype, device=some.device)
        found = []
        with torch.no_grad():
            for name, layer in layers:
                before, training = tuple(x.shape[1:]), layer.training
                try:
                    x = layer.eval()(x)
                except (RuntimeError, ValueError):
                    return None
                finally:
                    layer.train(training)
                found.append(ChainLayer(name, layer, before, tuple(x.shape[1:])))
        return cls(tuple(found))

    @property
    def image(self) -> tuple[int, ...]:
        """The shape of an image."""
        return self.layers[0].before

    @property
    def draws(self) -> bool:
        """Has it layers that drop something?"""
        return any(isinstance(one.layer, nn.Dropout) and one.layer.p > 0 for one in self.layers)


def known_layers(model: nn.Module) -> list[tuple[str, nn.Module]] | None:
    """The layers of a chain by name; None for another model, a layer that is not known, or shared parameters."""
    if not _is_plain_sequence(model):
        return None
    layers = list(_chain(model))
    if not all(_known(layer) for _, layer in layers) or _shares(model):
        return None
    if not all(p.numel() for p in model.parameters()):
        return None
    return layers if _each_gets_its_kind([layer for _, layer in layers]) else None


def _chain(model: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    # _modules, not named_children(), which leaves out the second place of a layer that is used twice.
    for name, child in model._modules.items():
        assert child is not None
        if _is_plain_sequence(child):
            yield from _chain(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child


def _is_plain_sequence(module: nn.Module) -> bool:
    if not isinstance(module, nn.Sequential):
        return False
    kind = type(module)
    untouched = (
        kind.forward is nn.Sequential.forward
        and kind.__call__ is nn.Module.__call__
        and kind.train is nn.Module.train
        and kind.__iter__ is nn.Sequential.__iter__
    )
    return untouched and not _changed(module)


def _changed(module: nn.Module) -> bool:
    """Has it hooks, or methods of its own?"""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return (
        any(getattr(module, name, None) for name in hooks)
        or any(getattr(every, f"_global{name}", None) for name in hooks)  # of all modules
        or any(callable(getattr(type(module), name, None)) for name in vars(module))
    )


def _as_made(layer: nn.Module) -> bool:
    """Has it the parameters and numbers that its constructor gave it? They can be replaced afterwards."""
    shape: tuple[int, ...]
    if isinstance(layer, nn.MaxPool2d):
        numbers = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        return all(isinstance(number, int) or _is_pair(number) for number in numbers)
    if isinstance(layer, nn.Linear):
        shape = layer.out_features, layer.in_features
    elif isinstance(layer, nn.Conv2d):
        pairs = all(_is_pair(p) for p in (layer.kernel_size, layer.stride, layer.dilation))
        if not pairs or not (_is_pair(layer.padding) or layer.padding in ("same", "valid")):
            return False
        shape = layer.out_channels, layer.in_channels, *layer.kernel_size
    elif isinstance(layer, nn.BatchNorm2d):
        shape = (layer.num_features,)
        sizes = [_shape_of(layer._buffers.get(name)) for name in _STATISTICS]
        if sizes != [shape, shape, ()] or layer._parameters.get("bias") is None:
            return False
    else:
        return True
    if any(name in vars(layer) for name in ("weight", "bias")):  # plain tensors
        return False
    weight, bias = (_shape_of(layer._parameters.get(name)) for name in ("weight", "bias"))
    return weight == shape and bias in (None, shape[:1])


def _shape_of(tensor: Tensor | None) -> tuple[int, ...] | None:
    return None if tensor is None else tuple(tensor.shape)


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and all(isinstance(n, int) for n in given)


def _shares(model: nn.Module) -> bool:
    """Is a parameter or a buffer used in two places?"""
    return any(
        len(list(places(remove_duplicate=False))) != len(list(places()))
        for places in (model.named_parameters, model.named_buffers)
    )


def _known(layer: nn.Module) -> bool:
    kind = type(layer)
    if _changed(layer) or not _as_made(layer):
        return False
    if isinstance(layer, nn.Conv2d):
        return kind is nn.Conv2d and layer.groups == 1 and layer.padding_mode == "zeros"
    if isinstance(layer, nn.BatchNorm2d):
        usual = layer.momentum is not None and layer.affine and layer.track_running_stats
        return kind is nn.BatchNorm2d and usual
    if isinstance(layer, nn.Flatten):
        return kind is nn.Flatten and layer.start_dim == 1 and layer.end_dim == -1
    if isinstance(layer, nn.MaxPool2d):
        return kind is nn.MaxPool2d and not layer.return_indices
    return kind in (nn.Linear, KeyedDropout, *_POINTWISE)


def _each_gets_its_kind(layers: list[nn.Module]) -> bool:
    """Do convolutions get images, and linear layers flat features? A linear layer can also act on rows of pixels."""
    flat = False
    for layer in layers:
        if isinstance(layer, nn.Flatten):
            flat = True
        elif isinstance(layer, _ON_IMAGES if flat else nn.Linear):
            return False
    return flat
