"""The published files of MNIST and CIFAR-10: their names, checksums and sizes, and the folder that holds them."""

from __future__ import annotations

import hashlib
import os
import shlex
from contextlib import suppress
from pathlib import Path

from platformdirs import user_cache_path

from fedwave.errors import FedwaveError, short_repr
from fedwave.files.reading import read_bytes

# The checksums of the published files; a file is checked whenever it is read.
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

# In bytes; no larger file is read, from the disk or from a source.
SIZES: dict[str, dict[str, int]] = {
    "mnist": dict(zip(MD5["mnist"], (9_912_422, 28_881, 1_648_877, 4_542), strict=True)),
    "cifar10": dict.fromkeys(MD5["cifar10"], 30_730_000),
}


class NoData(FedwaveError):
    """The files of a dataset are missing and could not be fetched."""


def data_folder() -> Path:
    """The folder of the datasets: FEDWAVE_DATA, or else fedwave's folder in the user's cache."""
    chosen = os.environ.get("FEDWAVE_DATA")
    if chosen:
        try:
            return Path(chosen).expanduser()
        except RuntimeError:  # ~somebody, a user who does not exist
            raise FedwaveError(
                f"FEDWAVE_DATA is {short_repr(chosen)}, but that home does not exist: set it to a folder."
            ) from None
    with suppress(RuntimeError):  # platformdirs finds no home folder; older versions return a path that begins with ~
        folder = user_cache_path("fedwave", appauthor=False)
        if folder.is_absolute():
            return folder
    raise FedwaveError("there is no home folder to keep datasets in: set FEDWAVE_DATA to a folder.")


def fetch_command(name: str, folder: Path) -> str:
    """The command that fetches a dataset into a folder, as messages quote it."""
    words = ["fedwave", "data", name]
    if folder != data_folder():
        words += ["--out", str(folder)]
    return f"`{shlex.join(words)}`"


def missing_files(name: str, folder: Path) -> list[str]:
    """The files of a dataset that are not in the folder."""
    return [file for file in MD5[name] if not os.path.exists(folder / name / file)]


def md5_hex(content: bytes) -> str:
    """The md5 checksum, in hexadecimal."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def read_original(name: str, file: str, folder: Path) -> bytes:
    """The content of a file of a dataset; raises unless it is the published one."""
    path, fix = folder / name / file, f"delete it and run {fetch_command(name, folder)}"
    try:
        content = read_bytes(path, str(path), SIZES[name][file])
    except FedwaveError as error:
        raise FedwaveError(f"{str(error).rstrip('.')}; {fix}.") from None
    found, published = md5_hex(content), MD5[name][file]
    if found != published:
        raise FedwaveError(f"{path} is corrupt: its md5 checksum is {found}, must be {published}; {fix}.")
    return content
