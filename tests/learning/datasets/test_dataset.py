"""The arrays of a dataset: one's own, and those made in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedwave.errors import FedwaveError
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.datasets.synthetic import synthetic


def arrays(**changes: Any) -> dict[str, Any]:
    images = np.zeros((4, 1, 3, 3))
    good = {
        "train_inputs": images,
        "train_targets": np.array([0, 1, 2, 0]),
        "test_inputs": images[:2],
        "test_targets": np.array([1, 4]),
    }
    return good | changes


def test_a_dataset_of_ones_own_arrays() -> None:
    mine = Dataset("mine", **arrays(train_targets=np.array([0, 1, 2, 0], np.uint8)))
    assert mine.classes == 5
    assert {mine.train_inputs.dtype, mine.test_inputs.dtype} == {np.dtype(np.float32)}
    assert {mine.train_targets.dtype, mine.test_targets.dtype} == {np.dtype(np.int64)}
    assert mine != Dataset("mine", **arrays())  # compared by identity: arrays have no one truth value


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"train_inputs": np.zeros((4, 3, 0))}, r"train_inputs has shape \(4, 3, 0\)"),
        ({"train_inputs": np.zeros((4, 1, 3, 3), int)}, "int64 of shape .* but test inputs float32"),
        ({"owner": [1, 2, 3]}, r"owner is int64 of shape \(3,\)"),
        ({"owner": [1.0, 2.0, 3.0, np.nan]}, "owner is float64"),
        ({"train_inputs": np.full((4, 1, 3, 3), np.nan)}, "train_inputs holds NaN or infinite"),
        *(
            ({"test_inputs": [[[[0.0, odd], [1.0, 2.0]]]] * 2}, "test_inputs holds NaN or infinite")
            for odd in (np.nan, np.inf, -np.inf)
        ),
        ({"train_inputs": np.full((4, 1, 3, 3), "a")}, "type <U1, must be numbers"),
        ({"train_inputs": [[1.0], [1.0, 2.0]]}, "must be an array of numbers, all rows of one"),
        ({"test_inputs": np.zeros((2, 3, 3, 3))}, r"\(1, 3, 3\) but test inputs float32 of shape \(3, 3, 3\)"),
        ({"train_targets": [0, 1, 2]}, "holds 4 samples but train_targets 3 targets"),
        ({"train_targets": np.eye(4)}, r"float32 of shape \(4,\) but test targets int64 of shape \(\)"),
        ({"test_targets": [0, -1]}, "test_targets holds -1, must be whole numbers from 0 to 99999"),
        ({"test_targets": [0, 0.5]}, "int64 .* but test targets float32"),
        ({"test_targets": [0, 2_000_000_000]}, "test_targets holds 2000000000, must be whole numbers"),
        ({"test_targets": ["cat", "dog"]}, "must be numbers"),
    ],
)
def test_arrays_that_do_not_fit(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FedwaveError, match=f"^mine: .*{sentence}"):
        Dataset("mine", **arrays(**changes))


def test_synthetic_is_seeded_and_grows_at_its_end() -> None:
    small, large = synthetic(40, 10, seed=3), synthetic(90, 30, seed=3)
    assert small.train_inputs.shape == (40, 1, 28, 28)
    np.testing.assert_array_equal(small.train_inputs, large.train_inputs[:40])
    np.testing.assert_array_equal(small.test_targets, large.test_targets[:10])
    assert not np.array_equal(small.train_inputs, synthetic(40, 10, seed=4).train_inputs)
    assert not np.array_equal(small.train_inputs[:10], small.test_inputs)
    with pytest.raises(FedwaveError, match="synthetic test is 0, must be a whole number >= 1"):
        synthetic(test=0)


def test_synthetic_is_learnable_but_not_trivial() -> None:
    data = synthetic()
    assert data.classes == 10
    assert abs(float(data.train_inputs.std()) - 1) < 0.2
    train, test = data.train_inputs.reshape(6000, -1), data.test_inputs.reshape(2000, -1)
    # Least squares on one-hot labels: a linear model in one line.
    gram = train.T @ train + 300 * np.eye(784, dtype=np.float32)
    weights = np.linalg.solve(gram, train.T @ np.eye(10, dtype=np.float32)[data.train_targets])
    right = ((test @ weights).argmax(axis=1) == data.test_targets).mean()
    assert 0.6 < right < 0.85  # chance is 0.1; the convolutional network reaches 0.95
