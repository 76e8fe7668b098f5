"""The devices of a network as a table of columns, and how to read one from a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, did_you_mean, is_list, is_whole, short_repr
from fedwave.files.reading import as_path, read_text
from fedwave.files.tables import as_number, read_table
from fedwave.types import FloatArray


@dataclass(frozen=True)
class Device:
    """One device, for networks that are written by hand.

    Parameters:

    * ``rate``: theta, the mean number of shards that arrive per round, >= 0
    * ``distance_m``: distance to the access point in metres, > 0; or instead of it
    * ``snr_db``: the mean SNR in dB, without interference, at the transmit power that the device has
    * ``tx_power_dbm``: transmit power in dBm; it has no effect on an ``snr_db``
    * ``interference_dbm``: interference at the receiver in dBm; -inf: none
    * ``miss_probability``: probability of missing a broadcast of the central model
    * ``buffer_limit``: most shards that wait undelivered; arrivals beyond it are lost
    * ``name``: its name in results; a device without a name is called by its number

    >>> import fedwave as fw
    >>> gate = fw.Device(rate=5, distance_m=400, name="gate")
    >>> gate.tx_power_dbm, gate.buffer_limit
    (23.0, inf)
    """

    rate: float
    distance_m: float | None = None
    tx_power_dbm: float = 23.0
    interference_dbm: float = -np.inf
    miss_probability: float = 0.0
    buffer_limit: float = np.inf
    name: str = ""
    snr_db: float | None = None


DEVICE_COLUMNS = tuple(f.name for f in fields(Device) if f.name != "name")
_CLASS = "power_class"
_SHOWN = 30  # devices that a notebook shows
_MOST_DEVICES = 10_000_000  # of a table, counted with ``count``
POWER_CLASSES = {1: 31.0, 2: 26.0, 3: 23.0, 5: 20.0, 6: 14.0}  # dBm, as in 3GPP TS 36.101
_DEFAULTS: dict[str, Any] = {f.name: f.default for f in fields(Device) if f.default is not MISSING} | {"count": 1}
_EITHER = ("distance_m", "snr_db")  # one of them is given
_DEFAULTS |= dict.fromkeys(_EITHER, np.nan)
_WORDS = {word for name in (*DEVICE_COLUMNS, "power_class") for word in name.split("_") if len(word) > 2}


@dataclass(frozen=True, eq=False, repr=False)
class DeviceTable:
    """All devices of a network: a read-only float64 array ``[U]`` for each number of ``Device``.

    A column is given as one value per device, or as one value for all. ``name`` is empty, or holds a different name for
    each device. ``columns`` are columns of your own, by name: ``column`` reads them, here and in schedulers and metrics
    (``seen.problem.column``, ``played.network.table.column``). A million devices fit in 56 MB.

    >>> import fedwave as fw
    >>> table = fw.DeviceTable(rate=[1, 3, 5], distance_m=[100, 200, 300], tx_power_dbm=20)
    >>> table
    DeviceTable: 3 devices, rates 1 to 5, 100 to 300 m
      tx_power_dbm 20
    >>> table.tx_power_dbm, table.replace(rate=2).rate
    (array([20., 20., 20.]), array([2., 2., 2.]))
    >>> fw.DeviceTable(rate=[1, 3], snr_db=[20, 5], columns={"battery_j": [100, 50]}).column("battery_j")
    array([100.,  50.])
    """

    rate: FloatArray
    distance_m: FloatArray | float = np.nan
    tx_power_dbm: FloatArray | float = 23.0
    interference_dbm: FloatArray | float = -np.inf
    miss_probability: FloatArray | float = 0.0
    buffer_limit: FloatArray | float = np.inf
    name: tuple[str, ...] = ()
    snr_db: FloatArray | float = np.nan
    columns: tuple[tuple[str, FloatArray], ...] | Mapping[str, Any] = ()  # of your own

    def __post_init__(self) -> None:
        given = dict(self.columns)
        for name in given:
            if not (isinstance(name, str) and name.isidentifier()) or name in (*DEVICE_COLUMNS, "name", "count"):
                raise FedwaveError(f"a column is called {short_repr(name)}, must be an identifier of its own.")
        columns = {name: _numbers(name, getattr(self, name)) for name in DEVICE_COLUMNS}
        columns |= {name: _numbers(name, values) for name, values in given.items()}
        size = max(column.size for column in columns.values())
        if min(column.size for column in columns.values()) == 0:
            raise FedwaveError("the device table is empty: give it at least one device.")
        for name, column in columns.items():
            if column.size not in (1, size) or column.ndim > 1:
                raise FedwaveError(
                    f"device column {name!r} has {column.size} values for {size} devices: "
                    "give one value per device, or one for all."
                )
            column = np.array(np.broadcast_to(column, (size,)))
            column.flags.writeable = False
            columns[name] = column
        for name in DEVICE_COLUMNS:
            _check_column(name, columns[name])
            object.__setattr__(self, name, columns[name])
        object.__setattr__(self, "columns", tuple((name, columns[name]) for name in given))
        both = ~np.isnan(columns["distance_m"]) & ~np.isnan(columns["snr_db"])
        if both.any():
            raise FedwaveError(f"device {int(np.argmax(both)) + 1} has a distance_m and an snr_db: give one of them.")
        object.__setattr__(self, "name", _checked_names(self.name, size))

    def __len__(self) -> int:
        return int(np.size(self.rate))

    def column(self, name: str) -> FloatArray:
        """A column by name, ``[U]``: one of your own, or one of ``Device``."""
        found = dict(self.columns) | {one: getattr(self, one) for one in DEVICE_COLUMNS}
        if name not in found:
            raise FedwaveError(f"the device table has no column {short_repr(name)}; {did_you_mean(str(name), found)}")
        column: FloatArray = found[name]
        return column

    def __repr__(self) -> str:
        rate = np.asarray(self.rate)
        spans = [
            f", {np.nanmin(column):g} to {np.nanmax(column):g} {unit}"
            for column, unit in ((np.asarray(self.distance_m), "m"), (np.asarray(self.snr_db), "dB"))
            if not np.isnan(column).all()
        ]
        return (
            f"DeviceTable: {len(self)} devices, rates {rate.min():g} to {rate.max():g}{''.join(spans)}{self.others()}"
        )

    def others(self) -> str:
        """The other columns that differ from their defaults, in a line of its own; empty if there are none."""
        spans = []
        for name in (*DEVICE_COLUMNS[2:-1], *dict(self.columns)):
            column = self.column(name)
            if np.any(column != _DEFAULTS.get(name)):
                low, high = column.min(), column.max()
                spans.append(f"{name} {low:g}" if low == high else f"{name} {low:g} to {high:g}")
        return f"\n  {', '.join(spans)}" if spans else ""

    def _repr_html_(self) -> str:
        """The first devices as a table, for notebooks."""
        names = [name for name in DEVICE_COLUMNS if np.any(getattr(self, name) != _DEFAULTS.get(name))]
        names = [name for name in (*names, *dict(self.columns)) if not np.isnan(self.column(name)).all()]
        rows = [f"<tr><th>device</th>{''.join(f'<th>{name}</th>' for name in names)}</tr>"]
        for u in range(min(len(self), _SHOWN)):
            cells = "".join(f"<td>{self.column(name)[u]:g}</td>" for name in names)
            rows.append(f"<tr><td>{escape(self.name[u]) if self.name else u + 1}</td>{cells}</tr>")
        if len(self) > _SHOWN:
            rows.append(f"<tr><td colspan={len(names) + 1}>and {len(self) - _SHOWN} more</td></tr>")
        return f"<table>{''.join(rows)}</table>"

    def replace(self, **columns: Any) -> DeviceTable:
        """A copy with some columns replaced, by an array or by one value for all devices."""
        return DeviceTable(**{f.name: getattr(self, f.name) for f in fields(self)} | columns)

    @classmethod
    def of(cls, devices: DeviceTable | Iterable[Device | Mapping[str, Any]]) -> DeviceTable:
        """Makes a table of Device records or of mappings with the same names; a table is returned as it is.

        In a mapping, ``count`` stands for several equal devices.

        >>> import fedwave as fw
        >>> fw.DeviceTable.of([fw.Device(1, 100), {"rate": 3, "distance_m": 400, "count": 2}]).rate
        array([1., 3., 3.])
        """
        if isinstance(devices, DeviceTable):
            return devices
        if not is_list(devices):
            raise FedwaveError(
                f"devices is {devices!r}, must be a DeviceTable or a list such as "
                "[Device(rate=1, distance_m=100)]; read_devices reads a file."
            )
        rows = []
        for d in devices:
            if not isinstance(d, (Device, Mapping)):
                raise FedwaveError(
                    f'a device is {d!r}, must be a Device or a mapping such as {{"rate": 1, "distance_m": 100}}.'
                )
            rows.append(dict(vars(d) if isinstance(d, Device) else d))
        return _from_rows(rows, "the device table")


def read_devices(path: str | Path) -> DeviceTable:
    """Reads a device table from CSV with a heading line, or from YAML with a list of mappings.

    The columns are the fields of ``Device``; rate is required, and either distance_m or snr_db, unless the fading is a
    log of measured SNRs. ``count`` stands for
    several equal devices, whose names are numbered. ``power_class`` (1, 2, 3, 5 or 6 of 3GPP TS 36.101) stands for
    31, 26, 23, 20 or 14 dBm. Any other column with numbers is one of your own.

    >>> import fedwave as fw
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "devices.csv"
    ...     _ = path.write_text("name,count,rate,distance_m\\nsensor,2,1,100\\ngate,1,8,300\\n")
    ...     table = fw.read_devices(path)
    >>> table.name, table.rate
    (('sensor 1', 'sensor 2', 'gate'), array([1., 1., 8.]))
    """
    path = as_path("the file of a device table", path)
    what = f"device table {path}"
    if path.suffix.lower() in (".yaml", ".yml"):
        return _from_rows(_yaml_rows(path, what), what)
    if path.suffix.lower() == ".csv":
        heading, lines = read_table(path, what, "device line")
        rows = [{name: cell for name, cell in zip(heading, line, strict=True) if cell.strip()} for line in lines]
        return _from_rows(rows, what)
    raise FedwaveError(f"{what} must end in .csv, .yaml or .yml.")


def _yaml_rows(path: Path, what: str) -> list[dict[str, Any]]:
    from fedwave.files.yaml_text import read_yaml

    content = read_yaml(read_text(path, what), what)
    if isinstance(content, dict):
        content = content.get("devices", content)
    if content is None:
        content = []
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise FedwaveError(f"{what} must be a list of devices, such as `- {{rate: 1, distance_m: 100}}`.")
    return content


def _from_rows(rows: Sequence[Mapping[str, Any]], what: str) -> DeviceTable:
    if not rows:
        raise FedwaveError(f"{what} is empty: give it at least one device.")
    known = (*DEVICE_COLUMNS, "name", "count", _CLASS)
    own = sorted({name for row in rows for name in row if name not in known}, key=str)
    for name in own:
        short = str(name)[:60].lower().replace(" ", "_")
        if (
            short != str(name).lower().replace(" ", "_")
            or short in _WORDS
            or get_close_matches(short, known, cutoff=0.75)
        ):
            raise FedwaveError(
                f"{what} has an unknown column {short_repr(name)}; {did_you_mean(str(name)[:60], known)}"
            )
    columns: dict[str, list[float]] = {name: [] for name in (*DEVICE_COLUMNS, "count", *own)}
    for i, row in enumerate(rows, 1):
        given = _with_power(row, f"{what}, device line {i}")
        for name, column in columns.items():
            if name not in given and name not in _DEFAULTS:
                raise FedwaveError(f"{what}, device line {i}: {name} is missing.")
            value = given.get(name, _DEFAULTS.get(name))
            value = np.nan if value is None and name in _EITHER else value
            column.append(as_number(value, f"{what}, device line {i}: {name}"))
    counts = columns.pop("count")
    for i, count in enumerate(counts, 1):
        if not (is_whole(count) and 0 <= count <= _MOST_DEVICES):
            raise FedwaveError(
                f"{what}, device line {i}: count is {count:,.15g}, must be a whole number "
                f"between 0 and {_MOST_DEVICES:,}."
            )
    if sum(counts) > _MOST_DEVICES:
        raise FedwaveError(
            f"{what} has {sum(counts):,.0f} devices, must have at most {_MOST_DEVICES:,}: lower the counts."
        )
    times = np.array(counts, dtype=np.int64)
    repeated = {name: np.repeat(np.array(column), times) for name, column in columns.items()}
    mine = {name: repeated.pop(name) for name in own}
    return DeviceTable(**repeated, name=_numbered_names(rows, counts), columns=mine)


def _with_power(row: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The row with the transmit power of its power class."""
    if _CLASS not in row:
        return row
    number = as_number(row[_CLASS], f"{where}: {_CLASS}")
    if number not in POWER_CLASSES or "tx_power_dbm" in row:
        raise FedwaveError(
            f"{where}: {_CLASS} is {number:g}, must be one of {', '.join(map(str, POWER_CLASSES))}, and without "
            "tx_power_dbm."
        )
    return {**row, "tx_power_dbm": POWER_CLASSES[int(number)]}


