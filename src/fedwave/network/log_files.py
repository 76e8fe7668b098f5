"""Reads measured logs of several layouts as one list of rows: device, time, value."""

from __future__ import annotations

import csv
import glob
import os
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError, is_list, short_repr
from fedwave.files.reading import as_path, is_there, opened, read_text
from fedwave.memory import check_memory
from fedwave.types import Array, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

_MOST_BYTES = 2**29  # of a file
_BYTES_PER_BYTE = 12  # of memory, while a text is read
_SUFFIXES = (".csv", ".tsv", ".npz")  # of the files in a folder that are logs
_SEPARATORS = ",;\t"
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
_MISSING = {"", "-", "--", "?", "na", "n/a", "nan", "none", "null"}
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
    missing: tuple[str, ...]
    time_format: str | None
    every: int  # ns between the rows of a log without times


@dataclass(frozen=True)
class Rows:
    """The rows of a log."""

    table: pd.DataFrame  # the columns device, time (ns) and value (NaN: missing)
    devices: list[str]  # in order
    column: str = ""  # of the values; empty if every device has one

    @property
    def shared_clock(self) -> bool:
        """Was every row recorded for all devices at once?"""
        return not self.column


def named_files(path: str | list[str]) -> str | dict[str, str]:
    """The files of a folder, a pattern such as "drives/*.csv" or a list, by device name; another path as it is.

    A device is called like its file without the ending, and where two are alike, like the path from their folder.
    """
    if isinstance(path, list):
        files = path
    elif os.path.isdir(path):
        found = [one for one in Path(path).rglob("*") if one.suffix.lower() in _SUFFIXES and one.is_file()]
        files = sorted(map(str, found), key=_natural)
    elif glob.has_magic(path) and not is_there(path):
        files = sorted((one for one in glob.glob(path, recursive=True) if os.path.isfile(one)), key=_natural)
    else:
        return path
    twice = [stem for stem, times in Counter(Path(one).stem for one in files).items() if times > 1]
    root = os.path.commonpath([os.path.dirname(os.path.abspath(one)) for one in files]) if twice else ""
    long = {one: str(Path(os.path.relpath(one, root)).with_suffix("")) for one in files} if twice else {}
    named = {long[one] if Path(one).stem in twice else Path(one).stem: one for one in files}
    if len(named) < len(files):
        raise FedwaveError(f"{short_repr(path)} names a device by two files: name each file once.")
    return named


def read_rows(source: Any, columns: Columns) -> Rows:
    """The rows of a file, a folder, a pattern, a list of files, a mapping from names to files, or a DataFrame."""
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        return _rows(source, columns, "the log", "1")
    files: str | dict[str, str]
    layout, what = "long", "the file of a log"
    if isinstance(source, Mapping):
        layout, files = "named", {str(name): str(as_path(what, one)) for name, one in source.items()}
    elif is_list(source):
        files = named_files([str(as_path(what, one)) for one in source])
    else:
        files = named_files(str(as_path(what, source)))
    if isinstance(files, str):
        return _rows(_table(files), columns, f"log {files}", Path(files).stem)
    if not files:
        raise FedwaveError(f"{short_repr(source)} has no log: name files that end in {', '.join(_SUFFIXES)}.")
    parts = [_rows(_table(one), columns, f"log {one}", name, layout) for name, one in files.items()]
    devices = list(dict.fromkeys(device for part in parts for device in part.devices))
    return Rows(pd.concat([part.table for part in parts], ignore_index=True), devices, parts[0].column)


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


def read_fading_trace(path: Path) -> FloatArray:
    """The gain in each millisecond of an ns-3 fading trace (.fad): the mean of all resource blocks, ``[T]``.

    A line has the gains of one resource block in dB. A file of one line has those of 100 blocks one after another.
    """
    what = f"fading trace {path}"
    lines = [line.split() for line in read_text(path, what, _MOST_BYTES).splitlines() if line.strip()]
    if not lines or any(len(line) != len(lines[0]) for line in lines):
        raise FedwaveError(f"{what} must have lines of equal length, one per resource block.")
    try:
        gains = np.array(lines, dtype=np.float64)
    except ValueError:
        gains = np.full(1, np.nan)
    if np.isnan(gains).any():
        raise FedwaveError(f"{what} holds something that is not a number: give it numbers and spaces alone.")
    _check_range(gains.ravel(), "gain_db", what)
    if len(lines) == 1 and gains.size % 100 == 0:
        gains = gains.reshape(100, -1)
    mean: FloatArray = (10 ** (gains / 10)).mean(axis=0)
    return mean


def _natural(text: str) -> list[Any]:
    """Sorts node2 before node10."""
    numbers = [(part.lstrip("0") if part.isdecimal() else None, part) for part in re.split(r"(\d+)", text)]
    return [(1, 0, part) if number is None else (0, len(number), number) for number, part in numbers]


def _table(path: str) -> pd.DataFrame:
    """The columns of a file: texts of a CSV file, arrays of an .npz file."""
    return (_arrays if path.lower().endswith(".npz") else _texts)(path, f"log {path}")


