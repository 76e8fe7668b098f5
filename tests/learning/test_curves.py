"""Spikes, targets and divergence, read off curves drawn by hand; curves in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from summed import archive

from fedwave.learning.curves import Curves

NAN, INF = float("nan"), float("inf")


def curves(*, loss: Any = None, accuracy: Any = None) -> Curves:
    """One list of numbers per instance."""
    known = np.array(loss if loss is not None else accuracy, dtype=float).T
    loss = known if loss is not None else np.where(np.isnan(known), NAN, 1.0)
    accuracy = known if accuracy is not None else np.where(np.isnan(known), NAN, 0.5)
    return Curves("by hand", loss, accuracy, accuracy[:, :, None], {}, accuracy * NAN)


# --- what they show ------------------------------------------------------------------------------


def test_what_curves_tell_of_two_classes() -> None:
    """Two instances, two rounds; the second instance diverges in the second, and a third class has no images."""
    by_class = np.array([[[0.5, 0, NAN], [0, 1, NAN]], [[1, 0.5, NAN], [NAN, NAN, NAN]]])
    shown = Curves(
        "mine",
        np.array([[2, 3], [1, NAN]]),
        by_class[:, :, :2].mean(axis=2),
        by_class,
        {},
        np.array([[NAN, NAN], [0.5, NAN]]),
    )
    np.testing.assert_array_equal(shown.worst_class, [[0, 0], [0.5, NAN]])
    assert list(shown.series) == ["loss", "accuracy", "accuracy_on_all", "worst_class"]
    for name, values in shown.series.items():
        np.testing.assert_array_equal(values, getattr(shown, name))
    assert repr(shown).splitlines() == [
        "Curves 'mine': 2 rounds, 2 instances, 1 diverged",
        "  mean after the last round: loss 1, accuracy 0.75, accuracy_on_all 0.5, worst_class 0.5",
    ]


# --- spikes ---------------------------------------------------------------------------------------


CALM = [1.0] * 10
MEDIAN = [10.0, 2.0, 1.0, 1.0, 3.0, 1.0, 10.0, 2.0, 3.0, 10.0]  # sorted 1 1 1 2 2 | 3 3 10 10 10: 2.5


@pytest.mark.parametrize(
    ("loss", "spikes"),
    [
        ([*CALM, 1.2], 0),  # a fifth above the median of the ten rounds before, and more
        ([*CALM, 1.2001], 1),
        ([*CALM, 0.1], 0),
        ([*MEDIAN, 2.99], 0),
        ([*MEDIAN, 3.01], 1),
        ([100.0] * 10 + CALM + [1.5], 1),  # the eleventh round back does not count
        (CALM + [100.0] * 5 + [1.5] * 2, 5),
        ([*CALM, 2.0, 1.0, 2.0], 2),
        ([1.0] * 5 + [50.0] * 5, NAN),  # no round has ten before it: not measured
        ([*CALM, 3.0, *[NAN] * 12], NAN),  # diverged
        ([NAN] * 23, NAN),
    ],
)
def test_spikes(loss: list[float], spikes: float) -> None:
    np.testing.assert_array_equal(curves(loss=[loss]).spikes(), [spikes])


# --- divergence -----------------------------------------------------------------------------------


def test_the_round_of_divergence() -> None:
    found = curves(loss=[[1, 1, 1], [1, 1, NAN], [1, NAN, NAN], [NAN] * 3, [1, INF, NAN]]).diverged
    assert found.tolist() == [0, 3, 2, 1, 2]


# --- targets --------------------------------------------------------------------------------------


def test_reaches_looks_at_the_last_round_and_wants_more_than_the_target() -> None:
    drawn = curves(accuracy=[[0.1, 0.9], [0.9, 0.1], [0.5, 0.7], [0.9, NAN]])
    assert drawn.reaches(0.7).tolist() == [True, False, False, False]
    assert drawn.reaches(0.0).tolist() == [True, True, True, False]


@given(st.lists(st.sampled_from([0.6, 0.8, NAN]), min_size=1, max_size=14), st.integers(1, 4))
def test_rounds_to_against_a_plain_search(row: list[float], in_a_row: int) -> None:
    expected = INF
    for t in range(len(row)):
        window = row[t : t + in_a_row]
        if len(window) == in_a_row and all(x > 0.7 for x in window):
            expected = t + 1
            break
    assert curves(accuracy=[row]).rounds_to(0.7, in_a_row).tolist() == [expected]


# --- in files ---------------------------------------------------------------------------------------


@pytest.fixture
def saved() -> Curves:
    rng = np.random.default_rng(0)
    loss, accuracy, on_all = rng.random((3, 12, 2))
    weights = tuple({"w": rng.random((2, 2))} for _ in range(2))
    return Curves("age", loss, accuracy, rng.random((12, 2, 3)), {"eta": 0.1}, on_all, weights)


def test_saved_curves_are_read(saved: Curves, tmp_path: Path) -> None:
    found = Curves.load(saved.save(tmp_path / "curves.npz"))
    assert (found.label, found.settings) == ("age", {"eta": 0.1})
    for name in ("loss", "accuracy", "class_accuracy", "accuracy_on_all"):
        np.testing.assert_array_equal(getattr(found, name), getattr(saved, name))
    np.testing.assert_array_equal(found.weights[1]["w"], saved.weights[1]["w"])


@pytest.mark.parametrize("name, array", [("metric", None), ("metric", np.ones((11, 2))), ("weights/1/w", None)])
def test_curves_that_do_not_fit_are_refused(name: str, array: Any, saved: Curves, tmp_path: Path) -> None:
    path = saved.save(tmp_path / "curves.npz")
    with np.load(path) as file:
        changed = {k: a for k, a in {**file, name: array}.items() if a is not None}
    path.write_bytes(archive(changed))
    with refused("curves.npz", "curves"):
        Curves.load(path)
