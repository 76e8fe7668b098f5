"""Reads a model that is a plain chain of known layers, once for all backends.

A layer is known by its exact type, since a subclass may compute something else, and only in the usual form: as its
constructor made it, without hooks and without methods of its own. To add a layer, add an entry to ``_KNOWN``: a test
of the usual form. Each backend has a table of the layers that it computes (backends/batched_layers.py,
backends/cpu/plan.py, backends/gpu/blocks.py); a backend without an entry refuses the chain, and torch vectorises the
model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fedwave.learning.dropout import KeyedDropout

_ON_IMAGES = (nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d)


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
    if not isinstance(module, nn.Sequential) or _is_changed(module):
        return False
    kind = type(module)
    return kind.forward is nn.Sequential.forward and kind.train is nn.Module.train


def _is_changed(module: nn.Module) -> bool:
    """Does the module have hooks, or methods of its own?"""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, name) for name in hooks) or any(
        callable(getattr(type(module), name, None)) for name in vars(module)
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


def _usual_convolution(layer: nn.Conv2d) -> bool:
    return layer.groups == 1 and layer.padding_mode == "zeros"


def _usual_norm(layer: nn.BatchNorm2d) -> bool:
    return layer.momentum is not None and layer.affine and layer.track_running_stats


def _usual_pool(layer: nn.MaxPool2d) -> bool:
    return not layer.return_indices


def _usual_flatten(layer: nn.Flatten) -> bool:
    return layer.start_dim == 1 and layer.end_dim == -1


def _always(layer: nn.Module) -> bool:
    return True


_ALWAYS_USUAL = (nn.Linear, KeyedDropout, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Identity)
_KNOWN: dict[type[nn.Module], Callable[[Any], bool]] = {
    nn.Conv2d: _usual_convolution,
    nn.BatchNorm2d: _usual_norm,
    nn.MaxPool2d: _usual_pool,
    nn.Flatten: _usual_flatten,
    **dict.fromkeys(_ALWAYS_USUAL, _always),
}


def _is_known(layer: nn.Module) -> bool:
    is_usual = _KNOWN.get(type(layer))
    return is_usual is not None and not _is_changed(layer) and is_usual(layer)
