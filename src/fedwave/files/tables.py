"""Bounded readers for tables with a heading (.csv) and recorded arrays of numbers (.npy and .csv)."""

from __future__ import annotations

import csv
import io
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, short_repr
from fedwave.files.reading import as_path, opened, read_text
from fedwave.memory import check_memory
from fedwave.types import Array, FloatArray

_MOST_TABLE = 64_000_000  # bytes
_MOST_LINES = 1_000_000
_MOST_NUMBERS = 256_000_000  # bytes of a .csv file
_MOST_NPY = 2**31  # bytes
_BYTES_PER_NUMBER = 16  # as it is in the file, and as float64
_MOST_AXES = 3


def read_table(path: str | Path, what: str, line: str = "line") -> tuple[list[str], list[list[str]]]:
    """The heading and the fields of every line below it, without blank lines and lines that begin with #.

    Messages call a line below the heading ``line``.
    """
    text = read_text(path, what, _MOST_TABLE)
    lines = [one for one in text.splitlines() if one.strip() and not one.lstrip().startswith("#")]
    if len(lines) > _MOST_LINES + 1:
        raise FedwaveError(f"{what} has {len(lines):,} lines, must have at most {_MOST_LINES:,}.")
    try:
        # Strict: otherwise a quote that is never closed would silently take all that follows as one field.
        heading, *rows = list(csv.reader(lines, strict=True)) or [[]]
    except csv.Error as error:
        raise FedwaveError(f"{what} is not a valid CSV file: {error}.") from None
    heading = [name.strip() for name in heading]
    if len(heading) == 1 and ";" in heading[0]:
        raise _semicolons(what)
    for name, times in Counter(heading).items():  # list.count would be quadratic
        if name and times > 1:
            raise FedwaveError(f"{what} has two columns {short_repr(name)}: keep one.")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(heading):
            raise FedwaveError(f"{what}, {line} {number}: has {len(row)} fields, must have {len(heading)}.")
    return heading, rows


def read_array(path: str | Path, what: str) -> Array:
    """The numbers of a .npy file, or of a .csv file without a heading and with a line per round."""
    path = as_path(f"the file of {what}", path)
    name = f"{what} {path}"
    if path.suffix == ".csv":
        return _read_numbers(path, name)
    if path.suffix != ".npy":
        raise FedwaveError(f"{name} ends in {path.suffix!r}, must end in .npy or .csv.")
    with opened(path, name, _MOST_NPY):  # a regular file of bounded size
        pass
    try:  # mapped: takes no memory until it is copied
        mapped = np.lib.format.open_memmap(path, mode="r")
    except Exception:  # numpy fails in many ways
        raise FedwaveError(
            f"{name} is not a .npy file of numbers, or is corrupt: save one array of numbers with np.save."
        ) from None
    if mapped.dtype.kind not in "biuf":
        raise FedwaveError(f"{name} holds values of type {short_repr(str(mapped.dtype))}, must hold numbers.")
    if mapped.ndim > _MOST_AXES:
        raise FedwaveError(f"{name} has {mapped.ndim} axes, must have at most {_MOST_AXES}.")
    check_memory(name, _BYTES_PER_NUMBER * mapped.size, "record fewer rounds")
    return np.array(mapped)


def _read_numbers(path: str | Path, what: str) -> FloatArray:
    """The numbers of a file without a heading, ``[line, column]``."""
    with opened(path, what, _MOST_NUMBERS) as (file, _), warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy only warns about an empty file
        text = io.TextIOWrapper(file, encoding="utf-8-sig")
        try:
            return np.loadtxt(text, delimiter=",", ndmin=2)
        except UnicodeDecodeError:
            raise FedwaveError(f"{what} cannot be read: it is not text.") from None
        except (OSError, ValueError, UserWarning) as error:
            reason = _short(error)
            if ";" in reason:
                raise _semicolons(what) from None
            raise FedwaveError(f"{what} cannot be read: {reason}.") from None


def as_number(value: Any, what: str) -> float:
    """The value as a number; refuses some texts that Python accepts, such as 1_000 and digits of other scripts."""
    odd = isinstance(value, str) and ("_" in value or not value.strip().isascii())
    try:
        if not odd and not isinstance(value, bool):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise FedwaveError(f"{what} is {short_repr(value)}, must be a number.")


def _semicolons(what: str) -> FedwaveError:
    return FedwaveError(f"{what} has semicolons (;) between its fields, must have commas: export it with commas.")


def _short(error: Exception) -> str:
    """A message of numpy, shortened and without its advice to programmers."""
    text = " ".join(str(error).split()).partition("; use `usecols`")[0].rstrip(".")
    return text if len(text) <= 200 else f"{text[:100]} ... {text[-60:]}"
