"""Reads a model that is a plain chain of known layers, once for all backends.

A layer is known by its exact type, since a subclass may compute something else, and only in the usual form: made by
its constructor, without hooks and without methods of its own. To add a layer, add an entry to ``_KNOWN``: a test of the
usual form. Each backend has a table of the layers that it computes (backends/batched_layers.py, backends/cpu/plan.py,
backends/gpu/blocks.py); a backend without an entry refuses the chain, and torch vectorises the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as every_module

from fedwave.learning.dropout import KeyedDropout

_ON_IMAGES = (nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d)
_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


@dataclass(frozen=True)
class ChainLayer:
    """A layer of a chain, and the shapes of one sample before and after it."""

    name: str
    layer: nn.Module
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class ChainSpec:
    """A chain of known layers."""

    layers: tuple[ChainLayer, ...]

    @classmethod
    def of(cls, model: nn.Module, image: tuple[int, ...]) -> ChainSpec | None:
        """The layers of a model for images of this shape; None if it is not a chain of known layers, or does not fit.

        >>> spec = ChainSpec.of(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), (1, 2, 2))
        >>> [(layer.name, layer.before, layer.after) for layer in spec.layers]
        [('0', (1, 2, 2), (4,)), ('1', (4,), (3,))]
        """
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
        """Does a layer drop numbers at random?"""
        return any(isinstance(one.layer, nn.Dropout) and one.layer.p > 0 for one in self.layers)


def known_layers(model: nn.Module) -> list[tuple[str, nn.Module]] | None:
    """The layers of a chain by name; None for another model, for an unknown layer, and for shared parameters."""
    if not _is_plain_sequence(model):
        return None
    layers = list(_chain(model))
    if not all(_is_known(layer) for _, layer in layers) or _shares_tensors(model):
        return None
    if not all(p.numel() for p in model.parameters()):
        return None
    return layers if _shapes_fit([layer for _, layer in layers]) else None


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
    return untouched and not _is_changed(module)


def _is_changed(module: nn.Module) -> bool:
    """Does the module have hooks, or methods of its own?"""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return (
        any(getattr(module, name, None) for name in hooks)
        or any(getattr(every_module, f"_global{name}", None) for name in hooks)
        or any(callable(getattr(type(module), name, None)) for name in vars(module))
    )


def _shares_tensors(model: nn.Module) -> bool:
    """Is a parameter or a buffer used in two places?"""
    return any(
        len(list(named(remove_duplicate=False))) != len(list(named()))
        for named in (model.named_parameters, model.named_buffers)
    )


def _shapes_fit(layers: list[nn.Module]) -> bool:
    """Do convolutions get images, and linear layers flat features? A linear layer can also act on rows of pixels."""
    flat = False
    for layer in layers:
        if isinstance(layer, nn.Flatten):
            flat = True
        elif isinstance(layer, _ON_IMAGES if flat else nn.Linear):
            return False
    return flat


# Tests of the usual form. Parameters and numbers of a layer can be replaced after it was made.


def _usual_convolution(layer: nn.Conv2d) -> bool:
    if layer.groups != 1 or layer.padding_mode != "zeros":
        return False
    if not all(_is_pair(p) for p in (layer.kernel_size, layer.stride, layer.dilation)):
        return False
    if not (_is_pair(layer.padding) or layer.padding in ("same", "valid")):
        return False
    return _has_parameters(layer, (layer.out_channels, layer.in_channels, *layer.kernel_size))


def _usual_norm(layer: nn.BatchNorm2d) -> bool:
    if layer.momentum is None or not layer.affine or not layer.track_running_stats:
        return False
    shape = (layer.num_features,)
    sizes = [_shape(layer._buffers.get(name)) for name in _STATISTICS]
    has_bias = layer._parameters.get("bias") is not None
    return sizes == [shape, shape, ()] and has_bias and _has_parameters(layer, shape)


def _usual_pool(layer: nn.MaxPool2d) -> bool:
    numbers = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    return not layer.return_indices and all(isinstance(number, int) or _is_pair(number) for number in numbers)


def _usual_linear(layer: nn.Linear) -> bool:
    return _has_parameters(layer, (layer.out_features, layer.in_features))


def _usual_flatten(layer: nn.Flatten) -> bool:
    return layer.start_dim == 1 and layer.end_dim == -1


def _always(layer: nn.Module) -> bool:
    return True


_KNOWN: dict[type[nn.Module], Callable[[Any], bool]] = {
    nn.Conv2d: _usual_convolution,
    nn.BatchNorm2d: _usual_norm,
    nn.MaxPool2d: _usual_pool,
    nn.Linear: _usual_linear,
    nn.Flatten: _usual_flatten,
    KeyedDropout: _always,
    nn.ReLU: _always,
    nn.Tanh: _always,
    nn.Sigmoid: _always,
    nn.GELU: _always,
    nn.Identity: _always,
}


def _is_known(layer: nn.Module) -> bool:
    is_usual = _KNOWN.get(type(layer))
    return is_usual is not None and not _is_changed(layer) and is_usual(layer)


def _has_parameters(layer: nn.Module, weight: tuple[int, ...]) -> bool:
    """Are weight and bias parameters (not plain tensors) of the right shapes? The bias may be missing."""
    if any(name in vars(layer) for name in ("weight", "bias")):
        return False
    shapes = [_shape(layer._parameters.get(name)) for name in ("weight", "bias")]
    return shapes[0] == weight and shapes[1] in (None, weight[:1])


def _shape(tensor: Tensor | None) -> tuple[int, ...] | None:
    return None if tensor is None else tuple(tensor.shape)


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and all(isinstance(n, int) for n in given)
