"""Recorded arrays from .npy and .csv files, read once into memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedwave.errors import FedwaveError, short_repr
from fedwave.files.reading import as_path, opened
from fedwave.files.tables import read_numbers
from fedwave.memory import check_memory
from fedwave.types import Array

_MOST_BYTES = 2**31
_BYTES_PER_NUMBER = 16  # as it is in the file, and as float64
_MOST_AXES = 3


def read_array(path: str | Path, what: str) -> Array:
    """The numbers of a .npy file, or of a .csv file without a heading and with a line per round."""
    path = as_path(f"the file of {what}", path)
    name = f"{what} {path}"
    if path.suffix == ".csv":
        return read_numbers(path, name)
    if path.suffix != ".npy":
        raise FedwaveError(f"{name} ends in {path.suffix!r}, must end in .npy or .csv.")
    with opened(path, name, _MOST_BYTES):  # a regular file of bounded size
        pass
    try:  # mapped: takes no memory until it is copied
        mapped = np.lib.format.open_memmap(path, mode="r")
    except Exception:  # numpy fails in many ways
        raise FedwaveError(
            f"{name} is not a .npy file of numbers, or is damaged: save one array of numbers with np.save."
        ) from None
    if mapped.dtype.kind not in "biuf":
        raise FedwaveError(f"{name} holds values of type {short_repr(str(mapped.dtype))}, must hold numbers.")
    if mapped.ndim > _MOST_AXES:
        raise FedwaveError(f"{name} has {mapped.ndim} axes, must have at most {_MOST_AXES}.")
    check_memory(name, _BYTES_PER_NUMBER * mapped.size, "record fewer rounds")
    return np.array(mapped)
