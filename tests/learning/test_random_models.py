"""Models drawn at random, trained by every way that takes them, against the reference and against plain PyTorch."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from random_models import IMAGE, Make, draw, plain_chain
from small_models import images
from states import states
from tiny import trace
from torch import nn

import fedwave as fw
from fedwave.learning.backends.base import Backend, Precision
from fedwave.learning.backends.cpu.chain import NumbaBackend
from fedwave.learning.backends.gradients import GradientMethod
from fedwave.learning.backends.torch import TorchBackend
from fedwave.learning.dropout import device_key, key_dropout, seeded, step_keys
from fedwave.learning.evaluation import EvaluationSizes, Evaluator
from fedwave.learning.model_rows import Tensors, trained_parameters
from fedwave.learning.reference import train_run
from fedwave.learning.replay import Replay
from fedwave.learning.sampling import device_batches
from fedwave.learning.schedule import TrainingRun, labelled_runs
from fedwave.learning.settings import Settings
from fedwave.learning.task import Task

pytestmark = pytest.mark.filterwarnings("ignore")  # lazy layers, and the older of two kinds of weight norm
SIZES = EvaluationSizes(30, 30)
CPU = torch.device("cpu")
LIMIT = 1e-9  # relative, in float64
DRAWN, CHAINS = 40, 30
NUMBERS: dict[str, Any] = {"shard_size": 5, "batch": 4, "epochs": 2, "eta": 0.05, "prox": 0.1, "l2": 0.01}


@cache
def _runs() -> list[TrainingRun]:
    network = fw.random_network(3, 2, seed=3, rate=[0.6, 1.0, 2.0], miss_probability=0.2)
    return labelled_runs({"alsa-pi": fw.simulate(network, "alsa-pi", 4, 2, seed=5)})


def _task(make: Make) -> Task:
    return Task(images(IMAGE), make, **NUMBERS)


def _distance(w: Tensors, other: Tensors, start: Tensors) -> float:
    assert w.keys() == other.keys() == start.keys()
    off = sum(float(((w[k] - other[k]) ** 2).sum()) for k in w) ** 0.5
    come = sum(float(((w[k] - start[k]) ** 2).sum()) for k in w) ** 0.5
    assert come > 1e-4, "nothing was learnt, so nothing is compared"
    return off / come


def distances(make: Make, precision: str = "float64") -> dict[str, float]:
    """The distance to the reference on each way that takes the model, and of the reference to plain PyTorch."""
    settings, dtype = Settings(precision=precision, tolerance=0.0), getattr(torch, precision)
    task, how = _task(make), Precision(CPU, dtype)
    evaluator = Evaluator(task, SIZES, CPU, dtype)
    references = [train_run(run, task, evaluator, dtype)[1] for run in _runs()]
    chosen = TorchBackend(task, how).method
    ways: list[GradientMethod] = ["chain", "vectorised", "one by one"]
    if task.draws:
        ways = ["one by one"]
    backends: dict[str, Backend | None] = {w: TorchBackend(task, how, w) for w in ways[ways.index(chosen) :]}
    found: dict[str, float] = {}
    for way, backend in (backends | {"compiled": NumbaBackend.of(task, how)}).items():
        if backend is None:
            continue
        replay = Replay(_runs(), task, settings, SIZES)
        replay._training_backend = backend
        starts = [state.w for state in states(replay)]
        for _ in range(replay.rounds):
            replay.advance()
        found[way] = max(
            _distance(w, state.w, start) for w, state, start in zip(references, states(replay), starts, strict=True)
        )
    found["plain PyTorch"] = _plain_distance(task, dtype)
    return found


def _plain_distance(task: Task, dtype: torch.dtype) -> float:
    """One device that delivers after one round: its local training, written as anybody would write it."""
    (run,) = labelled_runs({"one": trace([[2]], [[True]])})
    w = train_run(run, task, Evaluator(task, SIZES, CPU, dtype), dtype)[1]
    model = task.new_model(run.seed, run.instance).to(dtype).train()
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    noise, key = key_dropout(model), device_key(run.seed, run.instance, 1, 0)
    samples = task.sampler(run.shards.shape[1]).shards(run.seed, run.instance, 1, 0, 2)
    order = device_batches(samples, task.batch, task.epochs, run.seed, run.instance, 1, 0)
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=task.eta)
    for step, chosen in enumerate(order):
        step_key = step_keys(torch.tensor(key), step)
        with seeded(int(step_key), CPU), noise.keyed_by(step_key):
            outputs = model(torch.as_tensor(task.dataset.train_inputs[chosen]).to(dtype))
        loss = F.cross_entropy(outputs, torch.as_tensor(task.dataset.train_targets[chosen]))
        for name, p in model.named_parameters():
            loss = loss + task.prox / 2 * ((p - start[name]) ** 2).sum() + task.l2 / 2 * (p**2).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    assert all(torch.equal(start[name], dict(model.named_parameters())[name]) for name in frozen)
    return _distance(trained_parameters(model), w, {k: start[k] for k in w})


def _rounding(make: Make) -> float:
    """How far the reference moves if its first weights are changed by some roundings.

    A norm of few samples, or of a weight that is nearly zero, can amplify rounding ten million times.
    """
    task = _task(make)
    evaluator = Evaluator(task, SIZES, CPU, torch.float64)
    noise = torch.Generator().manual_seed(0)

    def nearly(seed: int, instance: int) -> nn.Module:
        model = Task.new_model(task, seed, instance).double()
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1 + 1e-14 * torch.randn(p.shape, generator=noise, dtype=torch.float64))
        return model

    moved = []
    for run in _runs():
        start = trained_parameters(task.new_model(run.seed, run.instance).double())
        w = train_run(run, task, evaluator, torch.float64)[1]
        object.__setattr__(task, "new_model", nearly)
        other = train_run(run, task, evaluator, torch.float64)[1]
        object.__delattr__(task, "new_model")
        moved.append(_distance(w, other, start))
    return max(moved)


@pytest.mark.parametrize("number", range(DRAWN))
def test_a_model_of_any_kind_is_trained_as_it_is(number: int) -> None:
    for way, distance in distances(draw(number)).items():
        assert distance < LIMIT or distance < _rounding(draw(number)), way


@pytest.mark.parametrize("number", range(CHAINS))
def test_a_chain_of_known_layers_is_trained_side_by_side(number: int) -> None:
    found = distances(plain_chain(number))
    assert {"chain", "compiled"} <= found.keys()
    for way, distance in found.items():
        assert distance < LIMIT, way


# --- layers beside the usual form: trained as torch trains them, not as their kind says ----------------


class Untrained(nn.Sequential):
    """Its batch norm stays in eval mode."""

    def train(self, mode: bool = True) -> nn.Module:
        return super().train(False)


def doubled(self: Any, x: Any, weight: Any, bias: Any) -> Any:
    return 2 * F.conv2d(x, weight, bias)


def with_method() -> nn.Module:
    layer = nn.Conv2d(1, 3, 3)
    layer._conv_forward = doubled.__get__(layer)  # type: ignore[method-assign]
    return nn.Sequential(layer, nn.ReLU(), nn.Flatten(), nn.Linear(48, 3))


# Hooks, tied weights, subclasses, groups and more: drawn by random_models.py.
UNUSUAL: dict[str, Make] = {
    "rows of pixels": lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Flatten(), nn.Linear(30, 3)),
    "a head of several pixels": lambda: nn.Sequential(nn.Conv2d(1, 3, (6, 5)), nn.Flatten()),
    "a pooled head": lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.MaxPool2d(3), nn.Flatten()),
    "no training mode": lambda: nn.Sequential(Untrained(nn.BatchNorm2d(1)), nn.Flatten(), nn.Linear(36, 3)),
    "a method": with_method,
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_a_model_of_an_unusual_form_is_trained_as_it_is(name: str) -> None:
    for way, distance in distances(UNUSUAL[name]).items():
        assert distance < LIMIT, way


@pytest.mark.slow
@pytest.mark.parametrize("number", range(DRAWN, 400))
def test_more_of_them(number: int) -> None:
    test_a_model_of_any_kind_is_trained_as_it_is(number)