def _texts(path: str, what: str) -> pd.DataFrame:
    import pandas as pd

    text = read_text(path, what, _MOST_BYTES)
    check_memory(what, _BYTES_PER_BYTE * float(len(text)), "split the log")
    lines = [line for line in text.splitlines() if line.strip()]
    separator = max(_SEPARATORS, key="".join(lines[-1:]).count)
    top = next((at for at, line in enumerate(lines) if not line.startswith("#")), 0)  # comments end
    if top and any(map(_is_number, lines[top].split(separator))):  # so the last comment is the heading
        top -= lines[top - 1].count(separator) == lines[top].count(separator)
    lines = lines[top:]
    first = "".join(lines[:1])
    if "\0" in text or not first:
        raise FedwaveError(f"{what} is {'not text' if first else 'empty'}: give a CSV file with a heading line.")
    try:
        heading = [name.strip().strip('"') for name in next(csv.reader([first], delimiter=separator))]
        bare = all(map(_is_number, heading))  # a table of numbers alone: a row per round
        names = [str(at + 1) if bare else name.lstrip("# ") or f"Unnamed: {at}" for at, name in enumerate(heading)]
        _check_heading(names, what)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # pandas only warns that it drops fields
            kind = {"dtype": str, "keep_default_na": False, "skipinitialspace": True, "index_col": False}
            table = StringIO("\n".join(lines))
            found = pd.read_csv(table, sep=separator, header=None if bare else 0, names=names, **kind)
    except (ValueError, Warning, csv.Error):  # of pandas too
        raise FedwaveError(
            f"{what} is not a valid CSV file: a line has more fields than the heading, or a quote is never closed."
        ) from None
    found = found.fillna("")  # fields that a short line does not have
    found.attrs["rows are rounds"] = bare
    return found


def _arrays(path: str, what: str) -> pd.DataFrame:
    """Arrays of equal length, or one ``[T, U]`` with the arrays ``device`` (names) and ``time``, if they are there."""
    import pandas as pd

    with opened(path, what, _MOST_BYTES) as (file, _):
        try:
            size = sum(one.file_size for one in zipfile.ZipFile(file).infolist())
            check_memory(what, 2.0 * size, "split the log")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
        except FedwaveError:
            raise
        except Exception:  # numpy and zipfile fail in many ways
            raise FedwaveError(
                f"{what} is not an .npz file of numbers and texts, or is damaged: save it with np.savez."
            ) from None
    tables = [name for name, array in arrays.items() if array.ndim == 2]
    if not tables:
        if any(array.ndim != 1 for array in arrays.values()) or len({len(array) for array in arrays.values()}) != 1:
            raise FedwaveError(f"{what} must hold arrays of equal length, or one array [time, device].")
        return pd.DataFrame(arrays)
    if len(tables) > 1:
        raise FedwaveError(f"{what} has {len(tables)} arrays of two axes, {listed(sorted(tables), 12)}: keep one.")
    values = arrays.pop(tables[0])
    named = {_plain(name): array for name, array in arrays.items()}
    names = next((named[one] for one in ("device", "devices", "names") if one in named), None)
    names = [str(name) for name in (range(1, values.shape[1] + 1) if names is None else np.ravel(names))]
    if len(names) != values.shape[1]:
        raise FedwaveError(f"{what} has {len(names)} names for {values.shape[1]} columns: give one name per column.")
    times = next((named[_plain(one)] for one in _TIMES if _plain(one) in named), None)
    _check_heading(names, what)
    found = pd.DataFrame(values, columns=names)
    found.attrs["rows are rounds"] = times is None
    if times is not None:
        if times.shape != (len(values),):
            raise FedwaveError(f"{what} has times of shape {times.shape} for {len(values)} rows: give one per row.")
        found.insert(0, "timestamp", times)
    return found


def _rows(table: pd.DataFrame, columns: Columns, what: str, name: str, layout: str = "") -> Rows:
    """The rows of a table with a column of values, or by itself with one per device.

    Without a column of devices all rows are those of the device ``name``. The layout is "long" where other tables
    follow, and "named" where they are the device's for certain.
    """
    import pandas as pd

    if isinstance(table.index, pd.DatetimeIndex):
        table = table.rename_axis("timestamp").reset_index()
    table = table.set_axis([str(one) for one in table.columns], axis=1)
    table = table[[one for one in table.columns if not re.fullmatch(r"Unnamed: \d+|", one)]]  # such as a saved index
    _check_heading(list(table.columns), what)
    if not len(table):
        raise FedwaveError(f"{what} has no row below its heading: give it rows.")
    column = _find(table, *((columns.column,) if columns.column else COLUMNS[columns.value]))
    if column is None and (columns.column or layout):
        wanted = columns.column or columns.value
        raise FedwaveError(
            f"{what} has no column {short_repr(wanted)}, but {listed(list(table.columns), 12)}: name the one of the "
            "values with column=."
        )
    time, own = _times(table, columns, what)
    if column is None:
        devices = [one for one in table.columns if one != own]
        wide = {one: _numbers(table[one], columns, f"{what}, column {short_repr(one)}") for one in devices}
        if not devices:
            raise FedwaveError(f"{what} has no column beside the times: give it one of values, or one per device.")
        return Rows(pd.DataFrame(wide).melt(var_name="device").assign(time=np.tile(time, len(devices))), devices)
    value = _numbers(table[column], columns, f"{what}, column {short_repr(column)}")
    known = _DEVICES if columns.device == "device" else (columns.device,)
    heading = None if layout == "named" else _find(table, *known)
    device = [name] * len(table)
    if heading:
        device = ["" if pd.isna(one) else str(one).strip() for one in table[heading]]
    rows = pd.DataFrame({"device": device, "time": time, "value": value})
    devices = sorted(rows["device"].unique(), key=_natural)
    if "" in devices:
        raise FedwaveError(f"{what} has a row without the name of a device: give each its name.")
    return Rows(rows, devices, column)


