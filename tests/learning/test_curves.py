"""Spikes, targets and divergence, read off curves drawn by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedwave.learning.curves import Curves, Evaluation

NAN, INF = float("nan"), float("inf")


def curves(*, loss: Any = None, accuracy: Any = None) -> Curves:
    """One list of numbers per instance."""
    known = np.array(loss if loss is not None else accuracy, dtype=float).T
    loss = known if loss is not None else np.where(np.isnan(known), NAN, 1.0)
    accuracy = known if accuracy is not None else np.where(np.isnan(known), NAN, 0.5)
    return Curves("by hand", loss, accuracy, accuracy[:, :, None], {}, accuracy * NAN)


# --- what the evaluator found ---------------------------------------------------------------------


def found(loss: float, right: list[int], images: list[int], **of_all: Any) -> Evaluation:
    arrays = {name: np.array(counts) for name, counts in of_all.items()}
    return Evaluation(loss, np.array(right), np.array(images), **arrays)


def test_accuracies_by_hand() -> None:
    """The third class has no test images."""
    one = found(0.5, [3, 1, 0], [4, 4, 0], right_of_all=[6, 6, 1], images_of_all=[10, 10, 10])
    assert one.accuracy == 4 / 8
    np.testing.assert_array_equal(one.class_accuracy, [0.75, 0.25, NAN])
    assert one.worst_class == 0.25
    assert one.accuracy_on_all == 13 / 30
    assert np.isnan(found(0.5, [1], [1]).accuracy_on_all)


def test_curves_of_evaluations() -> None:
    """Two instances, two rounds; the second instance diverges in the second."""
    first = [found(2.0, [1, 0], [2, 2]), found(1.0, [2, 1], [2, 2], right_of_all=[3, 1], images_of_all=[4, 4])]
    second = [found(3.0, [0, 2], [2, 2]), found(NAN, [0, 0], [2, 2])]
    drawn = Curves.of("mine", [first, second], 2, {"eta": 1})
    np.testing.assert_array_equal(drawn.loss, [[2, 3], [1, NAN]])
    np.testing.assert_array_equal(drawn.accuracy, [[0.25, 0.5], [0.75, NAN]])
    np.testing.assert_array_equal(drawn.accuracy_on_all, [[NAN, NAN], [0.5, NAN]])
    np.testing.assert_array_equal(drawn.class_accuracy[:, 0], [[0.5, 0], [1, 0.5]])
    np.testing.assert_array_equal(drawn.worst_class, [[0, 0], [0.5, NAN]])
    assert list(drawn.series) == ["loss", "accuracy", "accuracy_on_all", "worst_class"]
    for name, values in drawn.series.items():
        np.testing.assert_array_equal(values, getattr(drawn, name))
    assert repr(drawn).splitlines() == [
        "Curves 'mine': 2 rounds, 2 instances, 1 diverged",
        "  mean after the last round: loss 1, accuracy 0.75, accuracy_on_all 0.5, worst_class 0.5",
    ]


def test_the_worst_class_is_one_with_test_images() -> None:
    one = [found(1.0, [3, 0, 2], [4, 0, 4])]
    np.testing.assert_array_equal(Curves.of("mine", [one], 1, {}).worst_class, [[0.5]])
    nothing = Curves.of("mine", [[]], 1, {})
    assert np.isnan(nothing.worst_class).all()
    assert "none" in repr(nothing)


# --- spikes ---------------------------------------------------------------------------------------


def test_a_spike_is_more_than_a_fifth_above_the_median_of_ten_rounds() -> None:
    calm = [1.0] * 10
    found = curves(loss=[[*calm, 1.2], [*calm, 1.2001], [*calm, 5.0], [*calm, 0.1]]).spikes()
    assert found.tolist() == [0, 1, 1, 0]


def test_the_median_of_ten_is_between_the_fifth_and_the_sixth() -> None:
    before = [10.0, 2.0, 1.0, 1.0, 3.0, 1.0, 10.0, 2.0, 3.0, 10.0]  # sorted 1 1 1 2 2 | 3 3 10 10 10: 2.5
    assert curves(loss=[[*before, 2.99], [*before, 3.01]]).spikes().tolist() == [0, 1]


def test_only_the_ten_rounds_before_count() -> None:
    # The eleventh round back is far above; the round itself is not among the ten.
    assert curves(loss=[[100.0] * 10 + [1.0] * 10 + [1.5]]).spikes().tolist() == [1]
    assert curves(loss=[[1.0] * 10 + [100.0] * 5 + [1.5] * 2]).spikes().tolist() == [5]


def test_no_spikes_before_the_eleventh_round() -> None:
    """No round has ten before it: not measured, which is not the same as none."""
    assert np.isnan(curves(loss=[[1.0] * 5 + [50.0] * 5]).spikes()).all()
    assert np.isnan(curves(loss=[[1.0, 50.0]]).spikes()).all()
    assert curves(loss=[[1.0] * 11]).spikes().tolist() == [0]


def test_each_instance_is_counted_alone_and_repeatedly() -> None:
    two = [1.0] * 10 + [2.0, 1.0, 2.0]
    assert curves(loss=[two, [1.0] * 13, two[::-1]]).spikes().tolist() == [2, 0, 0]


def test_spikes_of_an_instance_that_diverged_are_not_measured() -> None:
    diverged = [1.0] * 10 + [3.0] + [NAN] * 12
    early = [1.0] * 3 + [NAN] * 20
    found = curves(loss=[diverged, early, [NAN] * 23, [1.0] * 23]).spikes()
    assert np.array_equal(found, [NAN, NAN, NAN, 0.0], equal_nan=True)


# --- divergence -----------------------------------------------------------------------------------


def test_the_round_of_divergence() -> None:
    found = curves(loss=[[1, 1, 1], [1, 1, NAN], [1, NAN, NAN], [NAN] * 3, [1, INF, NAN]]).diverged
    assert found.tolist() == [0, 3, 2, 1, 2]


# --- targets --------------------------------------------------------------------------------------


def test_reaches_looks_at_the_last_round_and_wants_more_than_the_target() -> None:
    drawn = curves(accuracy=[[0.1, 0.9], [0.9, 0.1], [0.5, 0.7], [0.9, NAN]])
    assert drawn.reaches(0.7).tolist() == [True, False, False, False]
    assert drawn.reaches(0.0).tolist() == [True, True, True, False]


def test_rounds_to_is_the_first_of_three_rounds_in_a_row() -> None:
    drawn = curves(
        accuracy=[
            [0.8, 0.8, 0.8, 0.1, 0.1, 0.1],  # falls back later: it was there
            [0.1, 0.8, 0.8, 0.1, 0.8, 0.8],  # two in a row, twice
            [0.8, 0.8, 0.1, 0.8, 0.8, 0.8],
            [0.1, 0.8, 0.8, 0.8, 0.8, 0.8],
            [0.7, 0.7, 0.7, 0.7, 0.7, 0.7],  # equal is not above
            [0.1, 0.1, 0.1, 0.1, 0.8, 0.8],
        ]
    )
    assert drawn.rounds_to(0.7).tolist() == [1, INF, 4, 2, INF, INF]
    assert drawn.rounds_to(0.7, in_a_row=1).tolist() == [1, 2, 1, 2, INF, 5]
    assert drawn.rounds_to(0.7, in_a_row=2).tolist() == [1, 2, 1, 2, INF, 5]


def test_rounds_to_with_nan() -> None:
    drawn = curves(accuracy=[[0.8, 0.8, NAN, NAN], [0.8, 0.8, 0.8, NAN], [NAN] * 4])
    assert drawn.rounds_to(0.7).tolist() == [INF, 1, INF]
    assert drawn.rounds_to(0.0).tolist() == [INF, 1, INF]


def test_rounds_to_with_fewer_rounds_than_are_wanted() -> None:
    assert curves(accuracy=[[0.8, 0.8]]).rounds_to(0.7).tolist() == [INF]


@given(st.lists(st.sampled_from([0.6, 0.8, NAN]), min_size=1, max_size=14), st.integers(1, 4))
def test_rounds_to_against_a_plain_search(row: list[float], in_a_row: int) -> None:
    expected = INF
    for t in range(len(row)):
        window = row[t : t + in_a_row]
        if len(window) == in_a_row and all(x > 0.7 for x in window):
            expected = t + 1
            break
    assert curves(accuracy=[row]).rounds_to(0.7, in_a_row).tolist() == [expected]
