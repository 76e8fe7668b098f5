"""What a successor adds to training, each in one place: a layer, a backend."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import chain, images
from torch import Tensor, nn

import fedwave as fw
from fedwave.learning import chain_spec
from fedwave.learning.backends import choose as choosing
from fedwave.learning.backends.base import Backend, Precision
from fedwave.learning.backends.cpu.chain import NumbaBackend
from fedwave.learning.backends.gpu.blocks import ChainBlocks
from fedwave.learning.backends.torch import TorchBackend
from fedwave.learning.model_rows import ModelRows
from fedwave.learning.sampling import Batches
from fedwave.learning.task import Task
from fedwave.types import IntArray

EXACT = Precision(torch.device("cpu"), torch.float64)


def with_elu() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 2), nn.ELU(), nn.Flatten(), nn.Linear(12, 3))


def trained(task: Task) -> fw.Curves:
    trace = fw.simulate(fw.random_network(3, 1, rate=2.0), "age", rounds=3, instances=1)
    return fw.train(trace, task, precision="float64")


def test_a_layer_that_no_backend_has_is_computed_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(images((1, 3, 4)), with_elu, batch=4, eta=0.05)
    before = trained(task)
    monkeypatch.setitem(chain_spec._KNOWN, nn.ELU, lambda layer: True)
    spec = chain_spec.ChainSpec.of(with_elu(), (1, 3, 4))
    assert spec is not None
    assert NumbaBackend.of(task, EXACT) is None
    assert ChainBlocks.of(spec) is None
    assert TorchBackend(task, EXACT).method == "vectorised"
    np.testing.assert_array_equal(trained(task).loss, before.loss)


class Plain(Backend):
    """A backend in a few lines: each model alone, by the methods of torch's."""

    needs_keys = False
    calls = 0

    @classmethod
    def of(cls, task: Task, precision: Precision) -> Plain:
        return cls(TorchBackend(task, precision, "one by one"))

    def __init__(self, torchs: TorchBackend) -> None:
        self._torchs = torchs

    def train(self, rows: ModelRows, batches: Batches, keys: IntArray) -> ModelRows:
        Plain.calls += 1
        return self._torchs.train(rows, batches, keys)

    def logits(self, rows: ModelRows, images: Tensor) -> Tensor:
        return self._torchs.logits(rows, images)


def test_a_backend_is_added_where_it_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(images((1, 3, 4)), chain, batch=4, eta=0.05)
    before = trained(task)
    monkeypatch.setattr(choosing, "NumbaBackend", Plain)
    np.testing.assert_allclose(trained(task).loss, before.loss, rtol=1e-12)
    assert Plain.calls == 3
