"""Where numba is missing, PyTorch trains at a fraction of the speed: a warning names what to install."""

from __future__ import annotations

import sys
import warnings

import pytest
from torch import nn

import fedwave as fw

pytest.importorskip("numba")


def warned(model: str = "logistic", **settings: str) -> list[str]:
    """Warnings about numba in a training."""
    trace = fw.simulate(fw.random_network(4, slots=2), "age", 2, 2)
    task = fw.task("synthetic:train=200,test=100", model=model, epochs=1)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fw.train(trace, task, sizes=fw.EvaluationSizes(20, 20), **settings)
    return [str(one.message) for one in found if "numba" in str(one.message)]


def test_training_without_numba_warns_where_numba_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    fw.register("odd", family="model")(lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.Softplus()))
    assert warned() == []
    monkeypatch.setitem(sys.modules, "numba", None)
    (text,) = warned()
    assert 'pip install "fedwave[learn]"' in text
    assert warned("odd") == warned(precision="bfloat16") == []
