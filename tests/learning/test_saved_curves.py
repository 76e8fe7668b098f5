"""Curves in files: whole, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
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


@pytest.mark.parametrize("what", ["edited", "a curve missing", "a curve too short", "weights of one instance"])
def test_curves_that_do_not_fit_are_refused(what: str, curves: fw.Curves, tmp_path: Path) -> None:
    path = curves.save(tmp_path / "curves.npz")
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    if what == "edited":
        np.savez(path, **(arrays | {"loss": arrays["loss"] + 1}))
    elif what == "a curve missing":
        path.write_bytes(archive({name: array for name, array in arrays.items() if name != "accuracy"}))
    elif what == "a curve too short":
        path.write_bytes(archive(arrays | {"accuracy": arrays["accuracy"][:-1]}))
    else:
        path.write_bytes(archive({name: array for name, array in arrays.items() if name != "weights/1/w"}))
    with pytest.raises(fw.FedwaveError, match="is not a file of curves or is damaged"):
        fw.Curves.load(path)
