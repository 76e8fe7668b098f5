"""Reading .npz archives that may come from a stranger: plain arrays, no larger than the file that holds them.

fedwave writes archives without compression, so an honest one is as large as its arrays. Everything else is refused
before memory is taken: compressed members and members that lie on top of each other (bombs), a name twice, and an
array whose heading promises more than there is. Nothing is unpickled.
"""

from __future__ import annotations

import os
import zipfile
from math import prod
from typing import IO, Any

import numpy as np
from numpy.lib.format import read_array, read_array_header_1_0, read_array_header_2_0, read_magic

from fedwave.types import Array

_NUMBERS = "biuf"
_MORE = "cU"  # of a user's own parts, and the text inside
_ENCRYPTED = 0x1
_MOST_MEMBERS = 100_000


def read_archive(raw: IO[bytes]) -> dict[str, Array]:
    """The arrays by name; ValueError or what zipfile raises, if it is not such an archive."""
    with zipfile.ZipFile(raw) as archive:
        check_stored(archive, raw)
        arrays = {}
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                raise ValueError(f"{member.filename} is no array")
            with archive.open(member) as file:
                _check_size(file, member)
            with archive.open(member) as file:
                arrays[member.filename.removesuffix(".npy")] = read_array(file, allow_pickle=False)
        return arrays


def check_stored(archive: zipfile.ZipFile, raw: IO[bytes]) -> None:
    """Refuse an archive whose members are not stored as they are, each once, within its own size."""
    members = archive.infolist()
    if len(members) > _MOST_MEMBERS or len({one.filename for one in members}) < len(members):
        raise ValueError("a name occurs twice in the archive")
    for one in members:
        if one.compress_type != zipfile.ZIP_STORED or one.compress_size != one.file_size:
            raise ValueError(f"{one.filename} is compressed, which fedwave never does")
        if one.flag_bits & _ENCRYPTED:
            raise ValueError(f"{one.filename} is encrypted")
    raw.seek(0, os.SEEK_END)
    if sum(one.file_size for one in members) > raw.tell():
        raise ValueError("its members are larger than the archive")


def is_plain(array: Array, *, numbers: bool = True) -> bool:
    """Can an archive keep it? Numbers and bools; with ``numbers=False`` complex numbers and texts too."""
    return array.dtype.kind in (_NUMBERS if numbers else _NUMBERS + _MORE)


def _check_size(file: IO[bytes], member: zipfile.ZipInfo) -> None:
    """Refuse an array that is not as large as its heading says, and one that holds no numbers or texts."""
    shape, dtype = _heading(file)
    if dtype.hasobject or dtype.kind not in _NUMBERS + _MORE:
        raise ValueError(f"{member.filename} holds {dtype}, not numbers")
    promised = prod(shape) * dtype.itemsize  # Python numbers: they cannot overflow
    there = member.file_size - file.tell()
    if promised != there or min(shape, default=0) < 0 or not dtype.itemsize:
        raise ValueError(f"{member.filename} is not as large as its heading says")


def _heading(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"an array is of version {version} of the format")
    read = read_array_header_1_0 if version == (1, 0) else read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype
