"""Recorded arrays from files: .npy, whose header is checked before anything is read, and .csv."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, shown
from fedwave.files.reading import as_path, opened
from fedwave.files.tables import read_numbers
from fedwave.memory import check_memory
from fedwave.types import Array

_MOST_BYTES = 2**31
_MOST_NUMBERS = 2**28  # 2 GiB once they are float64
_KEPT = 16  # bytes of each number: as it stands in the file, and as float64
_MOST_AXES = 3
_MOST_HEADER = 65_536  # bytes; numpy evaluates at most 10,000
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_array(path: str | Path, what: str) -> Array:
    """Numbers from a .npy file, or from a .csv file without a heading, a line per round."""
    path = as_path(f"the file of {what}", path)
    name = f"{what} {path}"
    if path.suffix == ".csv":
        return read_numbers(path, name)
    if path.suffix != ".npy":
        raise FedwaveError(f"{name} must end in .npy or .csv.")
    with opened(path, name, _MOST_BYTES) as (file, size):
        start = file.read(_MOST_HEADER)  # not the 4 GB that a header may claim to have
        shape, backwards, kind, offset = _header(start, name)
        numbers = math.prod(shape)
        if numbers > _MOST_NUMBERS:  # before any memory is taken for them
            raise FedwaveError(f"{name} holds {numbers:,} numbers, must hold at most {_MOST_NUMBERS:,}.")
        if size != offset + numbers * kind.itemsize:
            raise FedwaveError(
                f"{name} is damaged: {shape} numbers of {kind.itemsize} bytes do not fill its {size:,} bytes."
            )
        check_memory(name, _KEPT * numbers, "record fewer rounds")
        try:
            file.seek(offset)
            content = np.frombuffer(file.read(numbers * kind.itemsize), dtype=kind)
            return content.reshape(shape, order="F" if backwards else "C")
        except (OSError, ValueError) as error:  # it shrinks while it is read
            raise FedwaveError(f"{name} cannot be read: {error}.") from None


def _header(start: bytes, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, Fortran order and type as a .npy file states them, and where its numbers begin."""
    if not start:
        raise FedwaveError(f"{name} is empty.")
    if start.startswith(b"PK"):
        raise FedwaveError(f"{name} is a zip archive (.npz): save one array with np.save.")
    head = io.BytesIO(start)
    try:
        shape, backwards, kind = _HEADERS[np.lib.format.read_magic(head)](head)
    except Exception:  # Python's parser and numpy's types fail in many ways
        raise FedwaveError(f"{name} is no .npy file, or its header is damaged.") from None
    if kind.kind not in "biuf":  # an object would be a pickle, which runs code
        raise FedwaveError(f"{name} holds values of type {shown(str(kind))}, must hold numbers.")
    if len(shape) > _MOST_AXES or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise FedwaveError(
            f"{name} has a shape of {len(shape)} axes that no record has: at most {_MOST_AXES}, none negative."
        )
    return shape, bool(backwards), kind, head.tell()
