"""Curves in files: whole, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused
from summed import archive

import fedwave as fw

SHAPE = (12, 2)


@pytest.fixture
def curves() -> fw.Curves:
    rng = np.random.default_rng(0)
    loss, accuracy, on_all = rng.random((3, *SHAPE))
    weights = tuple({"w": rng.random((2, 2))} for _ in range(2))
    return fw.Curves("age", loss, accuracy, rng.random((*SHAPE, 3)), {"eta": 0.1}, on_all, weights)


def test_saved_curves_are_read(curves: fw.Curves, tmp_path: Path) -> None:
    found = fw.Curves.load(curves.save(tmp_path / "curves.npz"))
    assert (found.label, found.settings) == ("age", {"eta": 0.1})
    for name in ("loss", "accuracy", "class_accuracy", "accuracy_on_all"):
        np.testing.assert_array_equal(getattr(found, name), getattr(curves, name))
    np.testing.assert_array_equal(found.weights[1]["w"], curves.weights[1]["w"])


@pytest.mark.parametrize("name, array", [("metric", None), ("metric", np.ones((11, 2))), ("weights/1/w", None)])
def test_curves_that_do_not_fit_are_refused(name: str, array: Any, curves: fw.Curves, tmp_path: Path) -> None:
    path = curves.save(tmp_path / "curves.npz")
    with np.load(path) as file:
        changed = {k: a for k, a in {**file, name: array}.items() if a is not None}
    path.write_bytes(archive(changed))
    with refused("curves.npz", "curves"):
        fw.Curves.load(path)
