"""Measured logs as fading and arrivals: ``fw.read_log``, the parts that it returns, and its summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.random import Generator

from fedwave.errors import FedwaveError, as_int, check_number, is_list, plural, short_repr
from fedwave.memory import check_memory
from fedwave.network.arrivals import Arrivals, poisson_chances
from fedwave.network.devices import DeviceTable
from fedwave.network.fading import Fading, sample_quartiles
from fedwave.network.log_files import COLUMNS, Columns, Rows, listed, read_fading_trace, read_rows
from fedwave.network.recorded import as_record
from fedwave.rng import Block, stream
from fedwave.types import Array, BoolArray, FloatArray, IntArray, freeze

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROUNDS_PER_VALUE = 10_000  # with fewer values, a time is wrong
_GAPS, _ALIGN, _WITHOUT = ("hold", "zero", "interpolate", "error"), ("start", "clock"), ("error", "silent", "drop")
_LEAST_SNR = 1e-29  # the mean SNR of a device that never has a channel
_SHOWN = 100  # devices that a summary prints
_NAMED = 8  # devices that a sentence names


@dataclass(frozen=True, eq=False, repr=False)
class LogSummary:
    """What was found in a log; print it.

    ``devices`` has a row per device of the log: the number of ``values`` that were read, ``rounds``, ``filled`` (the
    share of the rounds without a value), ``longest_gap`` in rounds, and ``mean``: of the values in the log's unit, of
    counts per round.
    """

    value: str
    column: str  # empty if every device has one
    every: float  # seconds
    gaps: str
    start: str
    end: str
    devices: pd.DataFrame
    used: tuple[str, ...]  # in the order of the network
    silent: tuple[str, ...] = ()  # of the network, without a value

    @property
    def without(self) -> tuple[str, ...]:
        """The devices of the log without any value."""
        return tuple(self.devices.index[self.devices["values"] == 0])

    @property
    def unused(self) -> tuple[str, ...]:
        """The devices of the log that have values and that the network does not have."""
        return tuple(name for name in self.devices.index if name not in {*self.used, *self.without})

    @property
    def filled(self) -> float:
        """The share of all rounds of the used devices that have no value."""
        rows = self.devices.loc[list(self.used)]
        return float((rows["filled"] * rows["rounds"]).sum() / max(rows["rounds"].sum(), 1))

    @property
    def content(self) -> dict[str, Any]:
        """The same for JSON."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)} | {"filled": self.filled}
        plain |= {"without": self.without, "unused": self.unused}
        return plain | {"devices": self.devices.reset_index(names="device").to_dict("records")}

    @property
    def sentences(self) -> list[str]:
        """All but the devices one by one."""
        rounds = self.devices.loc[list(self.used), "rounds"] if self.used else np.zeros(1, dtype=np.int64)
        found = [
            f"Log of {plural(len(self.devices), 'device')}, {self.start} to {self.end}, "
            f"{self.value}{f' from column {self.column!r}' if self.column else ''}, a round is {self.every:g} s",
            f"{plural(len(self.used), 'device')} used, {rounds.min():,} to {rounds.max():,} rounds each; "
            f"{100 * self.filled:.1f} % of the rounds have no value (gaps: {self.gaps})",
        ]
        for words, names in (
            ("without any value in the log", self.without),
            ("silent in the network, never heard", self.silent),
            ("in the log, but not used", self.unused),
        ):
            found += [f"{words}: {listed(names, _SHOWN)}"] if names else []
        return found

    def __str__(self) -> str:
        rows = self.devices.loc[list(self.used)]
        rows = rows.rename(columns={"longest_gap": "longest gap", "mean": f"mean {self.value}"})
        rows["filled"] = [f"{100 * share:.1f} %" for share in rows["filled"]]
        table = rows.to_string(float_format="{:.2f}".format, max_rows=_SHOWN) if self.used else ""
        first, second, *notes = self.sentences
        return "\n".join([first, second, *filter(None, [table]), *notes])

    __repr__ = __str__


