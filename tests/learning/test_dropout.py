"""Random layers: what a device draws depends on (seed, instance, round, device), not on what is trained beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from small_models import images
from torch import Tensor, nn

import fedwave as fw
from fedwave.learning.backends.base import Precision
from fedwave.learning.backends.torch import TorchBackend
from fedwave.learning.dropout import StepMasks, device_key, key_dropout, step_keys
from fedwave.learning.task import Task

IMAGE = (1, 3, 4)


def chain() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.Dropout(0.2), nn.ReLU(), nn.Flatten(), nn.Dropout(0.4), nn.Linear(48, 3)
    )


class Vectorised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.drop, self.out = nn.Linear(12, 8), nn.Dropout(0.4), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(self.drop(torch.tanh(self.hidden(x.flatten(1)))))
        return found


def from_torch() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.AlphaDropout(0.3), nn.Linear(8, 3))


MODELS = {"chain": chain, "vectorised": Vectorised, "one by one": from_torch}


def _task(make: Callable[[], nn.Module]) -> Task:
    return Task(images(IMAGE), make, shard_size=4, batch=4, epochs=2, eta=0.05)


@pytest.mark.parametrize("way", MODELS)
def test_results_do_not_depend_on_what_runs_beside(way: str) -> None:
    task = _task(MODELS[way])
    assert TorchBackend(task, Precision(torch.device("cpu"), torch.float64)).method == way
    network = fw.random_network(4, 2, seed=3, rate=1.5)
    both, more = (fw.simulate(network, "age", 5, instances, seed=2) for instances in ([0, 1], [1, 2, 3]))
    kept = fw.train(both, task, precision="float64")
    beside = fw.train(more, task, precision="float64", lanes=3)
    np.testing.assert_allclose(beside.loss[:, 0], kept.loss[:, 1], rtol=1e-9)
    assert (kept.loss[:, 0] != kept.loss[:, 1]).any()
    # Nor on torch's own generator, which stays as it was.
    torch.manual_seed(99)
    state = torch.random.get_rng_state()
    again = fw.train(both, task, precision="float64")
    assert (again.loss == kept.loss).all()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_threads_that_train_at_once_do_not_disturb_each_other() -> None:
    trace = fw.simulate(fw.random_network(4, 2, seed=3, rate=1.5), "age", 3, 1, seed=2)

    def losses(_: int) -> list[float]:
        curves = fw.train(trace, _task(from_torch), precision="float64")
        return [float(loss) for loss in curves.loss[:, 0]]

    alone, before = losses(0), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(found == alone for found in threads.map(losses, range(12)))
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("way", MODELS)
def test_the_layers_do_drop(way: str) -> None:
    network = fw.random_network(4, 2, seed=3, rate=1.5)
    trace = fw.simulate(network, "age", 5, 1, seed=2)

    def still() -> nn.Module:
        model = MODELS[way]()
        for module in model.modules():
            if hasattr(module, "p"):
                module.p = 0.0
        return model

    losses = [fw.train(trace, _task(make), precision="float64").loss for make in (MODELS[way], still)]
    assert (losses[0] != losses[1]).all()


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_masks_have_the_right_mean_and_no_pattern(p: float) -> None:
    step, count = StepMasks(), 200_000
    keys = step_keys(torch.tensor([device_key(0, 0, 1, u) for u in range(2)]), 0)
    with step.keyed_by(keys):
        first, second = step.mask((count,), p), step.mask((count,), p)
    assert set(first.unique().tolist()) == {0.0, 1 / (1 - p)}
    kept = torch.stack([first[0], first[1], second[0], first[0].roll(1), first[0].roll(7)]) > 0
    error = 4.5 * (p * (1 - p) / count) ** 0.5  # about one in 10,000 of correct generators is beyond
    assert (kept.double().mean(dim=1) - (1 - p)).abs().max() < error
    together = np.corrcoef(kept.numpy())
    assert np.abs(together - np.eye(5)).max() < 4.5 / count**0.5


def test_dropout_is_as_ever_outside_training() -> None:
    model = chain()
    key_dropout(model)
    dropped = model.train()[1](torch.ones(100, 4, 3, 4))
    assert set(dropped.unique().tolist()) == {0.0, 1.25}
    assert (model.eval()[1](torch.ones(5, 4)) == 1).all()
    everything = nn.Dropout(1.0)
    with key_dropout(everything).keyed_by(torch.tensor(3)):
        assert (everything(torch.ones(5)) == 0).all()
