"""The contract of a dataset: a function that returns the same images and labels each time."""

from __future__ import annotations

import numpy as np

from fedwave.checks.shared import Family, Trial
from fedwave.errors import FedwaveError
from fedwave.learning.datasets.dataset import Dataset


def _try(trial: Trial) -> None:
    """A Dataset is tried as a function that returns it."""
    if not isinstance(trial.part, Dataset) and not callable(trial.part):
        raise FedwaveError("it is not a function: give one that returns a Dataset.")
    made = trial.part if isinstance(trial.part, Dataset) else trial.part()
    if not isinstance(made, Dataset):
        raise FedwaveError(
            f"it returns a {type(made).__name__}, must return a Dataset: "
            "Dataset(name, train_inputs, train_targets, test_inputs, test_targets)."
        )
    for name in ("name", "train_inputs", "train_targets", "test_inputs", "test_targets", "owner", "classes"):
        trial.kept.append((name, getattr(made, name), None))  # a Dataset has checked its arrays


def _labels(trial: Trial) -> bool | None:
    found = {name: value for name, value, _ in trial.kept}
    if not found["classes"]:
        return False  # of numbers, for regression
    seen = np.bincount(found["train_targets"].ravel(), minlength=found["classes"])
    if not seen.all():
        raise FedwaveError(
            f"no training image has the label {int(np.argmin(seen))}, but labels go up to {found['classes'] - 1}: "
            "number the classes from 0, without gaps."
        )
    if found["classes"] < 2:
        raise FedwaveError("all labels are 0: there must be two classes or more.")
    return None


FAMILY = Family(
    try_part=_try,
    checks={"labels": _labels},
    random_numbers_rule="draw random numbers from a fixed seed",
    trial_name="declaration",
    shared_checks=("repetition",),
)