def _find(table: pd.DataFrame, *names: str) -> str | None:
    """The first of the columns that is there, at last without regard to capitals and signs."""
    plain = {_plain(one): one for one in reversed(list(table.columns))}
    found = [one for one in names if one in table.columns] + [plain[_plain(o)] for o in names if _plain(o) in plain]
    return found[0] if found else None


def _times(table: pd.DataFrame, columns: Columns, what: str) -> tuple[IntArray, str | None]:
    """The time of every row in ns, and the column that has it."""
    import pandas as pd

    if columns.time is None or table.attrs.get("rows are rounds"):
        return np.arange(len(table), dtype=np.int64) * columns.every, None
    name = _find(table, *(_TIMES if columns.time == "timestamp" else [columns.time]))
    if name is None:
        raise FedwaveError(
            f"{what} has no column {short_repr(columns.time)}: name the column of the times with time=, or, if each "
            f"row is a round, give time=None. The columns are {listed(list(table.columns), 12)}."
        )
    given, format_ = table[name], columns.time_format
    texts = given.astype(str).str.strip()
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(np.float64)
    if given.dtype.kind != "M" and format_ is None and np.isfinite(numbers).all():
        largest = float(np.abs(numbers).max())
        factor = next(ns for limit, ns in _EPOCHS if largest >= limit)
        if largest * factor >= 2**62:
            raise FedwaveError(
                f"{what}, column {short_repr(name)} has the time {largest:g}, must be seconds, ms, us or ns."
            )
        microseconds = np.round(numbers * (factor / 1000)).astype(np.int64)  # a float cannot hold the ns of a date
        return microseconds * 1000, name
    iso = texts.str.replace(_YEAR_FIRST, r"\1-\2-\3T\4:\5:\6", regex=True) if format_ is None else texts
    found = pd.to_datetime(iso, format=format_ or "ISO8601", errors="coerce", utc=True)
    wrong = ~found.dt.year.between(1700, 2250).to_numpy()  # ns of other years are too many
    if wrong.any():
        at = int((wrong & np.isnan(numbers) if np.isfinite(numbers).any() else wrong).argmax())
        raise FedwaveError(
            f"{what}, row {at + 1}: the time is {short_repr(texts.iloc[at])}, must be seconds or like "
            "2020-01-31T23:59:59: say how it is written with time_format=, such as '%d/%m/%Y %H:%M:%S'."
        )
    return pd.DatetimeIndex(found).as_unit("ns").asi8.astype(np.int64), name


def _numbers(given: pd.Series, columns: Columns, what: str) -> FloatArray:
    """A column as numbers, NaN where it is empty."""
    import pandas as pd

    texts = given.where(given.notna(), "").astype(str).str.strip().str.lower()
    empty = texts.isin(_MISSING | {str(one).strip().lower() for one in columns.missing}).to_numpy()
    found: FloatArray = pd.to_numeric(texts.where(~empty), errors="coerce").to_numpy(np.float64)
    wrong = np.isnan(found) & ~empty
    if wrong.any():
        at = int(wrong.argmax())
        raise FedwaveError(
            f"{what}, row {at + 1}: {short_repr(texts.iloc[at])} must be a number: name what stands for no value with "
            "missing=, and the one column of the values, if there is one, with column=."
        )
    _check_range(found, columns.value, what)
    return found


_RANGES = {
    "snr_db": (-300.0, 300.0, "dB"),
    "gain_db": (-300.0, 300.0, "dB"),
    "rsrp_dbm": (-300.0, 100.0, "dBm"),
    "gain": (0.0, 1e30, "a linear gain (is it in dB? then value='gain_db')"),
    "count": (0.0, 1e9, "a whole number"),
}


def _check_range(values: Array, kind: str, what: str) -> None:
    low, high, unit = _RANGES[kind]
    wrong = (values < low) | (values > high)
    if kind == "count":
        wrong |= np.isfinite(values) & (values != np.floor(values))
    if wrong.any():
        at = int(wrong.argmax())
        raise FedwaveError(
            f"{what}, row {at + 1}: the value is {values[at]:g}, must be {unit} between {low:g} and {high:g}: if it "
            "stands for no value, name it with missing=."
        )


def _check_heading(names: list[str], what: str) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise FedwaveError(f"{what} has {times} columns {short_repr(name)}: keep one.")


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
