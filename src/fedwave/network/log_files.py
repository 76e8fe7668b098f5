"""Reads measured logs of several layouts as one long table: device, time, value."""

from __future__ import annotations

import glob
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError, is_list, short_repr
from fedwave.files.archive import refusing
from fedwave.files.reading import as_path, is_there, opened, read_text
from fedwave.memory import check_memory
from fedwave.types import Array, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

_MOST_BYTES = 2**29  # of a file
_SUFFIXES = (".csv", ".tsv", ".npz")  # of the files in a folder that are logs
_TIMES = ("timestamp", "time", "datetime", "date_time", "time_s", "seconds", "date", "t")
_DEVICES = ("device", "device_id", "ue_id")
# Headings under which loggers write a value; letters and digits alone are compared.
COLUMNS = {
    "snr_db": ("snr_db", "snr", "sinr_db", "sinr", "ss_sinr"),
    "gain_db": ("gain_db",),
    "gain": ("gain",),
    "rsrp_dbm": ("rsrp_dbm", "rsrp", "ss_rsrp"),
    "count": ("count", "counts", "arrivals", "packets", "shards"),
}
_DB_RANGE = (-300.0, 300.0, "dB or dBm")
_RANGES = {
    "gain": (0.0, 1e30, "a linear gain (is it in dB? then value='gain_db')"),
    "count": (0.0, 1e9, "a whole number"),
}
_MISSING = {"", "-", "--", "?", "na", "n/a", "nan", "none", "null", "2147483647"}  # Android writes the last
# 2019.11.28_07.27.46, as drive-test apps write it; only with the year first are day and month certain.
_YEAR_FIRST = r"^(\d{4})[./-](\d{1,2})[./-](\d{1,2})[ _T](\d{1,2})[.:](\d{2})[.:](\d{2})"
_EPOCHS = ((1e17, 1), (1e14, 10**3), (1e11, 10**6), (0, 10**9))  # larger numbers of time are ns, us, ms; else s


@dataclass(frozen=True)
class Columns:
    """Where a log has its values."""

    value: str
    column: str | None
    time: str | None
    device: str
    time_format: str | None
    every: int  # ns between the rows of a log without times


@dataclass(frozen=True)
class Rows:
    """The rows of a log."""

    table: pd.DataFrame  # the columns device, time (ns) and value (NaN: missing)
    devices: list[str]  # in order
    column: str = ""  # of the values; empty if every device has one, so that a row was recorded for all at once


def named_files(path: str | list[str]) -> str | dict[str, str]:
    """The files of a folder, a pattern such as "drives/*.csv" or a list, by device name; another path as it is.

    A device has the name of its file without the ending. If two files have the same name, all devices have the paths
    of their files below the common folder.
    """
    if isinstance(path, list):
        files = path
    elif os.path.isdir(path):
        found = [one for one in Path(path).rglob("*") if one.suffix.lower() in _SUFFIXES and one.is_file()]
        files = sorted(map(str, found), key=_natural)
    elif glob.has_magic(path) and not is_there(path):
        files = sorted(filter(os.path.isfile, glob.glob(path, recursive=True)), key=_natural)
    else:
        return path
    names = [Path(one).stem for one in files]
    if len(set(names)) < len(files):
        root = os.path.commonpath([os.path.dirname(os.path.abspath(one)) for one in files])
        names = [str(Path(os.path.relpath(one, root)).with_suffix("")) for one in files]
    if len(set(names)) < len(files):
        raise FedwaveError(f"{short_repr(path)} names a device by two files: name each file once.")
    return dict(zip(names, files, strict=True))


def read_rows(source: Any, columns: Columns) -> Rows:
    """The rows of a file, a folder, a pattern, a list of files, a mapping from names to files, or a DataFrame."""
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        return _rows(source, columns, "the log", "1")
    what = "the file of a log"
    if isinstance(source, Mapping):
        files: Any = {str(name): str(as_path(what, one)) for name, one in source.items()}
    elif is_list(source):
        files = named_files([str(as_path(what, one)) for one in source])
    else:
        files = named_files(str(as_path(what, source)))
    if isinstance(files, str):
        return _rows(_table(files), columns, f"log {files}", Path(files).stem)
    if not files:
        raise FedwaveError(f"{short_repr(source)} has no log: name files that end in {', '.join(_SUFFIXES)}.")
    parts = [_rows(_table(file), columns, f"log {file}", name, alone=False) for name, file in files.items()]
    return Rows(pd.concat([part.table for part in parts], ignore_index=True), list(files), parts[0].column)


def is_log(path: Path) -> bool:
    """Is it a log, and not a run folder, a trace or a device table? A pattern of files is one."""
    if path.is_dir():
        return not (path / "run.json").exists() and bool(named_files(str(path)))
    if path.suffix == ".csv" and path.is_file():
        lines = read_text(path, f"{path}", _MOST_BYTES).splitlines()
        heading = next((line for line in lines if line.strip() and not line.startswith("#")), "")
        return "rate" not in {name.strip() for name in heading.split(",")}
    if path.suffix == ".npz" and zipfile.is_zipfile(path):
        return "header.npy" not in zipfile.ZipFile(path).namelist()
    return path.suffix in (".fad", ".tsv") or isinstance(named_files(str(path)), dict)


