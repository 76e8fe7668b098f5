"""Many models evaluated at once, as on a GPU: the same as one after the other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import chain, images, with_batch_norm
from torch import Tensor, nn

from fedwave.learning import evaluation
from fedwave.learning.backends.base import Precision
from fedwave.learning.backends.torch import TorchBackend
from fedwave.learning.evaluation import EvaluationSizes, Evaluator
from fedwave.learning.model_rows import Layout, ModelRows
from fedwave.learning.task import Task


class Arrived:
    """In place of an event of a GPU; it must be waited for before anything is read."""

    waited = False

    def record(self) -> None:
        pass

    def synchronize(self) -> None:
        Arrived.waited = True


@pytest.mark.parametrize("make", [chain, with_batch_norm])
@pytest.mark.parametrize("full", [False, True])
def test_many_at_once_are_evaluated_as_one_by_one(
    make: type[nn.Module], full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(images((1, 3, 4)), make, shard_size=4, batch=4)
    made = [task.new_model(3, i).double() for i in range(5)]
    layout = Layout(made[0])
    models = ModelRows.of(made, layout)
    evaluator = Evaluator(task, EvaluationSizes(50, 30, 2), torch.device("cpu"), torch.float64)
    backend = TorchBackend(task, Precision(torch.device("cpu"), torch.float64))
    expected = evaluator.evaluate_many(backend, models, full=full)()
    evaluator._on_gpu = True
    monkeypatch.setattr(torch.cuda, "Event", Arrived)
    monkeypatch.setattr(evaluation, "_copy_to_cpu", Tensor.clone)
    Arrived.waited = False
    found = evaluator.evaluate_many(backend, models, full=full)
    assert not Arrived.waited
    (loss, *accuracies), (expected_loss, *expected_accuracies) = found(), expected
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-12)
    for one, other in zip(accuracies, expected_accuracies, strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.isfinite(expected.metric_on_all).all() == full
    assert Arrived.waited
