"""How to train: refused where it cannot be, and told in the results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tiny import blobs, linear, trace

import fedwave as fw
from fedwave.aggregation import Sync
from fedwave.learning.replay import Settings
from fedwave.learning.task import Task


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("precision", "float16", "precision is 'float16', must be 'float32', 'float64' or 'bfloat16'"),
        ("tolerance", -0.1, r"tolerance is -0\.1, must lie in \[0, 1\): 0 trains everything\."),
        ("tolerance", 1, r"tolerance is 1, must lie in \[0, 1\)"),
        ("tolerance", float("nan"), r"tolerance is nan, must lie in \[0, 1\)"),
        ("tolerance", "none", r"tolerance is none, must lie in \[0, 1\)"),
        ("lanes", 0, r"lanes is 0, must be a whole number >= 1\."),
        ("lanes", 2.5, r"lanes is 2\.5, must be a whole number >= 1\."),
        ("lanes", None, r"lanes is None, must be a whole number >= 1\."),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(setting: str, value: Any, sentence: str) -> None:
    with pytest.raises(fw.FedwaveError, match=sentence):
        Settings(**{setting: value})


def two_rounds(**numbers: Any) -> Any:
    return trace([[1, 1], [1, 1]], [[1, 0], [0, 1]]), Task(blobs(), linear, epochs=1, **numbers)


def test_a_setting_that_is_not_known() -> None:
    with pytest.raises(fw.FedwaveError, match=r"train has no parameter 'lane'; did you mean 'lanes'\?"):  # fmt: skip
        fw.train(*two_rounds(), lane=3)


def test_traces_of_different_length_are_not_trained_together() -> None:
    short, task = two_rounds()
    long = trace([[1, 1]] * 3, [[1, 0]] * 3)
    with pytest.raises(fw.FedwaveError, match="must have the same number of rounds"):
        fw.train({"short": short, "long": long}, task)


def test_the_curves_tell_how_they_were_made() -> None:
    made, task = two_rounds(eta=0.5)
    curves = fw.train({"mine": made}, task, tolerance=0.25, lanes=3)["mine"]
    assert curves.label == "mine"
    wanted = {
        "tolerance": 0.25,
        "lanes": 3,
        "aggregation": "lee:beta=0.001",
        "dataset": "blobs",
        "eta": 0.5,
    }
    assert wanted.items() <= curves.settings.items()
    alone = fw.train(made, task, tolerance=0.25, lanes=3)
    assert alone.label == "by hand"
    assert (alone.loss == curves.loss).all()
    assert curves.class_accuracy.shape == (2, 1, 3)
    # Sixty test images, twenty of each class.
    assert curves.class_accuracy.mean(axis=2) == pytest.approx(curves.accuracy)


def test_a_batch_that_no_device_can_fill_is_refused() -> None:
    made, task = two_rounds(shard_size=10, batch=11)
    sentence = "task batch is 11, but no device gets more than 10 samples in a round"
    with pytest.raises(fw.FedwaveError, match=sentence):
        fw.train(made, task)
    # Data that wait for their turn add up, so there it may still be filled.
    fw.train(made, replace(task, aggregation=Sync()))