def read_fading_trace(path: Path) -> Rows:
    """The linear gain in each millisecond of an ns-3 fading trace (.fad): the mean of all resource blocks.

    A line has the gains of one resource block in dB.
    """
    import pandas as pd

    what = f"fading trace {path}"
    lines = [line.split() for line in read_text(path, what, _MOST_BYTES).splitlines() if line.strip()]
    try:
        gains = np.array(lines or [["nan"]], dtype=np.float64)
    except ValueError:  # a text, or lines of different lengths
        gains = np.full((1, 1), np.nan)
    if np.isnan(gains).any():
        raise FedwaveError(f"{what} must have numbers alone, as many in each line: a line per resource block.")
    _check_range(gains.ravel(), "gain_db", what)
    mean = (10 ** (gains / 10)).mean(axis=0)
    return Rows(pd.DataFrame({"device": path.stem, "time": np.arange(mean.size) * 10**6, "value": mean}), [path.stem])


def _natural(text: str) -> str:
    """Sorts node2 before node10."""
    return re.sub(r"\d+", lambda number: number[0].zfill(20), text)


def _table(path: str) -> pd.DataFrame:
    """The columns of a file: texts of a CSV file, arrays of an .npz file."""
    import pandas as pd

    what = f"log {path}"
    if path.lower().endswith(".npz"):
        return _arrays(path, what)
    text = read_text(path, what, _MOST_BYTES)
    check_memory(what, 12.0 * len(text), "split the log")
    lines = [line for line in text.splitlines() if line.strip()]
    separator = max(",;\t", key="".join(lines[-1:]).count)
    top = next((at for at, line in enumerate(lines) if not line.startswith("#")), 0)  # comments end
    if top and any(map(_is_number, lines[top].split(separator))):  # numpy.savetxt writes the heading as a comment
        top -= lines[top - 1].count(separator) == lines[top].count(separator)
    kind: Any = {"dtype": str, "keep_default_na": False, "skipinitialspace": True}
    try:
        found = pd.read_csv(StringIO("\n".join(lines[top:])), sep=separator, header=None, **kind)
    except ValueError:  # of pandas too
        raise FedwaveError(
            f"{what} is not a valid CSV file: it is empty, a line has more fields than the heading, or a quote is "
            "never closed."
        ) from None
    found = found.fillna("")  # fields that a short line does not have
    heading = [name.strip().strip('"') for name in found.iloc[0]]
    if all(map(_is_number, heading)):  # numbers alone
        return found.set_axis([str(at + 1) for at in range(len(heading))], axis=1)
    return found.iloc[1:].set_axis([name.lstrip("# ") for name in heading], axis=1).reset_index(drop=True)


def _arrays(path: str, what: str) -> pd.DataFrame:
    """Arrays of equal length, or one ``[T, U]`` with the arrays ``device`` (names) and ``time``, if they are there."""
    import pandas as pd

    with opened(path, what, _MOST_BYTES) as (file, _), refusing(what, "log 1"):
        check_memory(what, 2.0 * sum(one.file_size for one in zipfile.ZipFile(file).infolist()), "split the log")
        file.seek(0)
        arrays = dict(np.load(file, allow_pickle=False))
        tables = [name for name, array in arrays.items() if array.ndim == 2]
        if not tables:
            return pd.DataFrame(arrays)
        if len(tables) > 1:
            raise FedwaveError("it has several arrays of two axes: keep one")
        values, time = arrays.pop(tables[0]), _find(arrays, *_TIMES)
        found = pd.DataFrame(values, columns=arrays.get("device", 1 + np.arange(values.shape[1])))
        return found if time is None else found.assign(timestamp=arrays[time])


def _rows(table: pd.DataFrame, columns: Columns, what: str, name: str, alone: bool = True) -> Rows:
    """The rows of a table with one column of values, or, where it is ``alone``, also with one per device.

    Beside other tables, or without a column of devices, all rows are those of the device ``name``.
    """
    import pandas as pd

    if isinstance(table.index, pd.DatetimeIndex):
        table = table.rename_axis("timestamp").reset_index()
    table = table.set_axis([str(one) for one in table.columns], axis=1)
    table = table.loc[:, [not re.fullmatch(r"Unnamed: \d+|", one) for one in table.columns]]  # such as a saved index
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise FedwaveError(f"{what} has the column {short_repr(twice[0])} twice: keep one.")
    if not len(table):
        raise FedwaveError(f"{what} has no row below its heading: give it rows.")
    column = _find(table, *((columns.column,) if columns.column else COLUMNS[columns.value]))
    time, own = _times(table, columns, what)
    devices = [one for one in table.columns if one != own] if alone and not columns.column else []
    named = [column] if column else devices
    if not named:
        raise FedwaveError(
            f"{what} has no column {short_repr(columns.column or columns.value)}: name the one of the values with "
            f"column=, or give a table with a column per device. The columns are {listed(list(table.columns), 12)}."
        )
    values = [_numbers(table[one], columns, f"{what}, column {short_repr(one)}") for one in named]
    device = np.repeat(np.array(named, dtype=object), len(table))
    if column:
        heading = _find(table, *(_DEVICES if columns.device == "device" else (columns.device,))) if alone else None
        device = _as_texts(table[heading]).to_numpy() if heading else np.full(len(table), name, dtype=object)
        devices = sorted(set(device), key=_natural)
    if "" in devices:
        raise FedwaveError(f"{what} has a row without the name of a device: give each its name.")
    rows = pd.DataFrame({"device": device, "time": np.tile(time, len(named)), "value": np.concatenate(values)})
    return Rows(rows, devices, column or "")


