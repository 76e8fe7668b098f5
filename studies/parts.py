"""Parts that the studies need beside fedwave's own: an MLP, other first weights, other pixel scales."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import nn

import fedwave as fw
from fedwave.learning.datasets.dataset import Dataset
from fedwave.parts import registry

# What standardising subtracts from and divides the pixels of MNIST by.
_MEAN, _DEVIATION = 0.1307, 0.3081


@fw.register("mlp", family="model")
class Mlp(nn.Sequential):
    """A user's own small model: 784 - 64 - 32 - 10."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


@fw.register("cnn-from", family="model")
def cnn_from(weights: str = "xavier") -> nn.Module:
    """The paper's CNN with other first weights: xavier or kaiming, biases 0."""
    draw = {"xavier": nn.init.xavier_uniform_, "kaiming": nn.init.kaiming_uniform_}[weights]
    model: nn.Module = registry.find("model", "cnn")()
    for name, tensor in model.named_parameters():
        if name.endswith("weight"):
            draw(tensor)
        else:
            nn.init.zeros_(tensor)
    return model


@fw.register("mnist-between", family="dataset")
def mnist_between(low: float = 0.0, high: float = 1.0) -> Dataset:
    """MNIST with pixels from ``low`` to ``high`` instead of standardised ones."""
    data: Dataset = registry.build("dataset", "mnist")

    def scaled(images: np.ndarray) -> np.ndarray:
        return (low + (high - low) * (images * _DEVIATION + _MEAN)).astype(images.dtype)

    return replace(
        data,
        name=f"MNIST, pixels {low:g} to {high:g}",
        train_inputs=scaled(data.train_inputs),
        test_inputs=scaled(data.test_inputs),
    )
