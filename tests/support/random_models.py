"""Models drawn at random, of every kind that could be trained as another model than the one it is.

Images are 1 x 6 x 6, classes three. ``draw(number)`` is always the same model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.random import Generator
from torch import Tensor, nn
from torch.nn.utils import parametrizations, weight_norm

IMAGE, CLASSES = (1, 6, 6), 3
Make = Callable[[], nn.Module]


class Doubling(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Shifted(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.3


class Backwards(nn.Sequential):
    """Runs its layers in the order of their names, as nn.Sequential does, and then turns the sign."""

    def forward(self, x: Tensor) -> Tensor:
        return -super().forward(x)


class Chain(nn.Sequential):
    """A subclass that changes nothing."""


class Counting(nn.Module):
    """Keeps a mean of what it saw in a buffer, and subtracts it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("seen", torch.tensor(0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean(dim=0))  # type: ignore[operator]
            self.seen.add_(1)  # type: ignore[operator]
        return x - self.mean  # type: ignore[operator]


class Branch(nn.Module):
    """Depends on values in training, which torch cannot vectorise."""

    def forward(self, x: Tensor) -> Tensor:
        return x if not self.training or x.sum() > 0 else 0.5 * x


class PlainDrop(nn.Module):
    """Dropout by a function, in a module that says nothing about it."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.3, self.training)


class Rows(nn.Module):
    """Reads an image row by row with a recurrent layer."""

    def __init__(self, kind: type[nn.RNNBase], **more: Any) -> None:
        super().__init__()
        self.read = kind(6, 4, batch_first=True, **more)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.read(x[:, 0])[0]
        return found[:, -1]


class Attention(nn.Module):
    """Lets the rows of an image look at each other."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        rows = x[:, 0]
        if isinstance(self.inner, nn.MultiheadAttention):
            rows = self.inner(rows, rows, rows, need_weights=False)[0]
        else:
            rows = self.inner(rows)
        return rows.mean(dim=1)


def _pick(rng: Generator, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _activation(rng: Generator) -> nn.Module:
    kind = _pick(rng, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Identity, nn.ELU)
    made: nn.Module = kind()
    return made


def _images(rng: Generator) -> list[nn.Module]:
    """Layers on images; three channels of 2 x 2 come out."""
    first: nn.Module = _pick(
        rng,
        nn.Conv2d(1, 3, 3, padding=1),
        nn.Conv2d(1, 3, 3, padding="same", bias=False),
        Shifted(1, 3, 3, padding=1),
        nn.Conv2d(1, 3, 3, padding=1, padding_mode="circular"),
    )
    norm: nn.Module = _pick(
        rng,
        nn.Identity(),
        nn.BatchNorm2d(3),
        nn.BatchNorm2d(3, momentum=None),
        nn.GroupNorm(3, 3),
        nn.InstanceNorm2d(3, affine=True),
        nn.GroupNorm(1, 3),
        nn.Dropout2d(0.3),
        nn.BatchNorm2d(3, affine=False),
        nn.Dropout(0.2),
    )
    again = nn.Conv2d(3, 3, 3, padding=1)
    middle = _pick(rng, [again], [again, nn.Tanh(), again], [nn.Conv2d(3, 3, 1, groups=3)])
    pool: nn.Module = _pick(rng, nn.MaxPool2d(3), nn.AvgPool2d(3))
    return [first, norm, _activation(rng), *middle, pool, nn.Flatten()]


def _features(rng: Generator, size: int) -> list[nn.Module]:
    """Layers on flat features; eight come out."""
    kind = _pick(rng, nn.Linear, nn.Linear, Doubling)
    into, square, other = kind(size, 8), nn.Linear(8, 8), nn.Linear(8, 8)
    square_and_tied = [square, nn.Tanh(), other]
    choice = int(rng.integers(8))
    if choice == 0:
        other.weight = square.weight  # tied
    elif choice == 1:
        square_and_tied = [square, nn.Tanh(), square]  # used twice
    elif choice == 2:
        square_and_tied = [weight_norm(square)]
    elif choice == 3:
        square_and_tied = [parametrizations.weight_norm(square)]
    elif choice == 4:
        square_and_tied = [parametrizations.spectral_norm(square)]
    more: nn.Module = _pick(
        rng,
        nn.Identity(),
        nn.BatchNorm1d(8),
        nn.LayerNorm(8),
        nn.Dropout(0.4),
        nn.Dropout(0.4),
        PlainDrop(),
        Counting(8),
        Branch(),
        nn.AlphaDropout(0.2),
        nn.RReLU(),
        nn.Dropout(0.0),
        nn.LazyLinear(8),
    )
    layers = [into, _activation(rng), *square_and_tied, more]
    return [Backwards(*layers)] if rng.random() < 0.15 else layers


def _front(rng: Generator) -> tuple[list[nn.Module], int]:
    choice = int(rng.integers(8))
    if choice < 4:
        return _images(rng), 12
    if choice == 4:
        return [nn.Linear(6, 5), _activation(rng), nn.Flatten()], 30  # on rows of pixels
    if choice == 5:
        return [Rows(_pick(rng, nn.RNN, nn.GRU, nn.LSTM))], 4
    if choice == 6:
        dropped = float(_pick(rng, 0.0, 0.2))
        inner: nn.Module = _pick(
            rng,
            nn.MultiheadAttention(6, 2, dropout=dropped, batch_first=True),
            nn.TransformerEncoderLayer(6, 2, 8, dropout=dropped, batch_first=True),
        )
        return [Attention(inner)], 6
    return [nn.Flatten()], 36


def _hook(rng: Generator, layer: nn.Module) -> None:
    choice = int(rng.integers(4))
    if choice == 0:
        layer.register_forward_hook(lambda _, __, out: 0.5 * out)
    elif choice == 1:
        layer.register_forward_pre_hook(lambda _, inputs: (inputs[0] + 0.2,))
    elif choice == 2:
        layer.register_full_backward_hook(lambda _, grads, __: tuple(0.5 * g for g in grads))
    else:
        whole = layer.forward
        layer.forward = lambda x: 1.5 * whole(x)  # type: ignore[method-assign]


def _build(number: int) -> nn.Module:
    rng = np.random.default_rng([number, 1])
    front, size = _front(rng)
    layers = [*front, *_features(rng, size), nn.Linear(8, CLASSES)]
    if rng.random() < 0.25:
        _hook(rng, layers[-1])
    if rng.random() < 0.3:
        cut = int(rng.integers(1, len(layers)))
        layers = [Chain(*layers[:cut]), *layers[cut:]]
    model = _pick(rng, nn.Sequential, nn.Sequential, Chain)(*layers)
    if rng.random() < 0.25:
        parameters = [p for p in model.parameters() if not isinstance(p, nn.UninitializedParameter)]
        for p in parameters[:-1]:
            if rng.random() < 0.4:
                p.requires_grad_(False)
    if rng.random() < 0.15:
        model.register_parameter("spare", nn.Parameter(torch.ones(2)))  # not used
    made: nn.Module = model
    return made


def draw(number: int) -> Make:
    """A function that makes the model of this number; its weights are drawn from torch's generator."""
    return lambda: _build(number)


def plain_chain(number: int) -> Make:
    """The same with known layers only, most of which are trained side by side."""

    def build() -> nn.Module:
        rng = np.random.default_rng([number, 2])
        act = _pick(rng, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU)()
        layers: list[nn.Module] = [nn.Conv2d(1, 3, _pick(rng, 1, 3), padding="same", bias=bool(rng.integers(2)))]
        layers += _pick(rng, [], [nn.BatchNorm2d(3)], [nn.Dropout(0.3)])
        layers += [act, *_pick(rng, [], [nn.Conv2d(3, 3, 3, padding=1)]), nn.MaxPool2d(_pick(rng, 2, 3))]
        layers += [act, nn.Flatten(), nn.LazyLinear(7, bias=bool(rng.integers(2)))]
        layers += _pick(rng, [act], [nn.Dropout(0.5)], [nn.Identity(), nn.Dropout(0.1), nn.Dropout(0.1)])
        layers.append(nn.Linear(7, CLASSES))
        model = nn.Sequential(nn.Sequential(*layers[:2]), *layers[2:])
        if rng.random() < 0.3:
            next(iter(model.parameters())).requires_grad_(False)
        return model

    return build
