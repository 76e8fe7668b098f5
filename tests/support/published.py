"""Tiny files in the published formats, whose sums stand in for the published ones."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fedwave.learning.datasets import original_files, sources

Contents = dict[str, dict[str, bytes]]  # by dataset and file


def idx(array: np.ndarray) -> bytes:
    sizes = np.array(array.shape, dtype=">u4").tobytes()
    return gzip.compress(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes(), mtime=0)


def tiny(monkeypatch: pytest.MonkeyPatch, classes: Sequence[int] = (3, 9)) -> Contents:
    """An image of each class per file (per batch), and no source that could be asked for more."""
    rng = np.random.default_rng(0)
    labels, count = np.array(classes, dtype=np.uint8), len(classes)
    mnist = [
        idx(array)
        for _ in ("train", "t10k")
        for array in (rng.integers(256, size=(count, 28, 28)).astype(np.uint8), labels)
    ]
    cifar10 = [np.c_[labels, rng.integers(256, size=(count, 3072))].astype(np.uint8).tobytes() for _ in range(6)]
    contents = {}
    for name, files in (("mnist", mnist), ("cifar10", cifar10)):
        contents[name] = dict(zip(original_files.MD5[name], files, strict=True))
        sums = {file: original_files.md5_hex(content) for file, content in contents[name].items()}
        monkeypatch.setitem(original_files.MD5, name, sums)
        sizes = {file: len(content) for file, content in contents[name].items()}
        monkeypatch.setitem(original_files.SIZES, name, sizes)
        monkeypatch.setitem(sources.SOURCES, name, {})
    monkeypatch.delenv("FEDWAVE_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")  # servers of tests are on this machine
    return contents


def put(contents: Contents, folder: Path) -> Path:
    """Lay the files out as a data folder does."""
    for name, files in contents.items():
        (folder / name).mkdir(parents=True)
        for file, content in files.items():
            (folder / name / file).write_bytes(content)
    return folder


def held(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too."""
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def archive(files: dict[str, bytes], folder: str) -> bytes:
    """A .tar.gz with all files in one folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as package:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            package.addfile(member, io.BytesIO(content))
    return out.getvalue()
