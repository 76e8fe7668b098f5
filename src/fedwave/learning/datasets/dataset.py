"""The Dataset: images with labels, for training and for testing."""

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
    """Images with labels, for training and for testing.

    Parameters:

    * ``name``: what messages and results call it
    * ``train_images``, ``test_images``: ``[n, channels, height, width]``, normalised; converted to float32
    * ``train_labels``, ``test_labels``: the class of each image, ``[n]``, from 0; converted to int64

    >>> import fedwave as fw
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> mine = fw.Dataset("mine", rng.random((8, 1, 4, 4)), [0, 1] * 4, rng.random((2, 1, 4, 4)), [0, 2])
    >>> mine.train_images.dtype.name, mine.train_labels.dtype.name, mine.classes
    ('float32', 'int64', 3)
    """

    name: str
    train_images: Images
    train_labels: IntArray
    test_images: Images
    test_labels: IntArray

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            what = f"{self.name}: {part}"
            images = _images(f"{what}_images", getattr(self, f"{part}_images"))
            labels = _labels(f"{what}_labels", getattr(self, f"{part}_labels"))
            if len(images) != len(labels):
                raise FedwaveError(
                    f"{what}_images holds {len(images)} images but {part}_labels {len(labels)} labels: "
                    "give one label per image."
                )
            object.__setattr__(self, f"{part}_images", images)
            object.__setattr__(self, f"{part}_labels", labels)
        train, test = self.train_images.shape[1:], self.test_images.shape[1:]
        if train != test:
            raise FedwaveError(
                f"{self.name}: train images have shape {train} but test images {test}: make them the same."
            )

    def __repr__(self) -> str:
        return (
            f"Dataset {self.name!r}: {len(self.train_labels)} training and {len(self.test_labels)} test images of "
            f"shape {self.train_images.shape[1:]}, {self.classes} classes"
        )

    @property
    def classes(self) -> int:
        """The largest label of both sets, plus one."""
        return 1 + int(max(self.train_labels.max(), self.test_labels.max()))


def _images(what: str, given: Any) -> Images:
    array = _numbers(what, given)
    if array.ndim != 4 or array.size == 0:
        hint = "; give grey images a channel axis: images[:, None]" if array.ndim == 3 else ""
        raise FedwaveError(
            f"{what} has shape {array.shape}, must be [images, channels, height, width], none of them 0{hint}."
        )
    with np.errstate(over="ignore"):  # values that are too large become infinite and are refused below
        out = np.ascontiguousarray(array, dtype=np.float32)
    # NaN would be both the smallest and the largest; an array of truth values would take memory and time.
    if not (np.isfinite(out.min()) and np.isfinite(out.max())):
        raise FedwaveError(f"{what} holds NaN or infinite values, must be finite numbers.")
    return out


def _labels(what: str, given: Any) -> IntArray:
    array = _numbers(what, given)
    if array.ndim != 1:
        raise FedwaveError(f"{what} has shape {array.shape}, must be one whole number per image.")
    wrong = ~((array >= 0) & (array < _MOST_CLASSES) & (array == np.floor(array)))
    if wrong.any():
        raise FedwaveError(f"{what} holds {array[wrong][0]}, must be whole numbers from 0 to {_MOST_CLASSES - 1}.")
    return np.ascontiguousarray(array, dtype=np.int64)


def _numbers(what: str, given: Any) -> Array:
    try:
        array: Array = np.asarray(given)
    except ValueError:  # lists of different lengths
        raise FedwaveError(f"{what} must be an array of numbers, all rows of one length.") from None
    if array.dtype.kind not in "biuf":
        raise FedwaveError(f"{what} holds values of type {array.dtype}, must be numbers.")
    return array