def _numbered_names(rows: Sequence[Mapping[str, Any]], counts: Sequence[float]) -> tuple[str, ...]:
    """The name of every device: equal ones are numbered, and one without a name is called by its number."""
    if not any(row.get("name") for row in rows):
        return ()
    names: list[str] = []
    for row, count in zip(rows, counts, strict=True):
        name = str(row.get("name") or "").strip()
        for k in range(1, int(count) + 1):
            names.append(f"{name} {k}" if name and count > 1 else name or str(len(names) + 1))
    return tuple(names)


def _checked_names(names: Any, size: int) -> tuple[str, ...]:
    if not is_list(names):
        raise FedwaveError(f"device names are {names!r}, must be a list with one for each device.")
    texts = tuple(str(name).strip() for name in names)
    if texts and len(texts) != size:
        raise FedwaveError(f"there are {len(texts)} device names for {size} devices: give one name per device.")
    for name, times in Counter(texts).items():
        if not name or not name.isprintable():
            raise FedwaveError(f"a device is called {name!r}, must be a printable text of one line.")
        if times > 1:
            raise FedwaveError(f"two devices are called {name!r}: give each a name of its own.")
    return texts


def _numbers(name: str, values: Any) -> FloatArray:
    try:
        if np.iscomplexobj(values):  # numpy would only warn and drop the imaginary part
            raise TypeError
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise FedwaveError(
            f"device column {name!r} is {short_repr(values)}, must be a number or a list of numbers."
        ) from None


def _check_column(name: str, column: FloatArray) -> None:
    rules = {
        "rate": ((column >= 0) & (column <= 1e9), "a number >= 0 and at most 1e9 (shards per round)"),
        "distance_m": ((column > 0) & (column < np.inf) | np.isnan(column), "a number > 0 (metres)"),
        "snr_db": (np.isfinite(column) | np.isnan(column), "a number (dB)"),
        "tx_power_dbm": (np.isfinite(column), "a number (dBm)"),
        "interference_dbm": (column < np.inf, "a number (dBm), or -inf for none"),
        "miss_probability": ((column >= 0) & (column <= 1), "between 0 and 1: is this percent?"),
        "buffer_limit": (
            (column >= 0) & ((column == np.inf) | (column == np.floor(column))),
            "a whole number >= 0, or inf for none",
        ),
    }
    fine, rule = rules[name]
    if not np.all(fine):
        at = int(np.argmin(fine))
        raise FedwaveError(f"{name} of device {at + 1} is {column[at]:g}, must be {rule}.")