@dataclass(frozen=True, eq=False, repr=False)
class _Log:
    """A record ``[T, U]``, whose column u is used in its first ``rounds[u]`` rounds; in most cases again and again."""

    name: ClassVar[str] = "log"
    from_file: ClassVar[Any]  # read_log, below
    _kind: ClassVar[type] = np.float64
    _most: ClassVar[float] = 1e30

    record: Array
    rounds: IntArray  # [U]; 0: the device has no value
    devices: tuple[str, ...]  # empty: one column for devices of any name and number
    repeat: bool = True
    offset: str | None = None
    shared_clock: bool = False
    without: str = "error"
    summary: LogSummary | None = field(init=False, compare=False, default=None)

    def __post_init__(self) -> None:
        record = as_record(self.record, self._kind, "the values of a log")
        if not ((record >= 0) & (record <= self._most)).all():
            raise FedwaveError(f"the values of a log must lie between 0 and {self._most:g} in every round.")
        rounds, names = np.array(self.rounds), tuple(self.devices)
        fits = record.ndim == 2 and rounds.dtype.kind in "iu" and rounds.shape == record.shape[1:]
        if not fits or np.any((rounds < 0) | (rounds > len(record))) or len(names) not in (0, rounds.size):
            raise FedwaveError(f"the record of a log has shape {record.shape}, which does not fit its devices.")
        for name in names:
            if not isinstance(name, str) or not name.isprintable():
                raise FedwaveError(f"a device of the log is called {short_repr(name)}, must be a printable text.")
        _check_choice("offset", self.offset, (None, "random"))
        _check_choice("without", self.without, _WITHOUT)
        if self.offset and not self.repeat:
            raise FedwaveError("offset is 'random', but repeat is false: a log with offsets repeats; leave repeat out.")
        freeze(rounds)
        for field_, value in (("record", record), ("rounds", rounds), ("devices", names)):
            object.__setattr__(self, field_, value)

    def __repr__(self) -> str:
        spread = f"{self.rounds.min():,} to {self.rounds.max():,} rounds"
        return f"{type(self).__name__}({plural(self.rounds.size, 'device')}, {spread})"

    @property
    def shared(self) -> bool:
        """Do all instances begin at the same place?"""
        return self.offset is None

    def check_run(self, rounds: int, devices: int, last_instance: int) -> None:
        """Raises FedwaveError if the log does not cover a run."""
        short = np.flatnonzero((self.rounds > 0) & (self.rounds < rounds))
        if short.size and not self.repeat:
            u = short[self.rounds[short].argmin()]
            raise FedwaveError(
                f"the log of device {listed(self.devices[u : u + 1], 1)} covers {self.rounds[u]} rounds but the run "
                f"has {rounds}: let it repeat (repeat=True), or run fewer rounds."
            )

    def for_devices(self, names: Sequence[str], size: int) -> Self:
        """The part for the devices of a network, matched by name; without names, for the first ``size`` in the log."""
        if not self.devices:  # one trace for all: each begins at a place of its own
            length = len(self.record)
            rows = (np.arange(length)[:, None] + np.arange(size) * length // size) % length
            called = tuple(names or (str(u + 1) for u in range(size)))
            return self._with(self.record[rows, 0], np.full(size, length), called, self.summary)
        if self.rounds.all() and self.rounds.size == size and tuple(names or self.devices) == self.devices:
            return self
        place = {name: at for at, name in enumerate(self.devices)}
        numbered = list(self.devices) == [str(u + 1) for u in range(self.rounds.size)]  # its table has no headings
        if names and not (numbered and place.keys().isdisjoint(names)):
            chosen = np.array([place.get(name, -1) for name in names])
        else:
            kept = np.flatnonzero((self.rounds > 0) | (self.without != "drop"))
            chosen = kept[:size]
            if len(kept) < size:
                raise FedwaveError(
                    f"the log has {plural(len(kept), 'device')}{' with values' if self.without == 'drop' else ''}, but "
                    f"the network has {size}: give the network {plural(len(kept), 'device')}, or add logs."
                )
        called = tuple(names or (self.devices[at] for at in chosen))
        rounds = np.where(chosen < 0, 0, self.rounds[chosen])
        empty = tuple(name for name, length in zip(called, rounds, strict=True) if not length)
        if empty and self.without != "silent":
            known = f"; its devices are {listed(self.devices, _NAMED)}" if -1 in chosen else ""
            drop = "" if names else ", or without='drop' to leave them out"
            raise FedwaveError(
                f"the log has no value for {plural(len(empty), 'device')}: {listed(empty, _NAMED)}{known}: give "
                f"without='silent' to keep such devices, never heard{drop}."
            )
        used = tuple(self.devices[at] for at in chosen[rounds > 0])
        summary = self.summary and replace(self.summary, used=used, silent=empty)
        return self._with(self.record[: max(1, rounds.max())][:, chosen] * (rounds > 0), rounds, called, summary)

    def _with(self, record: Array, rounds: IntArray, devices: tuple[str, ...], summary: LogSummary | None) -> Self:
        made = replace(self, record=record, rounds=rounds, devices=devices)
        object.__setattr__(made, "summary", summary)
        return made

    def _means(self) -> FloatArray:
        """The mean of each device over its own rounds, ``[U]``."""
        out: FloatArray = (self.record * self._own()).sum(axis=0) / np.maximum(self.rounds, 1)
        return out

    def _own(self) -> BoolArray:
        """Which rounds of the record are a device's own, ``[T, U]``."""
        return np.arange(len(self.record))[:, None] < self.rounds

    def _rounds_of(self, block: Block) -> Array:
        """The rounds of a block, ``[B, I, U]``."""
        round_ = np.arange(block.first - 1, block.first - 1 + block.rounds)[:, None, None]
        length, device = np.maximum(self.rounds, 1), np.arange(self.rounds.size)
        if self.offset is None:
            rows = round_ % length if self.repeat else np.minimum(round_, length - 1)  # past the end nobody plays
            return np.repeat(self.record[rows, device], block.ids.size, axis=1)
        many = 1 if self.shared_clock else device.size  # what was measured together stays together
        starts = np.stack([stream(block.seed, "offset", int(i)).random(many) for i in block.ids])
        return self.record[(round_ + (starts * length).astype(np.int64)) % length, device]


@dataclass(frozen=True, eq=False, repr=False)
class LogFading(_Log, Fading):
    """The channel of a measured log, which ``fw.read_log`` reads: the SNR, or the gain on a mean SNR.

    As a mapping, in YAML too, it takes the parameters of ``fw.read_log``: {name: log, path: drives, value: rsrp_dbm}.

    >>> import fedwave as fw
    >>> import pandas as pd
    >>> table = pd.DataFrame({"time": [0, 1, 2], "gate": [3.0, None, 5.0], "bus": [9.0, 9.0, 10.0]})
    >>> fw.read_log(table, ["bus", "gate"])
    LogFading(2 devices, 3 to 3 rounds)
    """

    absolute: bool = True  # is the record the SNR, not the gain?
    independent: ClassVar[bool] = False

    def mean_snr(self) -> FloatArray:
        return np.maximum(self._means(), _LEAST_SNR)

    def sample(self, block: Block, carry: Any) -> tuple[FloatArray, Any]:
        return self._rounds_of(block), None

    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        raise FedwaveError(
            "HARQ draws new gains for later tries, which a log does not hold: use another success model."
        )

    def quartiles(self) -> tuple[float, float, float]:
        gains = self.record / self.mean_snr() if self.absolute else self.record
        return sample_quartiles(gains[self._own()] if self.rounds.any() else gains)


@dataclass(frozen=True, eq=False, repr=False)
class LogArrivals(_Log, Arrivals):
    """The arrivals of a measured log, which ``fw.read_log(..., value="count")`` reads.

    The true rate of a device is the mean of its log, and the rate in the device table is ignored. Learning schedulers
    treat the counts as Poisson.

    >>> import fedwave as fw
    >>> import pandas as pd
    >>> events = pd.DataFrame({"time": [0, 0, 2], "device": ["a", "a", "b"], "count": [1, 2, 6]})
    >>> fw.read_log(events, ["a", "b"], value="count", align="clock").mean_rates([])
    array([1., 2.])
    """

    distribution: ClassVar[str] = "poisson"
    _kind: ClassVar[type] = np.int64
    _most: ClassVar[float] = 1e9

    def sample(self, block: Block, rates: FloatArray) -> IntArray:
        return self._rounds_of(block)

    def mean_rates(self, rates: FloatArray) -> FloatArray:
        return self._means()

    def chances(self, rates: FloatArray, most: int) -> FloatArray:
        """Treated as Poisson, because the log is not known in advance."""
        return poisson_chances(rates, most)


def read_log(
    path: Any,
    devices: Any = None,
    value: str = "snr_db",
    time: str | None = "timestamp",
    device: str = "device",
    every: str | float = "1s",
    gaps: str | None = None,
    align: str = "start",
    repeat: bool = True,
    column: str | None = None,
    offset: str | None = None,
    without: str = "error",
    noise_dbm: float = -125.0,
    time_format: str | None = None,
) -> LogFading | LogArrivals:
    """Reads a measured log as a fading, or with ``value="count"`` as arrivals; ``.summary`` says what was found.

    docs/measurements.md shows the layouts. Devices are matched by name.

    * ``path``: a CSV or .npz file, or an ns-3 fading trace (.fad); a folder, a pattern such as "drives/*.csv", a list
      or a mapping {name: file} with a file per device; a DataFrame
    * ``devices``: a Network or DeviceTable with names, a list of names, or a number: the first ones in the log.
      None: a Network chooses its own when it is given the part
    * ``value``: "snr_db", "rsrp_dbm", "gain_db", "gain" or "count". On a measured SNR, distances have no effect.
      A gain is multiplied by the mean SNR of the device
    * ``time``, ``device``, ``column``: headings of times, device names and values. None as ``time``: a row is a round
    * ``every``: the length of a round, such as "1s", "100ms" or seconds. A round gets the mean of its values, in their
      unit, or the sum of its counts
    * ``gaps``: what a round without a value gets. "hold": the value before it, or at the beginning the first one;
      "zero": SNR or gain 0, no arrivals; "interpolate": between its neighbours, in the log's unit; "error": refuses.
      None: "zero" for counts, else "hold"
    * ``align``: "start": each device's log begins in round 1, on whichever day it was measured; "clock": round 1 is the
      first time of the whole log, as always in a table with a column per device
    * ``repeat``: does a device's log begin again after its end? If not, no run may be longer than the shortest log
    * ``offset``: "random": each instance begins at random places, each device at its own, or with a common clock all at
      the same. None: all instances begin at the start, and intervals do not cover the log
    * ``without``: devices without any value. "error": refuses; "silent": they stay, without a channel or arrivals;
      "drop": leaves them out, where ``devices`` is a number or the network has no names
    * ``noise_dbm``: with "rsrp_dbm": the noise of a resource element, so that SNR = RSRP - noise. -125 dBm is thermal
      noise in 15 kHz and a noise figure of 7 dB
    * ``time_format``: how times are written, as strptime has it, such as "%d/%m/%Y %H:%M:%S"

    >>> import fedwave as fw
    >>> import pandas as pd
    >>> table = pd.DataFrame({"time": [0, 1, 2, 4], "gate": [3.0, None, 5.0, 4.0], "bus": [9.0, 9.0, 10.0, 8.0]})
    >>> channel = fw.read_log(table, ["gate", "bus"])
    >>> print(channel.summary)
    Log of 2 devices, 0 s to 4 s, snr_db, a round is 1 s
    2 devices used, 5 to 5 rounds each; 30.0 % of the rounds have no value (gaps: hold)
          values  rounds  filled  longest gap  mean snr_db
    gate       3       5  40.0 %            1         4.00
    bus        4       5  20.0 %            1         9.00
    >>> fw.paper_network(devices=[fw.Device(1, 100, name="bus")], slots=1, fading=channel).mean_snr.round(1)
    array([8.4])
    """
    gaps = gaps or ("zero" if value == "count" else "hold")
    for what, given, known in (("value", value, tuple(COLUMNS)), ("gaps", gaps, _GAPS), ("align", align, _ALIGN)):
        _check_choice(what, given, known)
    check_number("noise_dbm", noise_dbm, ">= -300", "<= 100", note=" (dBm)")
    if value == "count" and gaps in ("hold", "interpolate"):
        raise FedwaveError(f"gaps is {gaps!r}, but counts are not repeated in gaps: use 'zero' or 'error'.")
    if not isinstance(repeat, bool):
        raise FedwaveError(f"repeat is {short_repr(repeat)}, must be true or false.")
    for what, heading in (("time", time), ("device", device), ("column", column), ("time_format", time_format)):
        if not isinstance(heading, str) and (heading is not None or what == "device"):
            raise FedwaveError(f"{what} is {short_repr(heading)}, must be a text.")
    step = _as_ns(every)
    if isinstance(path, (str, Path)) and str(path).lower().endswith(".fad"):
        if value != "gain_db":
            raise FedwaveError(f"value is {value!r}, but {path} is a fading trace of gains in dB: use value='gain_db'.")
        rows, value = read_fading_trace(Path(path)), "gain"
        names: tuple[str, ...] = ()  # the trace is that of all devices
    else:
        rows = read_rows(path, Columns(value, column, time, device, time_format, step))
        names = tuple(rows.devices)
    common_clock = bool(names) and (align == "clock" or not rows.column)
    rounds, grid, summary = _resampled(rows, value, step, gaps, common_clock)
    common = (rounds, names, repeat, offset, common_clock, without)
    part: LogFading | LogArrivals
    if value == "count":
        part = LogArrivals(grid, *common)
    else:
        shift = -noise_dbm if value == "rsrp_dbm" else 0.0
        linear = grid if value == "gain" else 10 ** ((grid + shift) / 10)  # no value is -inf dB
        part = LogFading(linear, *common, absolute=value in ("snr_db", "rsrp_dbm"))
    object.__setattr__(part, "summary", summary)
    if devices is None:
        return part
    table = getattr(devices, "table", devices)
    if isinstance(table, DeviceTable):
        return part.for_devices(table.name, len(table))
    if not is_list(devices):
        return part.for_devices((), as_int("devices (a network, a list of names, or a number)", devices, 1))
    asked = [str(getattr(one, "name", one)) for one in devices]
    if not asked or len(set(asked)) < len(asked):
        raise FedwaveError(f"devices is {short_repr(devices)}, must be a list of different names.")
    return part.for_devices(asked, len(asked))


LogFading.from_file = staticmethod(read_log)
LogArrivals.from_file = staticmethod(partial(read_log, value="count"))


def _resampled(rows: Rows, value: str, step: int, gaps: str, clock: bool) -> tuple[IntArray, FloatArray, LogSummary]:
    """The rounds of each device ``[U]``, 0 without any value; its values ``[T, U]``; and what was found."""
    import pandas as pd

    table, added_up = rows.table, value == "count"
    start, end = (int(one) for one in table["time"].agg(["min", "max"]))
    times = table.groupby("device")["time"].agg(["min", "max"]).loc[rows.devices]
    if clock:
        times = times.assign(min=start, max=end)
    length = ((times["max"] - times["min"]) // step + 1).to_numpy(np.int64)
    longest = int(length.max())
    hint = "give a longer every, or check the times (of logs of different days, align='start')"
    if longest > _MOST_ROUNDS_PER_VALUE * len(table):
        raise FedwaveError(
            f"the log has {plural(len(table), 'value')} for {longest:,} rounds of {step / 1e9:g} s: {hint}."
        )
    check_memory(f"the log of {longest:,} rounds of {step / 1e9:g} s", 40.0 * longest * len(rows.devices), hint)
    number = (table["time"] - table["device"].map(times["min"])) // step
    cells = table.assign(round=number).dropna().groupby(["round", "device"])["value"]
    cells = cells.sum() if added_up else cells.mean()
    grid = cells.unstack().reindex(index=range(longest), columns=rows.devices)
    measured = grid.notna().to_numpy()
    rounds = np.where(measured.any(axis=0), length, 0)
    gap = (np.arange(longest)[:, None] < length) & ~measured
    values = table.groupby("device")["value"].agg(["count", "sum", "mean"]).loc[rows.devices]
    found = pd.DataFrame({"values": values["count"], "rounds": rounds}).rename_axis(None)
    found["filled"] = gap.sum(axis=0) / length
    found["longest_gap"] = [int(np.diff(np.flatnonzero(np.r_[True, ~one, True])).max()) - 1 for one in gap.T]
    found["mean"] = values["sum"] / length if added_up else values["mean"]
    missing = gap.sum(axis=0) * (rounds > 0)  # a device without any value is another matter
    if gaps == "error" and missing.any():
        u = int((missing > 0).argmax())
        raise FedwaveError(
            f"the log of device {listed(rows.devices[u : u + 1], 1)} has no value in {missing[u]:,} of {length[u]:,} "
            f"rounds, the first is round {gap[:, u].argmax() + 1}: fill gaps with gaps='hold', or give a longer every."
        )
    if gaps == "interpolate":
        grid = grid.interpolate(limit_direction="both")
    elif gaps == "hold":
        grid = grid.ffill().bfill()
    filled = grid.fillna(-np.inf if value.endswith(("_db", "_dbm")) else 0.0).to_numpy(np.float64)
    used = tuple(found.index[rounds > 0])
    span = (_time_text(start), _time_text(end))
    return rounds, filled, LogSummary(value, rows.column, step / 1e9, gaps, *span, found, used)


def _as_ns(every: Any) -> int:
    import pandas as pd

    try:
        step = pd.Timedelta(every) if isinstance(every, str) else pd.Timedelta(seconds=float(every))
        if step > pd.Timedelta(0):
            return int(step.as_unit("ns").value)
    except (ValueError, TypeError, OverflowError):
        pass
    raise FedwaveError(f"every is {short_repr(every)}, must be a time > 0, such as '1s', '100ms' or 0.1 (seconds).")


def _time_text(ns: int) -> str:
    """A time as a date; small ones as seconds."""
    if abs(ns) < 10 * 365 * 86_400 * 10**9:  # not since 1980
        return f"{ns / 1e9:g} s"
    return str(np.datetime64(ns, "ns").astype("datetime64[s]")).replace("T", " ")


def _check_choice(what: str, given: Any, known: tuple[Any, ...]) -> None:
    if not isinstance(given, (str, type(None))) or given not in known:
        raise FedwaveError(f"{what} is {short_repr(given)}, must be one of {', '.join(map(repr, known))}.")
