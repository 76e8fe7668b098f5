"""The file format of traces, curves and checkpoints: an uncompressed .npz of arrays, a JSON header and a checksum.

Nothing is pickled. Reading takes no more memory than the file has: a compressed member, or an array whose size differs
from its heading, is refused first. The checksum detects corruption and edits; it is not a signature.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from fedwave.errors import FedwaveError
from fedwave.files.reading import as_path, opened, read_json
from fedwave.files.writing import write_whole
from fedwave.plain_text import brief
from fedwave.types import Array

HEADER, CHECKSUM = "header", "checksum"
Groups = Mapping[str, Mapping[str, Array]]  # arrays by group and name; group "" for those without a group
_KINDS = "biufcU"  # numbers, and texts: the header, and in arrays of users' parts
_HEADINGS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def save_archive(path: str | Path, what: str, format: str, header: Mapping[str, Any], groups: Groups) -> Path:
    """Writes groups of arrays and a JSON header to a .npz file, whole or not at all; messages call it ``what``."""
    path = as_path(f"the file for {what}", path)
    if path.suffix != ".npz":
        raise FedwaveError(f"the file for {what} is {path.name!r}, must end in .npz.")
    return write_whole(path, lambda file: write_archive(file, format, header, joined(groups)))


def load_archive(path: str | Path, what: str, format: str) -> tuple[dict[str, Any], dict[str, dict[str, Array]]]:
    """Returns the header and the groups of arrays that ``save_archive`` wrote in this format."""
    path = as_path(f"the file of {what}", path)
    if not os.path.lexists(path):
        raise FedwaveError(f"there is no file {path}, must be the file of {what}.")
    with opened(path, str(path)) as (file, _):
        header, arrays = read_archive(file, str(path), format)
    return header, split(arrays)


def joined(groups: Groups) -> dict[str, Array]:
    """All arrays of the groups, as "group/name"."""
    return {f"{group}/{name}" if group else name: array for group, own in groups.items() for name, array in own.items()}


def split(arrays: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """The groups of arrays whose names ``joined`` made; a group without arrays is missing."""
    groups: dict[str, dict[str, Array]] = {}
    for key, array in arrays.items():
        group, name = key.split("/", 1) if "/" in key else ("", key)
        groups.setdefault(group, {})[name] = array
    return groups


def write_archive(file: IO[bytes], format: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Writes arrays and a JSON header; ``format`` is the kind of the file and its version, such as "trace 4"."""
    text = np.array(json.dumps({"format": format, **header}))
    total = hashlib.sha256()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in {HEADER: text, **arrays}.items():
            if array.dtype.kind not in _KINDS:
                kind = "Python objects" if array.dtype.hasobject else array.dtype
                raise FedwaveError(f"{name} holds {kind}, which a file cannot keep: use arrays of numbers.")
            _add(total, name, array)
            _write(archive, name, array)
        _write(archive, CHECKSUM, np.array(total.hexdigest()))


def read_archive(file: IO[bytes], name: str, format: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header and the arrays that ``write_archive`` wrote in this format; messages call the file ``name``."""
    with refusing(name, format):
        if not zipfile.is_zipfile(file):
            raise ValueError("it is not a .npz archive")
        arrays, total = {}, hashlib.sha256()
        for member, array in _members(file):
            arrays[member] = array
            if member != CHECKSUM:
                _add(total, member, array)
        if str(arrays.pop(CHECKSUM, "")) != total.hexdigest():
            raise ValueError("its content does not have the checksum that it was written with")
        header = read_json(str(arrays.pop(HEADER)), "its header")
        found = header.pop("format")
    if found != format:
        raise FedwaveError(f"{name} is a {found}, must be a {format}: make it again with this version of fedwave.")
    return header, arrays


@contextmanager
def refusing(name: str, format: str) -> Iterator[None]:
    """Turns every error within the block into a FedwaveError: the file is not of this format, or is corrupt."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # corruption can be in the archive, in an array or in the header
        why = f"{error} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
        text = brief(why.rstrip("."))
        raise FedwaveError(f"{name} is not a {format.rpartition(' ')[0]} or is corrupt ({text}).") from None


def _add(total: Any, name: str, array: Array) -> None:
    """Add the name, type, shape and bytes of an array to a checksum."""
    total.update(json.dumps([name, array.dtype.str, array.shape]).encode() + b"\n")
    # A flat view of the bytes; only an array that is not in C order is copied.
    total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _write(archive: zipfile.ZipFile, name: str, array: Array) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        npy.write_array(member, np.asanyarray(array), allow_pickle=False)


def _members(file: IO[bytes]) -> Iterator[tuple[str, Array]]:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        size = file.seek(0, os.SEEK_END)
        if any(one.compress_type != zipfile.ZIP_STORED for one in members) or sum(m.file_size for m in members) > size:
            raise ValueError("a member is compressed")
        for one in members:
            with archive.open(one) as member:
                _check_size(member, one)
            with archive.open(one) as member:
                yield one.filename.removesuffix(".npy"), npy.read_array(member, allow_pickle=False)


def _check_size(member: IO[bytes], about: zipfile.ZipInfo) -> None:
    """Raises ValueError for an array of Python objects, or one whose size differs from its heading."""
    shape, _, dtype = _HEADINGS[npy.read_magic(member)](member)
    if dtype.kind not in _KINDS:
        raise ValueError(f"{about.filename} holds {dtype}, not numbers")
    size = prod(shape) * dtype.itemsize  # Python numbers: no overflow
    if size != about.file_size - member.tell() or min(shape, default=0) < 0 or not dtype.itemsize:
        raise ValueError(f"{about.filename} is not as large as its heading says")
