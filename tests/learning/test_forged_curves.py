"""Saved curves of a stranger: refused, or good for everything that curves are good for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedwave as fw

SHAPE = (12, 2)


def curves() -> fw.Curves:
    rng = np.random.default_rng(0)
    loss, accuracy, on_all = rng.random((3, *SHAPE))
    weights = tuple({"w": rng.random((2, 2))} for _ in range(2))
    return fw.Curves("age", loss, accuracy, rng.random((*SHAPE, 3)), {"eta": 0.1}, on_all, weights)


def members(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def used(found: fw.Curves, path: Path) -> None:
    """Everything that can be asked of curves."""
    import matplotlib.pyplot as plt

    repr(found)
    found.plot()
    plt.close("all")
    found.spikes(), found.reaches(0.5), found.rounds_to(0.5), found.diverged, found.series
    fw.Curves.load(found.save(path))


STRANGE: list[Any] = [None, 3, [], {}, "x", "\ud800", [[1]]]


def forged(rng: np.random.Generator, arrays: dict[str, Any]) -> str:
    names = sorted(set(arrays) - {"about"})
    name = names[int(rng.integers(len(names)))]
    array, what = arrays[name], int(rng.integers(9))
    about = json.loads(str(arrays["about"]))
    key = ["label", "settings"][int(rng.integers(2))]
    if what == 0:
        del arrays[name]
    elif what == 1:
        arrays[name] = array[None]
    elif what == 2:
        arrays[name] = array[:0]
    elif what == 3:
        arrays[name] = np.zeros(array.shape, ["<c16", "<U3", "<M8[s]", "i4,f4"][int(rng.integers(4))])
    elif what == 4:
        arrays[name] = array + 5
    elif what == 5:
        arrays[["more", "weights/x/w", "weights/7/w", "weights/0"][int(rng.integers(4))]] = array
    elif what == 6:
        about[key] = STRANGE[int(rng.integers(len(STRANGE)))]
    elif what == 7:
        del about[key]
    else:
        arrays[name] = array.T
    arrays["about"] = np.array(json.dumps(about))
    return f"{what} {name} {key}"


def check(count: int, seed: int, folder: Path) -> None:
    rng, path = np.random.default_rng(seed), folder / "curves.npz"
    refused = 0
    for _ in range(count):
        arrays = members(curves().save(path))
        what = forged(rng, arrays)
        np.savez(path, **arrays)
        try:
            found = fw.Curves.load(path)
        except fw.FedwaveError:
            refused += 1
            continue
        try:
            used(found, folder / "again.npz")
        except Exception as error:
            pytest.fail(f"{what}: {error!r}")
    assert refused > count / 2


def test_forged_curves(tmp_path: Path) -> None:
    check(40, 0, tmp_path)


@pytest.mark.slow
def test_many_forged_curves(tmp_path: Path) -> None:
    check(1000, 1, tmp_path)


def test_curves_that_are_whole_are_read(tmp_path: Path) -> None:
    found = fw.Curves.load(curves().save(tmp_path / "curves.npz"))
    np.testing.assert_array_equal(found.loss, curves().loss)
    np.testing.assert_array_equal(found.weights[1]["w"], curves().weights[1]["w"])
    used(found, tmp_path / "again.npz")
