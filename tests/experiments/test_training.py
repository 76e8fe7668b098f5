"""Instances spread over processes train to the same curves as in one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from torch import nn

import fedwave as fw
from fedwave.experiments.training import Work, train_work
from fedwave.learning.data import synthetic
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.replay import Settings


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def test_two_workers_give_what_one_gives(tmp_path: Path) -> None:
    work = Work(
        fw.random_network(4, 2, seed=1),
        {name: fw.scheduler(name) for name in ("alsa-pi", "w-max")},
        fw.task(dataset=synthetic(200, 50), model=linear, epochs=1),
        rounds=4,
        instances=(0, 1, 2),
        seed=3,
        settings=Settings(precision="float64"),
        sizes=EvaluationSizes(50, 50, full_every=2),
        folder=tmp_path,
    )
    told: list[int] = []
    alone, together = train_work(work, 1, told.append), train_work(work, 2, lambda played: None)
    assert sum(told) == 4
    assert list(alone) == list(together) == ["alsa-pi", "w-max"]
    for label in alone:
        # Other blocks of lanes add up in another order: equal to rounding, not to the bit.
        np.testing.assert_allclose(alone[label].loss, together[label].loss, rtol=1e-6)
        for name in ("accuracy", "class_accuracy", "full_accuracy"):
            np.testing.assert_array_equal(
                getattr(alone[label], name), getattr(together[label], name)
            )
    assert list(tmp_path.iterdir()) == []
