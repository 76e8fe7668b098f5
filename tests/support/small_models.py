"""Small models of every kind that backends treat differently, and images for them."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from fedwave.learning.datasets.dataset import Dataset


def images(shape: tuple[int, int, int], seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(3, *shape))
    labels = [rng.integers(0, 3, size=n) for n in (200, 60)]
    noisy = [(means[y] + rng.normal(size=(len(y), *shape))).astype(np.float32) for y in labels]
    return Dataset("test", noisy[0], labels[0], noisy[1], labels[1])


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 3))


def with_batch_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 2),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 2 * 3, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Linear(8, 3),
    )


def chain() -> nn.Module:
    """Layers that are computed for all lanes at once (batched_layers.py), each kind of them."""
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()),
        nn.Conv2d(4, 6, 2, stride=(1, 2), bias=False),
        nn.BatchNorm2d(6),
        nn.Tanh(),
        nn.MaxPool2d((2, 1)),
        nn.Flatten(),
        nn.Linear(12, 8, bias=False),
        nn.GELU(),
        nn.Linear(8, 3),
    )


def deep() -> nn.Module:
    """A small VGG: on a GPU trained layer by layer by kernels of its own."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 16),
        nn.ReLU(),
        nn.Linear(16, 3),
    )


class Own(nn.Sequential):
    """A chain whose forward does more than its layers say: it must not be taken for a plain one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = super().forward(x)
        return 3 * out


class Masked(nn.Module):
    """Buffers of every type: a mask of truth values, a number that counts, and an average."""

    mask: torch.Tensor
    passes: torch.Tensor
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 3)
        self.register_buffer("mask", torch.arange(12) % 4 != 0)
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1) * self.mask
        if self.training:
            self.passes.add_(1)
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        out: torch.Tensor = self.layer(x - self.mean)
        return out


def own_forward() -> nn.Module:
    return nn.Sequential(nn.Flatten(), Own(nn.Linear(12, 5), nn.Tanh()), nn.Linear(5, 3))
