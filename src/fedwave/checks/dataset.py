"""The contract of a dataset: a function that returns the same images and labels each time."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedwave.checks.common import Check, CheckReport, report
from fedwave.errors import FedwaveError
from fedwave.learning.datasets.dataset import Dataset

_ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")


def check_dataset(make: Any, name: str) -> CheckReport:
    """Run the checks on a function that makes a Dataset, or on a Dataset."""
    subject = _Subject(make)
    return report(f"dataset {name!r}", CHECKS, subject)


class _Subject:
    """The function, and what it made: a large one is not made more often than needed."""

    def __init__(self, make: Any) -> None:
        self.make = (lambda: make) if isinstance(make, Dataset) else make
        self.made: Any = None


def _declaration(subject: _Subject) -> None:
    if not callable(subject.make):
        raise FedwaveError("it is not a function: give one that returns a Dataset.")
    subject.made = subject.make()
    if not isinstance(subject.made, Dataset):
        raise FedwaveError(
            f"it returns a {type(subject.made).__name__}, must return a Dataset: "
            "Dataset(name, train_images, train_labels, test_images, test_labels)."
        )


def _labels(subject: _Subject) -> None:
    data = subject.made
    seen = np.bincount(data.train_labels, minlength=data.classes)
    if not seen.all():
        raise FedwaveError(
            f"no training image has the label {int(np.argmin(seen))}, but labels go up to {data.classes - 1}: "
            "number the classes from 0, without gaps."
        )
    if data.classes < 2:
        raise FedwaveError("all labels are 0: there must be two classes or more.")


def _repetition(subject: _Subject) -> None:
    again = subject.make()
    for name in _ARRAYS:
        if not np.array_equal(getattr(subject.made, name), getattr(again, name)):
            raise FedwaveError(
                f"{name} differ between two calls: return the same content each time, random numbers from a fixed seed."
            )
    if again.name != subject.made.name:
        raise FedwaveError(f"its name changes from {subject.made.name!r} to {again.name!r}.")


CHECKS: dict[str, Check] = {"declaration": _declaration, "labels": _labels, "repetition": _repetition}
