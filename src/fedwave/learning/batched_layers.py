"""The layers of many models with different weights, each computed by one call for all of them.

A model that is a plain chain (nn.Sequential) of the layers known here needs no automatic vectorisation: the
channels of all models are laid side by side, so that a convolution is one grouped convolution, batch norm is itself,
and a linear layer is a batched matrix product. On a GPU that is several times as fast for a deep model. Any other
model is vectorised by torch (lanes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedwave.learning.evaluation import Tensors

# (parameters, buffers, images [lane, sample, ...]) to logits [lane, sample, class]; buffers change in place.
Forward = Callable[[Tensors, Tensors, Tensor], Tensor]
_POINTWISE = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Identity)


def side_by_side(model: nn.Module, channels_last: bool = False) -> Forward | None:
    """One forward pass for many models of this kind; None if it has an unknown layer."""
    # A subclass may override `forward`, so only `nn.Sequential.forward` itself is accepted.
    if type(model).forward is not nn.Sequential.forward:
        return None
    layers = list(_chain(model))
    if not all(_known(layer) for _, layer in layers):
        return None

    def forward(w: Tensors, buffers: Tensors, images: Tensor) -> Tensor:
        lanes = len(images)
        x = images
        if images.ndim == 5:
            x = images.transpose(0, 1).flatten(1, 2)
            if channels_last:
                x = x.contiguous(memory_format=torch.channels_last)
        for name, layer in layers:
            own = {part: _get(f"{name}.{part}", w, buffers) for part in _PARTS}
            x = _apply(layer, x, lanes, own)
        return x

    return forward


_PARTS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def _get(key: str, w: Tensors, buffers: Tensors) -> Any:
    """A layer's own parameters or buffers, all lanes stacked; None where it has none."""
    return w[key] if key in w else buffers.get(key)


def _chain(model: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    for name, child in model.named_children():
        if isinstance(child, nn.Sequential) and type(child).forward is nn.Sequential.forward:
            yield from _chain(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child


def _known(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        return layer.groups == 1 and layer.padding_mode == "zeros"
    if isinstance(layer, nn.BatchNorm2d):
        return layer.momentum is not None and layer.affine and layer.track_running_stats
    if isinstance(layer, nn.Flatten):
        return layer.start_dim == 1 and layer.end_dim == -1
    return isinstance(layer, (nn.Linear, nn.MaxPool2d, *_POINTWISE))


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
    pointwise_or_pool: Tensor = layer(x)
    return pointwise_or_pool