def _find(table: pd.DataFrame | dict[str, Array], *names: str) -> str | None:
    """The first of the columns that is there, at last without regard to capitals and signs."""
    plain = {_plain(one): one for one in reversed(list(table))}
    found = [one for one in names if one in table] + [plain[_plain(o)] for o in names if _plain(o) in plain]
    return found[0] if found else None


def _times(table: pd.DataFrame, columns: Columns, what: str) -> tuple[IntArray, str | None]:
    """The time of every row in ns, and the column that has it."""
    import pandas as pd

    name = _find(table, *(_TIMES if columns.time == "timestamp" else [columns.time])) if columns.time else None
    without_headings = list(table.columns) == [str(at + 1) for at in range(table.shape[1])]
    if columns.time is None or (name is None and without_headings):  # a row is a round
        return np.arange(len(table), dtype=np.int64) * columns.every, None
    if name is None:
        raise FedwaveError(
            f"{what} has no column {short_repr(columns.time)}: name the column of the times with time=, or, if each "
            f"row is a round, give time=None. The columns are {listed(list(table.columns), 12)}."
        )
    texts = table[name].astype(str).str.strip()
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(np.float64)
    if columns.time_format is None and np.isfinite(numbers[0]):
        factor = next((ns for limit, ns in _EPOCHS if np.nanmax(np.abs(numbers)) >= limit))
        wrong = ~(np.abs(numbers) < 2**62 / factor)
        microseconds = np.round(np.where(wrong, 0, numbers) * (factor / 1000))  # a float cannot hold the ns of a date
        time = microseconds.astype(np.int64) * 1000
    else:
        iso = texts if columns.time_format else texts.str.replace(_YEAR_FIRST, r"\1-\2-\3T\4:\5:\6", regex=True)
        try:
            dates = pd.to_datetime(iso, format=columns.time_format or "ISO8601", errors="coerce", utc=True)
        except ValueError as error:
            raise FedwaveError(f"time_format is {short_repr(columns.time_format)}: {error}.") from None
        wrong = ~dates.dt.year.between(1700, 2250).to_numpy()  # ns of other years are too many
        time = pd.DatetimeIndex(dates.mask(wrong)).as_unit("ns").asi8.astype(np.int64)
    if wrong.any():
        at = int(wrong.argmax())
        raise FedwaveError(
            f"{what}, row {at + 1}: the time is {short_repr(texts.iloc[at])}, must be seconds, ms, us, ns or like "
            "2020-01-31T23:59:59: say how it is written with time_format=, such as '%d/%m/%Y %H:%M:%S'."
        )
    return time, name


def _as_texts(given: pd.Series) -> pd.Series:
    """A column as texts, empty where it has nothing."""
    return given.astype(object).where(given.notna(), "").astype(str).str.strip()


def _numbers(given: pd.Series, columns: Columns, what: str) -> FloatArray:
    """A column as numbers, NaN where it is empty."""
    import pandas as pd

    texts = _as_texts(given).str.lower()
    empty = texts.isin(_MISSING).to_numpy()
    found: FloatArray = pd.to_numeric(texts.where(~empty), errors="coerce").to_numpy(np.float64)
    wrong = np.isnan(found) & ~empty
    if wrong.any():
        at = int(wrong.argmax())
        raise FedwaveError(
            f"{what}, row {at + 1}: {short_repr(texts.iloc[at])} must be a number, or empty for no value: name the "
            "column of the values, if there is only one, with column=."
        )
    _check_range(found, columns.value, what)
    return found


def _check_range(values: Array, kind: str, what: str) -> None:
    low, high, unit = _RANGES.get(kind, _DB_RANGE)
    wrong = (values < low) | (values > high)
    if kind == "count":
        wrong |= np.isfinite(values) & (values != np.floor(values))
    if wrong.any():
        at = int(wrong.argmax())
        raise FedwaveError(
            f"{what}, row {at + 1}: the value is {values[at]:g}, must be {unit} between {low:g} and {high:g}, or "
            "empty for no value."
        )


def _plain(name: Any) -> str:
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def listed(names: Sequence[str], most: int) -> str:
    """The first of the names for a sentence, which may come from an untrusted file."""
    shown = [name if name.isprintable() and len(name) <= 60 else short_repr(name) for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")
