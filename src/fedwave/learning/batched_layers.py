"""The layers of many models with different weights, each computed by one call for all of them.

A model that is a plain chain (nn.Sequential) of the layers known here needs no automatic vectorisation: the
channels of all models are laid side by side, so that a convolution is one grouped convolution, batch norm is itself,
and a linear layer is a batched matrix product. On a GPU that is several times as fast for a deep model. A layer is
known by its exact type, since a subclass may compute something else. Any other model is vectorised by torch
(gradients.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as every

from fedwave.learning.dropout import KeyedDropout
from fedwave.learning.state import Tensors

# (parameters, the rest of the state, images [lane, sample, ...]) to logits [lane, sample, class]; running statistics
# change in place.
Forward = Callable[[Tensors, Tensors, Tensor], Tensor]
_POINTWISE = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Identity)
_ON_IMAGES = (nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d)


def side_by_side(model: nn.Module, channels_last: bool = False) -> Forward | None:
    """One forward pass for many models of this kind; None if it is no chain of known layers, or if they share."""
    layers = chain_of(model)
    if layers is None:
        return None

    def forward(w: Tensors, rest: Tensors, images: Tensor) -> Tensor:
        lanes = len(images)
        x = images.transpose(0, 1).flatten(1, 2)
        if channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        for name, layer in layers:
            own = {part: _get(f"{name}.{part}", w, rest) for part in _PARTS}
            x = _apply(layer, x, lanes, own)
        return x

    return forward


def chain_of(model: nn.Module) -> list[tuple[str, nn.Module]] | None:
    """The layers with their names; None if it is no chain of known layers, or if they share."""
    if not _is_plain_sequence(model):
        return None
    layers = list(_chain(model))
    if not all(_known(layer) for _, layer in layers) or _shares(model):
        return None
    if not all(p.numel() for p in model.parameters()):
        return None
    return layers if _each_gets_its_kind([layer for _, layer in layers]) else None


_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
_PARTS = ("weight", "bias", *_STATISTICS)


def _get(key: str, w: Tensors, rest: Tensors) -> Any:
    """A layer's own parameters or statistics, all lanes stacked; None where it has none."""
    return w[key] if key in w else rest.get(key)


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


def _apply(layer: Any, x: Tensor, lanes: int, own: dict[str, Any]) -> Tensor:
    """x is [sample, lane and channel, height, width] up to Flatten, [lane, sample, feature] after it."""
    if isinstance(layer, nn.Conv2d):
        bias = None if own["bias"] is None else own["bias"].flatten()
        weight = own["weight"].flatten(0, 1)
        return F.conv2d(x, weight, bias, layer.stride, layer.padding, layer.dilation, groups=lanes)
    if isinstance(layer, nn.BatchNorm2d):
        own["num_batches_tracked"].add_(1)
        # Views of the stacked statistics: what batch norm writes into them is kept.
        statistics = own["running_mean"].view(-1), own["running_var"].view(-1)
        weight, bias = own["weight"].flatten(), own["bias"].flatten()
        return F.batch_norm(x, *statistics, weight, bias, True, layer.momentum or 0.0, layer.eps)
    if isinstance(layer, nn.Flatten):
        return x.flatten(2) if x.ndim != 4 else x.reshape(len(x), lanes, -1).transpose(0, 1)
    if isinstance(layer, nn.Linear):
        out = torch.bmm(x, own["weight"].transpose(1, 2))
        return out if own["bias"] is None else out + own["bias"][:, None, :]
    if isinstance(layer, KeyedDropout):
        return _dropped(layer, x, lanes)
    pointwise_or_pool: Tensor = layer(x)
    return pointwise_or_pool


def _dropped(layer: KeyedDropout, x: Tensor, lanes: int) -> Tensor:
    if layer.p == 0:
        return x
    if x.ndim != 4:
        return x * layer.step.mask(x.shape[1:], layer.p).to(x.dtype)
    one = (len(x), x.shape[1] // lanes, *x.shape[2:])  # as one model sees it
    return x * layer.step.mask(one, layer.p).to(x.dtype).transpose(0, 1).flatten(1, 2)
