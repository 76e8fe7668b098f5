"""The published files of MNIST and CIFAR-10: their place, md5 sums and pixels."""

from __future__ import annotations

import gzip
import hashlib
import os
import shlex
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedwave.errors import FedwaveError
from fedwave.files.reading import read_bytes

Bytes = npt.NDArray[np.uint8]
Pixels = tuple[Bytes, Bytes, Bytes, Bytes]  # train images, train labels, test images, test labels

# As published. Every file is checked against its sum whenever it is read.
MD5: dict[str, dict[str, str]] = {
    "mnist": {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
    "cifar10": {
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
}

# Bytes: nothing longer is read, from a disk or from a source.
SIZES: dict[str, dict[str, int]] = {
    "mnist": dict(zip(MD5["mnist"], (9_912_422, 28_881, 1_648_877, 4_542), strict=True)),
    "cifar10": dict.fromkeys(MD5["cifar10"], 30_730_000),
}


class NoData(FedwaveError):
    """The files of a dataset are not here and could not be fetched."""


def data_folder() -> Path:
    """Where datasets are kept: FEDWAVE_DATA, or else a folder among the platform's caches."""
    if chosen := os.environ.get("FEDWAVE_DATA"):
        return Path(chosen).expanduser()
    return cache_folder("datasets", "set FEDWAVE_DATA to a folder")


def cache_folder(what: str, instead: str) -> Path:
    """fedwave's folder among the platform's caches; if there is no home, ``what`` cannot be kept: do ``instead``."""
    try:
        home = Path.home()
    except RuntimeError:
        raise FedwaveError(f"there is no home folder to keep {what} in: {instead}.") from None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "fedwave"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else home / "AppData" / "Local") / "fedwave" / "cache"
    caches = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path must be ignored.
    return (Path(caches) if os.path.isabs(caches) else home / ".cache") / "fedwave"


def command(name: str, folder: Path) -> str:
    """The command that downloads a dataset into a folder, for messages."""
    words = ["fedwave", "data", name]
    if folder != data_folder():
        words += ["--out", str(folder)]
    return f"`{shlex.join(words)}`"


def missing(name: str, folder: Path) -> list[str]:
    """The files of a dataset that the folder does not hold."""
    return [file for file in MD5[name] if not os.path.exists(folder / name / file)]


def md5_of(content: bytes) -> str:
    """The md5 sum in hexadecimal."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def read_original(name: str, file: str, folder: Path) -> bytes:
    """The content of a file of a dataset; refused if it is not the published one."""
    path = folder / name / file
    again = f"delete it and run {command(name, folder)}"
    try:
        content = read_bytes(path, str(path), SIZES[name][file])
    except FedwaveError as error:
        raise FedwaveError(f"{str(error).rstrip('.')}; {again}.") from None
    found, published = md5_of(content), MD5[name][file]
    if found != published:
        raise FedwaveError(f"{path} is damaged: its md5 sum is {found}, must be {published}; {again}.")
    return content


def parse_idx(content: bytes) -> Bytes:
    """The array in an IDX file of bytes: 0, 0, a type (8: bytes), the number of axes, their sizes, the items."""
    axes = content[3]
    shape = np.frombuffer(content, dtype=">u4", count=axes, offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape.tolist())


def read_mnist(folder: Path) -> Pixels:
    """Grey images ``[n, 1, 28, 28]`` and labels ``[n]``, as bytes."""
    train, train_labels, test, test_labels = (
        parse_idx(gzip.decompress(read_original("mnist", file, folder))) for file in MD5["mnist"]
    )
    return train[:, None], train_labels, test[:, None], test_labels


def read_cifar10(folder: Path) -> Pixels:
    """Colour images ``[n, 3, 32, 32]`` and labels ``[n]``, as bytes."""
    batches = [
        # A sample is its label, then the red, the green and the blue plane.
        np.frombuffer(read_original("cifar10", file, folder), dtype=np.uint8).reshape(-1, 3073)
        for file in MD5["cifar10"]
    ]
    train, test = np.concatenate(batches[:-1]), batches[-1]
    return (train[:, 1:].reshape(-1, 3, 32, 32), train[:, 0], test[:, 1:].reshape(-1, 3, 32, 32), test[:, 0])
