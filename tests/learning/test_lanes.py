"""What backends do on a GPU to keep the number of shapes small, tried on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_models import chain, deep, images, with_batch_norm
from torch import nn

from fedwave.learning.backends.base import Precision
from fedwave.learning.backends.gpu.backends import WideBackend
from fedwave.learning.backends.gradients import Gradients
from fedwave.learning.backends.torch import TorchBackend
from fedwave.learning.model_rows import Layout, ModelRows
from fedwave.learning.sampling import Batches
from fedwave.learning.task import Task

CPU = torch.device("cpu")
EXACT = Precision(CPU, torch.float64)


def copies(task: Task, count: int) -> ModelRows:
    """So many times one new model."""
    net = task.new_model(0, 0).double()
    return ModelRows.of([net], Layout(net)).padded(count)


def steps(*sizes: list[int]) -> Batches:
    """Random samples for lanes with steps of these sizes."""
    cut = np.full((len(sizes), len(sizes[0]), 4), -1)
    rng = np.random.default_rng(0)
    for lane, mine in enumerate(sizes):
        for step, size in enumerate(mine):
            cut[lane, step, :size] = rng.integers(0, 200, size)
    return Batches(cut, np.count_nonzero(cut >= 0, axis=2))


def assert_close(one: ModelRows, other: ModelRows) -> None:
    for a, b in ((one.w, other.w), *((one.rest[k], other.rest[k]) for k in one.rest)):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("model", [chain, with_batch_norm])
@pytest.mark.parametrize("multiple", [2, 3, 16])
def test_idle_lanes_change_nothing(model: object, multiple: int) -> None:
    task = Task(images((1, 3, 4)), model, batch=4, eta=0.05)  # type: ignore[arg-type]
    work = copies(task, 5), steps([4, 4, 4], [4, 3], [4, 4], [4], [3]), np.zeros(5, np.int64)
    plain, padded = (TorchBackend(task, EXACT) for _ in range(2))
    padded._multiple = multiple
    assert_close(plain.train(*work), padded.train(*work))


def test_rows_that_have_room_for_all_blocks_never_move() -> None:
    """On a GPU all steps are recorded anew when they do: the old recordings and the new ones need memory."""
    task = Task(images((3, 8, 8)), deep, batch=4, eta=0.05)
    roomy, growing = (WideBackend.of(task, EXACT, 4, room) for room in (5, 0))
    assert roomy is not None
    assert growing is not None
    rows = []
    for count in (2, 5, 3):
        work = copies(task, count), steps(*[[4, 4, 4]] * count), np.zeros(count, np.int64)
        found, expected = roomy.train(*work), growing.train(*work)
        assert torch.equal(found.w, expected.w)
        assert not torch.equal(found.w, work[0].w)
        rows.append([len(w.untyped_storage()) // w[0].nbytes for w in (found.w, expected.w)])
    assert rows == [[5, 2], [5, 5], [5, 5]]


def test_channels_last_changes_nothing_but_the_layout() -> None:
    task = Task(images((1, 3, 4)), chain, batch=4, eta=0.05)
    work = copies(task, 3), steps([4, 4], [4, 4], [4, 4]), np.zeros(3, np.int64)
    plain, last = (TorchBackend(task, EXACT) for _ in range(2))
    last._gradients = Gradients(task, EXACT, channels_last=True)
    assert_close(plain.train(*work), last.train(*work))


class Wrong(torch.autograd.Function):
    """The square, with a mistaken rule for vectorisation."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * gradient

    @staticmethod
    def vmap(info: Any, dims: Any, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return Wrong.apply(x) + 0.1, dims[0]  # type: ignore[no-untyped-call]


class Square(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Wrong.apply(x)  # type: ignore[no-untyped-call, no-any-return]


def test_a_model_that_torch_vectorises_wrongly_is_trained_one_by_one() -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(12, 4), Square(), nn.Linear(4, 3))

    task = Task(images((1, 3, 4)), model, batch=4, eta=0.05)
    assert TorchBackend(task, Precision(CPU, torch.float32)).method == "one by one"
    plain = Task(images((1, 3, 4)), lambda: nn.Sequential(*model()[:2], nn.ELU(), nn.Linear(4, 3)))  # type: ignore[index]
    assert TorchBackend(plain, Precision(CPU, torch.float32)).method == "vectorised"
