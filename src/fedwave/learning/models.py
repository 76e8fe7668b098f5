"""The models of the paper's experiments, and a convex one for its theorem."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

_VGG19 = (64, 64, 0, 128, 128, 0, *(256,) * 4, 0, *(512,) * 4, 0, *(512,) * 4, 0)  # 0: max-pool


class Cnn(nn.Module):
    """Two 5x5 convolutions with pooling, then 320 - 50 - 10: 21,840 parameters on 28 x 28 grey images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.hidden = nn.Linear(320, 50)
        self.out = nn.Linear(50, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = torch.relu(torch.max_pool2d(self.conv1(images), 2))
        x = torch.relu(torch.max_pool2d(self.conv2(x), 2))
        x = torch.relu(self.hidden(x.flatten(1)))
        logits: Tensor = self.out(x)
        return logits


class Vgg19(nn.Module):
    """Sixteen 3x3 convolutions and one linear layer for 32 x 32 colour images, Kaiming initialisation.

    With batch norm by default: without it, under the framework's own initialisation, training never leaves chance.
    """

    def __init__(self, batch_norm: bool = True) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width in _VGG19:
            if width == 0:
                layers.append(nn.MaxPool2d(2))
                continue
            convolution = nn.Conv2d(channels, width, 3, padding=1)
            nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
            layers += [convolution, *([nn.BatchNorm2d(width)] if batch_norm else []), nn.ReLU()]
            channels = width
        self.features = nn.Sequential(*layers)
        self.out = nn.Linear(512, 10)
        nn.init.kaiming_normal_(self.out.weight, nonlinearity="linear")
        nn.init.zeros_(self.out.bias)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.out(self.features(images).flatten(1))
        return logits


class Logistic(nn.Module):
    """One linear layer from pixels to classes; with the task's ``l2`` > 0 its loss is strongly convex."""

    def __init__(self, inputs: int = 784, classes: int = 10) -> None:
        super().__init__()
        self.out = nn.Linear(inputs, classes)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.out(images.flatten(1))
        return logits


def vgg19_plain() -> nn.Module:
    """VGG19 without batch norm."""
    return Vgg19(batch_norm=False)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "cnn": Cnn,
    "vgg19": Vgg19,
    "vgg19-plain": vgg19_plain,
    "logistic": Logistic,
}
