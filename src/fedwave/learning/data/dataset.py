"""Labelled images: MNIST, CIFAR-10, a small task made in memory, or your own arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwave.errors import FedwaveError, did_you_mean, whole
from fedwave.learning.data.download import fetch as fetch_missing
from fedwave.learning.data.originals import (
    Bytes,
    NoData,
    Pixels,
    command,
    data_folder,
    missing,
    read_cifar10,
    read_mnist,
)
from fedwave.learning.data.patterns import patterns
from fedwave.types import Array, IntArray

__all__ = ["Dataset", "NoData", "data_folder", "load_dataset", "synthetic"]

Images = npt.NDArray[np.float32]
_MOST_CLASSES = 100_000  # a model has an output for each: one label of 2e9 would take all memory


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Training images and test images with labels. Arrays of other number types are converted.

    >>> rng = np.random.default_rng(0)
    >>> mine = Dataset("mine", rng.random((8, 1, 4, 4)), [0, 1] * 4, rng.random((2, 1, 4, 4)), [0, 2])
    >>> mine.train_images.dtype.name, mine.train_labels.dtype.name, mine.classes
    ('float32', 'int64', 3)
    """

    name: str
    train_images: Images  # [n, channels, height, width], normalised
    train_labels: IntArray  # [n]
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


def load_dataset(name: str, folder: Path | None = None, *, fetch: bool = True) -> Dataset:
    """A dataset by name: "mnist", "cifar10" or "synthetic".

    The published files are read from ``folder`` (else ``data_folder()``) and checked against their md5 sums. Missing
    ones are downloaded and kept there, unless ``fetch`` is false.
    """
    if name == "synthetic":
        return synthetic()
    if name not in _PUBLISHED:
        known = [*_PUBLISHED, "synthetic"]
        raise FedwaveError(f"there is no dataset {name!r}; {did_you_mean(str(name), known)}")
    place = data_folder() if folder is None else Path(folder)
    if fetch:
        fetch_missing(name, place)
    elif lacking := missing(name, place):
        raise NoData(
            f"{place / name} lacks {', '.join(lacking)}: run {command(name, place)}, or set FEDWAVE_DATA to a "
            f"folder whose {name} folder has them."
        )
    read, mean, std = _PUBLISHED[name]
    train, train_labels, test, test_labels = read(place)
    return Dataset(
        name,
        _normalised(train, mean, std),
        train_labels.astype(np.int64),
        _normalised(test, mean, std),
        test_labels.astype(np.int64),
    )


def mnist() -> Dataset:
    """MNIST, downloaded the first time."""
    return load_dataset("mnist")


def cifar10() -> Dataset:
    """CIFAR-10, downloaded the first time."""
    return load_dataset("cifar10")


def synthetic(train: int = 6000, test: int = 2000, seed: int = 0) -> Dataset:
    """Ten classes of 28 x 28 grey images made in memory, of the shape of MNIST: for trials, tests and teaching.

    A linear model reaches an accuracy of about 75 %, a small convolutional network 95 %.

    >>> synthetic(train=50, test=20).train_images.shape
    (50, 1, 28, 28)
    """
    arrays = patterns(
        whole("synthetic train", train, 1), whole("synthetic test", test, 1), whole("synthetic seed", seed, 0)
    )
    return Dataset("synthetic", *arrays)


# How each is read, and the usual mean and standard deviation of its channels on a scale from 0 to 1.
_PUBLISHED: dict[str, tuple[Callable[[Path], Pixels], tuple[float, ...], tuple[float, ...]]] = {
    "mnist": (read_mnist, (0.1307,), (0.3081,)),
    "cifar10": (read_cifar10, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}


def _normalised(pixels: Bytes, mean: tuple[float, ...], std: tuple[float, ...]) -> Images:
    out = pixels.astype(np.float32)
    out /= 255  # in place: CIFAR-10 is 600 MB as floats
    out -= np.array(mean, dtype=np.float32)[:, None, None]
    out /= np.array(std, dtype=np.float32)[:, None, None]
    return out


def _images(what: str, given: Any) -> Images:
    array = _numbers(what, given)
    if array.ndim != 4 or array.size == 0:
        hint = "; give grey images a channel axis: images[:, None]" if array.ndim == 3 else ""
        raise FedwaveError(
            f"{what} has shape {array.shape}, must be [images, channels, height, width], none of them 0{hint}."
        )
    with np.errstate(over="ignore"):  # values that are too large become infinite and are refused below
        out = np.ascontiguousarray(array, dtype=np.float32)
    # The smallest and the largest tell, for NaN is both; a truth value for every pixel would take memory and time.
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
