"""The layers of many models with different weights, each computed by one call for all of them.

A model that is a plain chain (nn.Sequential) of these layers needs no automatic vectorisation: the channels of all
models are laid side by side, so that a convolution is one grouped convolution, batch norm is itself, and a linear layer
is a batched matrix product. On a GPU that is several times as fast for a deep model. Any other model is vectorised by
torch (gradients.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedwave.learning.chain_spec import known_layers
from fedwave.learning.dropout import KeyedDropout
from fedwave.learning.model_rows import Tensors

# (parameters, carried state, images [lane, sample, ...]) to logits [lane, sample, class]; running statistics change in
# place.
Forward = Callable[[Tensors, Tensors, Tensor], Tensor]

_PARTS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def batched_forward(model: nn.Module, channels_last: bool = False) -> Forward | None:
    """One forward pass for many models of this kind; None unless the model is a chain of the layers in ``_LAYERS``."""
    layers = known_layers(model)
    if layers is None or not all(type(layer) in _LAYERS for _, layer in layers):
        return None

    def forward(w: Tensors, rest: Tensors, images: Tensor) -> Tensor:
        lanes, tensors = len(images), rest | w
        x = images.transpose(0, 1).flatten(1, 2)
        if channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        for name, layer in layers:
            own = {part: tensors.get(f"{name}.{part}") for part in _PARTS}  # None where it has none
            x = _LAYERS[type(layer)](layer, x, lanes, own)
        return x

    return forward


# (layer, x, number of lanes, the layer's own tensors) to the output. x is [sample, lane and channel, height, width] up
# to Flatten, [lane, sample, feature] after it.


def _convolution(layer: nn.Conv2d, x: Tensor, lanes: int, own: dict[str, Any]) -> Tensor:
    bias = None if own["bias"] is None else own["bias"].flatten()
    weight = own["weight"].flatten(0, 1)
    return F.conv2d(x, weight, bias, layer.stride, layer.padding, layer.dilation, groups=lanes)


def _norm(layer: nn.BatchNorm2d, x: Tensor, lanes: int, own: dict[str, Any]) -> Tensor:
    own["num_batches_tracked"].add_(1)
    # Views of the stacked statistics: what batch norm writes into them is kept.
    statistics = own["running_mean"].view(-1), own["running_var"].view(-1)
    weight, bias = own["weight"].flatten(), own["bias"].flatten()
    return F.batch_norm(x, *statistics, weight, bias, True, layer.momentum or 0.0, layer.eps)


def _flatten(layer: nn.Flatten, x: Tensor, lanes: int, own: dict[str, Any]) -> Tensor:
    return x.flatten(2) if x.ndim != 4 else x.reshape(len(x), lanes, -1).transpose(0, 1)


def _linear(layer: nn.Linear, x: Tensor, lanes: int, own: dict[str, Any]) -> Tensor:
    out = torch.bmm(x, own["weight"].transpose(1, 2))
    return out if own["bias"] is None else out + own["bias"][:, None, :]


def _dropout(layer: KeyedDropout, x: Tensor, lanes: int, own: dict[str, Any]) -> Tensor:
    if layer.p == 0:
        return x
    if x.ndim != 4:
        return x * layer.masks.mask(x.shape[1:], layer.p).to(x.dtype)
    one = (len(x), x.shape[1] // lanes, *x.shape[2:])  # as one model sees it
    return x * layer.masks.mask(one, layer.p).to(x.dtype).transpose(0, 1).flatten(1, 2)


def _itself(layer: nn.Module, x: Tensor, lanes: int, own: dict[str, Any]) -> Tensor:
    """A layer without parameters that treats channels and samples alike."""
    out: Tensor = layer(x)
    return out


_LAYERS: dict[type[nn.Module], Callable[[Any, Tensor, int, dict[str, Any]], Tensor]] = {
    nn.Conv2d: _convolution,
    nn.BatchNorm2d: _norm,
    nn.Flatten: _flatten,
    nn.Linear: _linear,
    KeyedDropout: _dropout,
    **dict.fromkeys((nn.MaxPool2d, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Identity), _itself),
}
