"""Where numba is missing, PyTorch trains at a fraction of the speed: a run says so once, with what to install."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import fedwave as fw

pytest.importorskip("numba")

PIP = 'pip install "fedwave[learn]"'
SIZES = fw.EvaluationSizes(20, 20)
ASKED: dict[str, Any] = {
    "network": {"kind": "random", "devices": 4, "slots": 2},
    "schedulers": ["age", "update-aware", "random"],  # one of them is trained in lock step
    "rounds": 2,
    "instances": 2,
    "task": {"dataset": "synthetic:train=200,test=100", "model": "logistic", "epochs": 1},
    "training": {"loss_images": 20, "test_images": 20, "device": "cpu"},
}


def said(action: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        action()
    return [str(one.message) for one in found if "numba" in str(one.message)]


def trained(model: str = "logistic", **settings: Any) -> Callable[[], object]:
    trace = fw.simulate(fw.random_network(4, slots=2), "age", 2, 2)
    task = fw.task("synthetic:train=200,test=100", model=model, epochs=1)
    return lambda: fw.train(trace, task, sizes=SIZES, **settings)


@pytest.fixture
def no_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)


def in_lock_step() -> object:
    task = fw.task("synthetic:train=200,test=100", model="logistic", epochs=1)
    return fw.train_in_lock_step(fw.random_network(4, slots=2), "age", task, 2, 2, sizes=SIZES)


def test_training_from_python_warns_once(no_numba: None, no_figures: None, tmp_path: Path) -> None:
    for action in (trained(), in_lock_step, lambda: fw.run(ASKED, tmp_path / "out", workers=1)):
        (text,) = said(action)
        assert PIP in text
    assert said(lambda: fw.run(ASKED, tmp_path / "out", workers=1)) == []  # nothing was left to train


def test_nothing_is_said_where_numba_would_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    fw.register("odd", family="model")(lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.Softplus()))
    assert said(trained()) == []
    monkeypatch.setitem(sys.modules, "numba", None)
    assert said(trained("odd")) == []
    assert said(trained(precision="bfloat16")) == []
