"""The proximal term in float32: it moves no weight that has not left its start, and adds no error of one sign."""

import numpy as np
import pytest
import torch
from small_models import images
from torch import nn

from fedwave.learning.backends.base import Backend, Precision
from fedwave.learning.backends.cpu.chain import NumbaBackend
from fedwave.learning.backends.gpu.backends import WideBackend
from fedwave.learning.backends.torch import TorchBackend
from fedwave.learning.model_rows import Layout, ModelRows, trained_parameters
from fedwave.learning.sampling import Batches
from fedwave.learning.task import Task

ETA, PROX, STEPS, LANES, BATCH = 0.01, 0.01, 400, 3, 4
CPU = torch.device("cpu")


def dead() -> nn.Sequential:
    """Its first layer has no gradient: no ReLU behind it is ever open."""
    layers = nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 4))
    nn.init.constant_(layers[1].bias, -1000.0)
    return layers


def convolved() -> nn.Sequential:
    layers = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 4))
    nn.init.constant_(layers[0].bias, -1000.0)
    return layers


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = dead()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def trained(way: str, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ModelRows]:
    """Models before and after."""
    make = {"module": Own, "wide": convolved}.get(way, dead)
    task = Task(images((1, 3, 4)), make, batch=BATCH, eta=ETA, prox=PROX)
    model = task.new_model(0, 0).to(dtype)
    layout = Layout(model)
    start = torch.stack([layout.flat(trained_parameters(model))] * LANES)
    samples = np.random.default_rng(0).integers(0, 200, (LANES, STEPS, BATCH))
    precision = Precision(CPU, dtype)
    backend: Backend | None = TorchBackend(task, precision)
    if way == "compiled":
        backend = NumbaBackend.of(task, precision)
    elif way == "wide":
        backend = WideBackend.of(task, precision, BATCH)
    assert backend is not None
    batches = Batches(samples, np.full((LANES, STEPS), BATCH))
    return start, backend.train(ModelRows(start.clone(), {}), batches, np.zeros(LANES, np.int64))


@pytest.mark.parametrize("way", ["compiled", "module", "chain", "wide"])
def test_weights_without_a_gradient_stay_and_the_error_has_no_sign(way: str) -> None:
    """The slope of the rounding error on w: 4e-6 if w and its start are weighed by two rounded factors."""
    start, after = trained(way)
    first, last = (72 + 6, 6 * 4 + 4) if way != "wide" else (72 + 8, 16 * 4 + 4)
    assert torch.equal(after.w[:, :first], start[:, :first])
    assert not torch.equal(after.w[:, first:], start[:, first:])
    exact, found = trained(way, torch.float64)[1].w, after.w.double()
    w, error = exact[:, -last:].flatten(), (found - exact)[:, -last:].flatten()
    assert abs(float(w @ error / (w @ w))) < 5e-7
