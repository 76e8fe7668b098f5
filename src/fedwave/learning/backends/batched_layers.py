"""The layers of many models with different weights, each computed by one call for all of them.

A model that is a plain chain (nn.Sequential) of known layers (spec.py) needs no automatic vectorisation: the
channels of all models are laid side by side, so that a convolution is one grouped convolution, batch norm is itself,
and a linear layer is a batched matrix product. On a GPU that is several times as fast for a deep model. Any other model
is vectorised by torch (gradients.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedwave.learning.dropout import KeyedDropout
from fedwave.learning.state import Tensors

# (parameters, the rest of the state, images [lane, sample, ...]) to logits [lane, sample, class]; running statistics
# change in place.
Forward = Callable[[Tensors, Tensors, Tensor], Tensor]


def side_by_side(layers: list[tuple[str, nn.Module]], channels_last: bool = False) -> Forward:
    """One forward pass for many models with these layers (spec.known_layers)."""

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


_PARTS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def _get(key: str, w: Tensors, rest: Tensors) -> Any:
    """A layer's own parameters or statistics, all lanes stacked; None where it has none."""
    return w[key] if key in w else rest.get(key)


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
