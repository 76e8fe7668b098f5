"""A run whose loss is no longer a number is stopped alone and marked; the others do not notice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_files import load, save
from states import states
from tiny import blobs
from torch import Tensor, nn

import fedwave as fw
from fedwave.aggregation import Lee
from fedwave.learning.curves import Curves
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.replay import Replay
from fedwave.learning.schedule import labelled_runs
from fedwave.learning.settings import Settings
from fedwave.learning.task import Task

ROUNDS, SEED = 8, 2
MIXED = [0, 4, 1, 7, 2]  # instances
STEEP, CALM = [4, 7], [0, 1, 2]  # those of them with large and with small first weights


class Cubic(nn.Module):
    """Linear in the pixels, cubic in the weights: SGD converges from small first weights and explodes from large."""

    def __init__(self) -> None:
        super().__init__()
        steep = bool(torch.rand(()) < 0.4)
        self.weight = nn.Parameter(torch.randn(3, 6) * (10.0 if steep else 0.3))

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ (self.weight**3).T


def task(epochs: int) -> Task:
    return Task(blobs(), Cubic, shard_size=4, batch=4, epochs=epochs, eta=0.12, aggregation=Lee(0.3))


def replay(instances: list[int], epochs: int = 1, **settings: Any) -> Replay:
    network = fw.random_network(3, 2, seed=3, rate=1.5, miss_probability=0.2)
    traces = {name: fw.simulate(network, name, ROUNDS, instances, seed=SEED) for name in ("age", "random")}
    settings = {"precision": "float64", "tolerance": 0.0} | settings
    return Replay(labelled_runs(traces), task(epochs), Settings(**settings), EvaluationSizes(60, 60))


def trained(instances: list[int], epochs: int = 1, **settings: Any) -> Replay:
    out = replay(instances, epochs, **settings)
    for _ in range(ROUNDS):
        out.advance()
    return out


def columns(curves: Curves, wanted: list[int]) -> list[np.ndarray]:
    """Loss, accuracy and accuracy per class of some of the mixed instances."""
    rows = [MIXED.index(i) for i in wanted]
    return [array[:, rows] for array in (curves.loss, curves.accuracy, curves.class_accuracy)]


def test_only_the_steep_ones_are_marked() -> None:
    for curves in trained(MIXED).curves():
        for instance, round_ in zip(MIXED, curves.diverged, strict=True):
            assert (round_ > 1) == (instance in STEEP)  # not in the first round: it learns first
        for array in columns(curves, CALM):
            assert np.isfinite(array).all()
        for instance in STEEP:
            round_ = int(curves.diverged[MIXED.index(instance)])
            for array in columns(curves, [instance]):
                assert np.isfinite(array[: round_ - 1]).all()
                assert np.isnan(array[round_ - 1 :]).all()


@pytest.mark.parametrize("lanes", [64, 2])
@pytest.mark.parametrize("epochs", [1, 8])
def test_the_others_are_what_they_are_without_it(epochs: int, lanes: int) -> None:
    together, alone = (trained(which, epochs, lanes=lanes) for which in (MIXED, CALM))
    if epochs == 8:  # so long that numbers overflow in the lanes, beside those of the others
        assert not all(state.w["weight"].isfinite().all() for state in states(together))
    for curves, expected in zip(together.curves(), alone.curves(), strict=True):
        assert curves.label == expected.label
        loss, accuracy, by_class = columns(curves, CALM)
        np.testing.assert_allclose(loss, expected.loss, rtol=1e-6)  # losses are kept in float32
        np.testing.assert_array_equal(accuracy, expected.accuracy)
        np.testing.assert_array_equal(by_class, expected.class_accuracy)
    calm = [r for r, run in enumerate(together.runs) if run.instance in CALM]
    for r, state in zip(calm, states(alone), strict=True):
        assert not states(together)[r].diverged
        for name, p in state.w.items():
            torch.testing.assert_close(states(together)[r].w[name], p, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stop", [None, 3])
@pytest.mark.parametrize("epochs", [1, 8])
def test_evaluation_beside_the_next_round_changes_nothing(epochs: int, stop: int | None, tmp_path: Path) -> None:
    """As on a GPU: whether a run has diverged is known only when its next training has begun."""
    expected = trained(MIXED, epochs)
    late = replay(MIXED, epochs)
    late._overlaps = True
    for t in range(ROUNDS):
        if t == stop:  # a checkpoint waits for the evaluation
            path = save(late, tmp_path / "late.npz")
            late = replay(MIXED, epochs)
            late._overlaps = True
            load(late, path)
        late.advance()
        evaluated = np.isfinite(late.results.loss).any(axis=1).sum()
        assert evaluated == (ROUNDS if t == ROUNDS - 1 else t)
    for found, wanted in zip(late.curves(), expected.curves(), strict=True):
        np.testing.assert_array_equal(found.diverged, wanted.diverged)
        for name in ("loss", "accuracy", "class_accuracy"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    for state, other in zip(states(late), states(expected), strict=True):
        for k, p in state.w.items():
            assert torch.equal(p.nan_to_num(), other.w[k].nan_to_num())


def test_a_start_that_is_no_number_is_marked_in_the_first_round() -> None:
    class Lost(Cubic):
        def __init__(self) -> None:
            super().__init__()
            nn.init.constant_(self.weight, float("nan"))

    trace = fw.simulate(fw.random_network(3, 2, seed=3, rate=1.0), "random", 3, 1)
    curves = fw.train(trace, Task(blobs(), Lost, shard_size=4, batch=4, epochs=1))
    assert curves.diverged.tolist() == [1]
    assert curves.loss.shape == (3, 1)
