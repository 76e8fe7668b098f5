"""The models of the paper's experiments, and a convex model for its theorem.

Each is a plain chain of layers, so that many of them can be trained side by side fast (batched_layers.py).
"""

from __future__ import annotations

from torch import nn

_VGG19 = (64, 64, 0, 128, 128, 0, *(256,) * 4, 0, *(512,) * 4, 0, *(512,) * 4, 0)  # 0: max-pool


class Cnn(nn.Sequential):
    """Two 5x5 convolutions with pooling, then 320 - 50 - 10: 21,840 parameters on 28 x 28 grey images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.pool1 = nn.MaxPool2d(2)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.pool2 = nn.MaxPool2d(2)
        self.relu2 = nn.ReLU()
        self.flatten = nn.Flatten()
        self.hidden = nn.Linear(320, 50)
        self.relu3 = nn.ReLU()
        self.out = nn.Linear(50, 10)


class Vgg19(nn.Sequential):
    """Sixteen 3x3 convolutions and one linear layer for 32 x 32 colour images, Kaiming initialisation.

    With batch norm by default: without it, and with PyTorch's default initialisation, accuracy stays at chance.
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
        self.flatten = nn.Flatten()
        self.out = nn.Linear(512, 10)
        nn.init.kaiming_normal_(self.out.weight, nonlinearity="linear")
        nn.init.zeros_(self.out.bias)


class Logistic(nn.Sequential):
    """One linear layer from pixels to classes; with the task's ``l2`` > 0 its loss is strongly convex."""

    def __init__(self, inputs: int = 784, classes: int = 10) -> None:
        super().__init__()
        self.flatten = nn.Flatten()
        self.out = nn.Linear(inputs, classes)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)


def vgg19_plain() -> nn.Module:
    """VGG19 without batch norm."""
    return Vgg19(batch_norm=False)
