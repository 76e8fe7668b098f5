"""MNIST and CIFAR-10 as Datasets."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedwave.learning.datasets import sources
from fedwave.learning.datasets.dataset import Dataset, Images
from fedwave.learning.datasets.original_files import (
    MD5,
    NoData,
    data_folder,
    fetch_command,
    missing_files,
    read_original,
)

Bytes = npt.NDArray[np.uint8]
Pixels = tuple[Bytes, Bytes, Bytes, Bytes]  # train images, train labels, test images, test labels


def load_dataset(name: str, folder: Path | None = None, *, fetch: bool = True) -> Dataset:
    """A published dataset by name: "mnist" or "cifar10".

    The published files are read from ``folder`` (else ``data_folder()``) and checked against their md5 checksums.
    Missing ones are downloaded and kept there, unless ``fetch`` is false.
    """
    place = data_folder() if folder is None else Path(folder)
    if fetch:
        sources.fetch(name, place)
    elif absent := missing_files(name, place):
        raise NoData(
            f"{place / name} lacks {', '.join(absent)}: run {fetch_command(name, place)}, or set FEDWAVE_DATA to a "
            f"folder whose {name} folder has them."
        )
    read, mean, std = _PUBLISHED[name]
    train, train_targets, test, test_targets = read(place)
    return Dataset(
        name,
        _normalised(train, mean, std),
        train_targets.astype(np.int64),
        _normalised(test, mean, std),
        test_targets.astype(np.int64),
    )


def mnist() -> Dataset:
    """MNIST, downloaded the first time."""
    return load_dataset("mnist")


def cifar10() -> Dataset:
    """CIFAR-10, downloaded the first time."""
    return load_dataset("cifar10")


def _parse_idx(content: bytes) -> Bytes:
    """The array in an IDX file of bytes: 0, 0, a type (8: bytes), the number of axes, their sizes, the items."""
    axes = content[3]
    shape = np.frombuffer(content, dtype=">u4", count=axes, offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape.tolist())


def _read_mnist(folder: Path) -> Pixels:
    """Grey images ``[n, 1, 28, 28]`` and labels ``[n]``, as bytes."""
    train, train_targets, test, test_targets = (
        _parse_idx(gzip.decompress(read_original("mnist", file, folder))) for file in MD5["mnist"]
    )
    return train[:, None], train_targets, test[:, None], test_targets


def _read_cifar10(folder: Path) -> Pixels:
    """Colour images ``[n, 3, 32, 32]`` and labels ``[n]``, as bytes."""
    batches = [
        # A sample is its label, then the red, the green and the blue plane.
        np.frombuffer(read_original("cifar10", file, folder), dtype=np.uint8).reshape(-1, 3073)
        for file in MD5["cifar10"]
    ]
    train, test = np.concatenate(batches[:-1]), batches[-1]
    return (train[:, 1:].reshape(-1, 3, 32, 32), train[:, 0], test[:, 1:].reshape(-1, 3, 32, 32), test[:, 0])


# How each is read, and the usual mean and standard deviation of its channels on a scale from 0 to 1.
_PUBLISHED: dict[str, tuple[Callable[[Path], Pixels], tuple[float, ...], tuple[float, ...]]] = {
    "mnist": (_read_mnist, (0.1307,), (0.3081,)),
    "cifar10": (_read_cifar10, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}


def _normalised(pixels: Bytes, mean: tuple[float, ...], std: tuple[float, ...]) -> Images:
    out = pixels.astype(np.float32)
    out /= 255  # in place: CIFAR-10 is 600 MB as floats
    out -= np.array(mean, dtype=np.float32)[:, None, None]
    out /= np.array(std, dtype=np.float32)[:, None, None]
    return out
