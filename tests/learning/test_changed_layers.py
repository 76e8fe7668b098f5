"""Models whose layers were changed after they were made: trained as torch trains them, not as their kind says."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_models import images
from torch import nn

import fedwave as fw
from fedwave.learning.sampling import Sampler, device_batches
from fedwave.network.partition import Iid

SEED = 5


class Backwards(nn.Sequential):
    def __iter__(self):  # type: ignore[no-untyped-def]
        return reversed(list(self._modules.values()))


def linear(**parts: Any) -> nn.Module:
    layer = nn.Linear(36, 8)
    for name, part in parts.items():
        if not isinstance(part, nn.Parameter):
            delattr(layer, name)
        setattr(layer, name, part)
    return nn.Sequential(nn.Flatten(), layer, nn.Tanh(), nn.Linear(len(layer.weight), 3))


def norm(*missing: str) -> nn.Module:
    layer = nn.BatchNorm2d(3)
    for name in missing:
        setattr(layer, name, None)
    return nn.Sequential(nn.Conv2d(1, 3, 3), layer, nn.ReLU(), nn.Flatten(), nn.Linear(48, 3))


def conv(outputs: int = 48, **changes: Any) -> nn.Module:
    layer = nn.Conv2d(1, 3, 3)
    for name, change in changes.items():
        setattr(layer, name, change)
    return nn.Sequential(layer, nn.ReLU(), nn.Flatten(), nn.Linear(outputs, 3))


def doubled(self: Any, x: Any, weight: Any, bias: Any) -> Any:
    return 2 * F.conv2d(x, weight, bias)


def with_method() -> nn.Module:
    model = conv()
    model[0]._conv_forward = doubled.__get__(model[0])  # type: ignore[index, union-attr]
    return model


def with_spare() -> nn.Module:
    model = conv()
    model.spare = nn.Parameter(torch.zeros(0))
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "nothing": conv,
    "a head of several pixels": lambda: nn.Sequential(nn.Conv2d(1, 3, (6, 5)), nn.Flatten()),
    "a pooled head": lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.MaxPool2d(3), nn.Flatten()),
    "batch norm without bias": lambda: norm("bias"),
    "batch norm without weight": lambda: norm("weight"),
    "another order": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(36, 8), Backwards(nn.Tanh(), nn.Linear(8, 8)), nn.Linear(8, 3)
    ),
    "fewer features": lambda: linear(weight=nn.Parameter(torch.randn(6, 36) * 0.1), bias=nn.Parameter(torch.zeros(6))),
    "one bias for all": lambda: linear(bias=nn.Parameter(torch.zeros(1))),
    "a smaller kernel": lambda: conv(75, weight=nn.Parameter(torch.randn(3, 1, 2, 2) * 0.1)),
    "a weight that is no parameter": lambda: linear(weight=torch.ones(8, 36) * 0.1),
    "a bias that is no parameter": lambda: linear(bias=torch.ones(8) * 0.7),
    "padding and stride as numbers": lambda: conv(27, padding=1, stride=2),
    "a pool of one number": lambda: nn.Sequential(
        nn.Conv2d(1, 3, 3),
        nn.MaxPool2d((2,)),
        nn.Flatten(),
        nn.Linear(12, 3),  # type: ignore[arg-type]
    ),
    "a method": with_method,
    "an empty parameter": with_spare,
}


@pytest.mark.parametrize("name", MODELS)
def test_it_is_trained_as_by_torch(name: str) -> None:
    data = images((1, 6, 6))
    trace = fw.simulate(fw.random_network(1, 1, seed=0, rate=3.0), "bench", 1, 1, SEED)
    assert trace.delivered.all()
    task = fw.task(dataset=data, model=MODELS[name], shard_size=20, batch=20, epochs=5, eta=0.05, prox=0.0)
    mine = copy.deepcopy(task.new_model(SEED, 0)).train()
    curves = fw.train(trace, task)

    samples = Sampler(data.train_labels, Iid(), 20).shards(SEED, 0, 1, 0, int(trace.accepted[0, 0, 0]))
    pixels, labels = torch.as_tensor(data.train_images), torch.as_tensor(data.train_labels)
    sgd = torch.optim.SGD(mine.parameters(), lr=0.05)
    for batch in device_batches(samples, 20, 5, SEED, 0, 1, 0):
        sgd.zero_grad()
        F.cross_entropy(mine(pixels[batch]), labels[batch]).backward()
        sgd.step()
    mine.eval()
    with torch.no_grad():
        loss = F.cross_entropy(mine(pixels), labels)
    assert curves.loss[0, 0] == pytest.approx(float(loss), rel=1e-4)
    for key, p in mine.named_parameters():
        np.testing.assert_allclose(curves.weights[0][key], p.detach().numpy(), atol=2e-6)
