"""The Dataset: inputs with targets, for training and for testing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwave.errors import FedwaveError
from fedwave.types import Array, IntArray

Images = npt.NDArray[np.float32]
_MOST_CLASSES = 100_000  # a model has an output for each class: a label of 2e9 would take all memory


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Inputs with targets, for training and for testing: images with labels, tables with numbers, texts.

    Parameters:

    * ``name``: what messages and results call it
    * ``train_inputs``, ``test_inputs``: ``[n, ...]``, of any shape; whole numbers, such as token ids, are kept as
      int64, other numbers are converted to float32
    * ``train_targets``, ``test_targets``: the target of each sample, ``[n]`` or ``[n, ...]``. Whole numbers are classes
      from 0, kept as int64. Other numbers are for regression, converted to float32
    * ``owner``: the user of each training sample, ``[n]``, numbers or texts. With the partition "owner" each user is
      one device: the first device is the first user in sorted order

    >>> import fedwave as fw
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> mine = fw.Dataset("mine", rng.random((8, 1, 4, 4)), [0, 1] * 4, rng.random((2, 1, 4, 4)), [0, 2])
    >>> mine.train_inputs.dtype.name, mine.train_targets.dtype.name, mine.classes
    ('float32', 'int64', 3)

    A table, whose last column is to be predicted, of two users:

    >>> table = rng.random((6, 4))
    >>> fw.Dataset("table", table[:, :3], table[:, 3], table[:2, :3], table[:2, 3], owner=["ann", "bob", "ann"] * 2)
    Dataset 'table': 6 training and 2 test samples of shape (3,), targets of shape (), 2 users
    """

    name: str
    train_inputs: Array
    train_targets: Array
    test_inputs: Array
    test_targets: Array
    owner: Any = None

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            what = f"{self.name}: {part}"
            inputs = _kept_as(f"{what}_inputs", _numbers(f"{what}_inputs", getattr(self, f"{part}_inputs")))
            targets = _targets(f"{what}_targets", getattr(self, f"{part}_targets"))
            if len(inputs) != len(targets):
                raise FedwaveError(
                    f"{what}_inputs holds {len(inputs)} samples but {part}_targets {len(targets)} targets: "
                    "give one target per sample."
                )
            object.__setattr__(self, f"{part}_inputs", inputs)
            object.__setattr__(self, f"{part}_targets", targets)
        for kind in ("inputs", "targets"):
            train, test = (getattr(self, f"{part}_{kind}") for part in ("train", "test"))
            if (train.shape[1:], train.dtype) != (test.shape[1:], test.dtype):
                raise FedwaveError(
                    f"{self.name}: train {kind} are {train.dtype} of shape {train.shape[1:]} but test {kind} "
                    f"{test.dtype} of shape {test.shape[1:]}: make them the same."
                )
        if self.owner is not None:
            object.__setattr__(self, "owner", _users(f"{self.name}: owner", self.owner, len(self.train_inputs)))

    def __repr__(self) -> str:
        return (
            f"Dataset {self.name!r}: {len(self.train_targets)} training and {len(self.test_targets)} test samples of "
            f"shape {self.train_inputs.shape[1:]}, {self.about_targets}"
        )

    @property
    def about_targets(self) -> str:
        """The targets and the users in a few words."""
        targets = f"{self.classes} classes" if self.classes else f"targets of shape {self.train_targets.shape[1:]}"
        return targets if self.owner is None else f"{targets}, {self.users} users"

    @property
    def classes(self) -> int:
        """The largest label of both sets, plus one; 0 if the targets are not whole numbers."""
        if self.train_targets.dtype.kind != "i":
            return 0
        return 1 + int(max(self.train_targets.max(), self.test_targets.max()))

    @property
    def users(self) -> int:
        """The number of users; 0 without ``owner``."""
        return 0 if self.owner is None else 1 + int(self.owner.max())


def _targets(what: str, given: Any) -> Array:
    array = _numbers(what, given)
    wrong = (array < 0) | (array >= _MOST_CLASSES) if array.dtype.kind in "iu" else np.zeros(1, np.bool_)
    if wrong.any():
        raise FedwaveError(
            f"{what} holds {array[wrong][0]}, must be whole numbers from 0 to {_MOST_CLASSES - 1} for classes, or "
            "floating-point numbers for regression."
        )
    return _kept_as(what, array)


def _kept_as(what: str, array: Array) -> Array:
    """Whole numbers as int64, others as float32."""
    if array.dtype.kind in "iu":
        return np.ascontiguousarray(array, dtype=np.int64)
    with np.errstate(over="ignore"):  # values that are too large become infinite and are refused below
        out = np.ascontiguousarray(array, dtype=np.float32)
    # NaN would be both the smallest and the largest; an array of truth values would take memory and time.
    if not (np.isfinite(out.min()) and np.isfinite(out.max())):
        raise FedwaveError(f"{what} holds NaN or infinite values, must be finite numbers.")
    return out


def _users(what: str, given: Any, samples: int) -> IntArray:
    """The number of each sample's user, from 0 in sorted order."""
    array: Array = np.asarray(given)
    if array.dtype.kind == "O" and all(isinstance(user, str) for user in array.flat):  # as pandas has them
        array = array.astype(np.str_)
    if array.shape != (samples,) or array.dtype.kind not in "iuU":
        raise FedwaveError(
            f"{what} is {array.dtype} of shape {array.shape}, must be a whole number or a text for each of the "
            f"{samples} training samples."
        )
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def _numbers(what: str, given: Any) -> Array:
    try:
        array: Array = np.asarray(given)
    except ValueError:  # lists of different lengths
        raise FedwaveError(f"{what} must be an array of numbers, all rows of one length.") from None
    if array.dtype.kind not in "biuf":
        raise FedwaveError(f"{what} holds values of type {array.dtype}, must be numbers.")
    if array.ndim == 0 or array.size == 0:
        raise FedwaveError(f"{what} has shape {array.shape}, must be [samples, ...], none of them 0.")
    return array
