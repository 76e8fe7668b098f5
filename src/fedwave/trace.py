"""The Trace: the record of a simulation, and the setup that made it.

A file is a plain NumPy .npz archive with a JSON header and a checksum. Reading one executes nothing from the file,
unpickles nothing, and takes no more memory than the file has bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from html import escape
from pathlib import Path
from types import NoneType
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from fedwave.errors import FedwaveError, is_list, plural, short_repr
from fedwave.files.archive import (
    Groups,
    joined,
    load_archive,
    read_archive,
    refusing,
    save_archive,
    split,
    write_archive,
)
from fedwave.metrics import Description, Metric, check_column, over_rounds
from fedwave.network.network import Network
from fedwave.network.partition import Labels
from fedwave.network.world import can_keep
from fedwave.parts.serialize import Unbuilt, built, pack, unpack, unpack_or_keep
from fedwave.schedulers.base import Scheduler
from fedwave.types import DEVICE_ARRAYS, Array, BoolArray, FloatArray, IntArray, LabelState, NetworkState, State, freeze
from fedwave.version import __version__

if TYPE_CHECKING:
    import xarray as xr

_FORMAT = "trace 4"
_A = TypeVar("_A")


@dataclass(frozen=True, eq=False)
class Setup:
    """The arguments of a simulation. With the number of rounds they determine every number in a Trace.

    ``simulation.make_setup`` checks the arguments of ``fw.simulate`` and makes one. After ``Trace.load`` a part whose
    class is not registered here is Unbuilt; ``built`` raises FedwaveError for it.
    """

    network: Network
    scheduler: Scheduler
    label: str  # the scheduler with the parameters that were given
    instances: Sequence[int]  # their numbers
    seed: int = 0
    record: str = "full"  # or "summary"
    beliefs: bool = False  # are they recorded?
    metrics: tuple[Metric, ...] = ()  # beside the built-in ones
    labels: Labels | None = None
    version: str = __version__  # of fedwave, which simulated the first round

    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The setup as JSON, and the arrays that it refers to."""
        arrays: dict[str, Array] = {}
        content = {f.name: getattr(self, f.name) for f in fields(self)}
        content |= {name: pack(content[name], arrays, name) for name in PART_NAMES}
        # A seed may have more digits than readers of JSON accept as a number.
        return content | {"instances": list(self.instances), "seed": str(self.seed)}, arrays


# The fields of a Setup that a file keeps as parts, and their types.
_PARTS = {"network": (Network,), "scheduler": (Scheduler,), "metrics": (tuple,), "labels": (Labels, NoneType)}
PART_NAMES = tuple(_PARTS)


def same_parts(name: str, one: Any, other: Any) -> bool:
    """True if a file keeps the same of both parts; ``name`` is their field of a Setup."""
    mine: dict[str, Array] = {}
    theirs: dict[str, Array] = {}
    return bool(pack(one, mine, name) == pack(other, theirs, name)) and _same_arrays(mine, theirs)


class _DeviceArray(Generic[_A]):
    """An array of a full record, by the name of the attribute; a summary has none."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = f"{doc}, ``[T, I, U]``."

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, trace: Trace | None, owner: type) -> _A:
        if trace is None:
            return self  # type: ignore[return-value]
        if self._name not in trace.devices:
            raise FedwaveError(
                f'this trace is a summary and has no {self._name!r}: simulate with record="full" to keep it.'
            )
        return trace.devices[self._name]  # type: ignore[return-value]


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """The record of a simulation: one row per round, and the setup, from which it can be continued or repeated.

    T rounds, I instances and U devices; round t is row t - 1. Series ``[T, I]`` are always there, the arrays of devices
    ``[T, I, U]`` unless the simulation kept only a summary, beliefs only with ``beliefs=True``.

    >>> import fedwave as fw
    >>> trace = fw.simulate(fw.paper_network(), "age", rounds=20, instances=3)
    >>> trace
    Trace of age: 20 rounds, 3 instances, 25 devices, seed 0, full record
      mean score 59.60, mean backlog 135.0
    >>> trace.score.shape, trace.delivered.shape
    ((20, 3), (20, 3, 25))
    >>> trace.scheduler.name, trace.network.size, trace.metrics["jain"].label
    ('age', 25, 'Jain index of uploads')
    """

    setup: Setup
    metrics: Mapping[str, Description]  # what was measured, by name
    device_names: tuple[str, ...]  # of the device table; empty if it has none

    # The groups of arrays: files, checks and comparisons go by this list. With ``...`` an array may have more axes.
    series: Mapping[str, Array] = field(metadata={"axes": ("round", "instance")})
    devices: Mapping[str, Array] = field(metadata={"axes": ("round", "instance", "device")})
    beliefs: Mapping[str, Array] = field(metadata={"axes": ("round", "instance", ...)})
    # Per-device metrics so far, see ``totals``.
    accumulated: Mapping[str, Array] = field(metadata={"axes": ("instance", "device")})
    # After the last round: the counts, what scheduler and metrics remember ("metric.name"), samples by class.
    final: NetworkState = field(metadata={"axes": ("instance", "device")})
    state: State = field(metadata={"axes": ("instance", ...)})
    memories: State = field(metadata={"axes": ("instance", ...)})
    labels: LabelState | None = field(default=None, metadata={"axes": ("instance", "device", ...)})
    channel: tuple[Any, ...] = ()  # what a channel with memory carries into the next block: one value, or nothing

    def __post_init__(self) -> None:
        for group in _GROUPS:
            freeze(_named(getattr(self, group.name)))
        freeze(self.channel)

    @property
    def network(self) -> Network:
        """The network that was simulated."""
        return built(self.setup.network)

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler that decided."""
        return built(self.setup.scheduler)

    @property
    def label(self) -> str:
        """The scheduler's name, with the parameters that were given."""
        return self.setup.label

    @property
    def seed(self) -> int:
        return self.setup.seed

    @property
    def record(self) -> str:
        """``"full"`` or ``"summary"``."""
        return self.setup.record

    @property
    def instance_numbers(self) -> tuple[int, ...]:
        return tuple(self.setup.instances)

    @property
    def rounds(self) -> int:
        return int(self.score.shape[0])

    @property
    def instances(self) -> int:
        return int(self.score.shape[1])

    @property
    def totals(self) -> dict[str, Array]:
        """Per-device metrics over all rounds, ``[I, U]`` each: device_uploads, device_shards, ..."""
        return {
            name: value / self.rounds if self.metrics[name].over_rounds == "mean" else value
            for name, value in self.accumulated.items()
        }

    @property
    def score(self) -> FloatArray:
        """F of every round, ``[T, I]``."""
        return self.series["score"]

    @property
    def backlog(self) -> IntArray:
        """B, the shards waiting after every round, ``[T, I]``."""
        return self.series["backlog"]

    # The arrays of a full record, ``[T, I, U]`` each.
    gain = _DeviceArray[FloatArray]("h")
    scheduled = _DeviceArray[BoolArray]("a")
    delivered = _DeviceArray[BoolArray]("Scheduled and arrived")
    arrivals = _DeviceArray[IntArray]("m, shards that arrived, lost ones included")
    lost = _DeviceArray[IntArray]("Shards of ``arrivals`` that found the buffer full, or the device away")
    waiting = _DeviceArray[IntArray]("n at the round's start")
    heard = _DeviceArray[BoolArray]("Which devices heard the broadcast")
    delay = _DeviceArray[IntArray]("d in every round")
    learned = _DeviceArray[IntArray]("N after every round: the shards that a device has delivered so far")

    @property
    def available(self) -> BoolArray:
        """The devices that were available, ``[T, I, U]``."""
        everybody = np.broadcast_to(True, self.delivered.shape)
        return self.devices.get("available", everybody)

    @property
    def accepted(self) -> IntArray:
        """Shards of ``arrivals`` that were not lost and are trained on, ``[T, I, U]``."""
        return self.arrivals - self.lost

    def metric_memory(self, metric: str) -> dict[str, Array]:
        """The memory of a metric after the last round."""
        start = f"{metric}."
        return {k.removeprefix(start): v for k, v in self.memories.items() if k.startswith(start)}

    def to_xarray(self) -> xr.Dataset:
        """Every array with labelled axes: round, instance, device; beliefs under "belief_..."."""
        import xarray as xr

        axes = ("round", "instance", "device")
        data: dict[str, Any] = {name: (axes[:2], rows) for name, rows in self.series.items()}
        clash = {name: f"device_{name}" if name in data else name for name in self.devices}
        data |= {clash[name]: (axes, rows) for name, rows in self.devices.items()}
        data |= {name: (axes[1:], values) for name, values in self.totals.items()}
        for name, rows in self.beliefs.items():
            # The third axis is often the device, but a scheduler may choose its own.
            own = 3 if rows.shape[2:3] == self.final.waiting.shape[1:] else 2
            more = [f"{name}_{k}" for k in range(own, rows.ndim)]
            data[f"belief_{name}"] = ((*axes[:own], *more)[: rows.ndim], rows)
        coordinates = {
            "round": np.arange(1, self.rounds + 1),
            "instance": list(self.instance_numbers),
            "device": list(self.device_names) or np.arange(1, self.final.waiting.shape[1] + 1),
        }
        return xr.Dataset(data, coords=coordinates, attrs={"scheduler": self.label, "seed": self.seed})

    def __repr__(self) -> str:
        sizes = ((self.rounds, "round"), (self.instances, "instance"), (self.final.waiting.shape[1], "device"))
        return (
            f"Trace of {self.label}: {', '.join(plural(n, what) for n, what in sizes)}, "
            f"seed {self.seed}, {self.record} record\n"
            f"  mean score {self.score.mean():.2f}, mean backlog {self.backlog.mean():.1f}"
        )

    def _repr_html_(self) -> str:
        """Every metric's mean over instances, for notebooks."""
        rows = []
        for name, values in self.series.items():
            about = self.metrics[name]
            mean = over_rounds(about.over_rounds, values).mean()
            rows.append(f"<tr><td>{escape(about.label)}</td><td>{about.over_rounds}</td><td>{mean:.4g}</td></tr>")
        heading = "<tr><th>metric</th><th>over rounds</th><th>mean over instances</th></tr>"
        return f"<pre>{escape(repr(self))}</pre><table>{heading}{''.join(rows)}</table>"

    def same_as(self, other: Trace) -> bool:
        """True if ``other`` is a Trace and all arrays of both are equal, to the last bit."""
        return isinstance(other, Trace) and _same_arrays(joined(self._packed()[1]), joined(other._packed()[1]))

    def save(self, path: str | Path) -> Path:
        """Write the trace to ``path`` (.npz), whole or not at all.

        Of every part the file keeps the family, the name, the name of its class and the fields of the dataclass. A part
        without parameters may be a plain class; the file keeps its name. Attributes of the class and its code are not
        kept: after a change of them, a loaded trace is continued with the new ones. ``fw.check`` tells whether a part
        is the same after a file.

        >>> import fedwave as fw, tempfile
        >>> trace = fw.simulate(fw.paper_network(), "age", rounds=5, instances=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     loaded = fw.Trace.load(trace.save(f"{folder}/age.npz"))
        >>> loaded.same_as(trace), loaded.scheduler
        (True, Age())
        """
        return save_archive(path, "a trace", _FORMAT, *self._packed())

    def write(self, file: IO[bytes]) -> None:
        """Write the trace into an open file."""
        header, groups = self._packed()
        write_archive(file, _FORMAT, header, joined(groups))

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace that ``save`` wrote.

        The file may hold a part whose class is not registered here. Then only what needs the part raises
        FedwaveError: ``trace.scheduler``, ``fw.extend`` unless it is given, ...
        """
        header, groups = load_archive(path, "a trace", _FORMAT)
        return cls._unpacked(str(path), header, groups)

    @classmethod
    def read(cls, raw: IO[bytes], name: str) -> Trace:
        """Read a trace from an open file, which messages call ``name``."""
        header, arrays = read_archive(raw, name, _FORMAT)
        return cls._unpacked(name, header, split(arrays))

    def _packed(self) -> tuple[dict[str, Any], Groups]:
        """The header and the groups of arrays of a file."""
        setup, constants = self.setup.packed()
        header = {
            **setup,
            "measured": {name: asdict(about) for name, about in self.metrics.items()},
            "device_names": list(self.device_names),
            "channel": pack(self.channel, constants, "channel"),
        }
        return header, {f.name: _named(getattr(self, f.name)) for f in _GROUPS} | {"constants": constants}

    @classmethod
    def _unpacked(cls, file: str, header: dict[str, Any], found: Groups) -> Trace:
        """The trace with this header and these arrays; refuses those that are not of a trace."""
        with refusing(file, _FORMAT):
            groups: dict[str, Any] = {f.name: {} for f in _GROUPS} | dict(found)
            setup, measured, device_names, channel = _read_header(header, groups.pop("constants", {}))
            groups["final"] = NetworkState(**groups["final"])
            groups["labels"] = LabelState(**groups["labels"]) if groups["labels"] else None
            trace = cls(setup, measured, device_names, channel=channel, **groups)
            _check_arrays(trace)
        return trace


_GROUPS = tuple(f for f in fields(Trace) if "axes" in f.metadata)


def _named(group: Any) -> Mapping[str, Array]:
    """The arrays of a group by name, whether it is a mapping or a record."""
    return {f.name: getattr(group, f.name) for f in fields(group)} if is_dataclass(group) else group or {}


def _same_arrays(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(array, other[name], equal_nan=array.dtype.kind == "f") for name, array in one.items()
    )


# --- is a file a trace? ---------------------------------------------------------------------------
# Types and shapes are checked, so that everything else can rely on them. Whether the numbers are true is not.


def _read_header(
    header: dict[str, Any], constants: Mapping[str, Array]
) -> tuple[Setup, dict[str, Description], tuple[str, ...], tuple[Any, ...]]:
    ids, names, seed = header["instances"], header.pop("device_names"), header["seed"]
    _need(all(isinstance(one, str) for one in (header["label"], header["version"], header["record"], *names)), "text")
    _need(isinstance(seed, str) and seed.isdecimal(), "seed")
    _need(all(type(i) is int and 0 <= i < 2**63 for i in ids) and len(set(ids)) == len(ids), "instances")
    measured = {name: Description(**about) for name, about in header.pop("measured").items()}
    for name, about in measured.items():
        _need(about.name == name and isinstance(about.label, str), name)
        check_column(name, about.over_rounds)
    channel = unpack(header.pop("channel"), constants)
    _need(channel == () or can_keep(channel, len(ids)), "channel")
    for name, kinds in _PARTS.items():
        own = {key: array for key, array in constants.items() if key.split(".")[0] == name}
        header[name] = part = unpack_or_keep(header[name], own)
        several = part if isinstance(part, tuple) else ()
        _need(isinstance(part, (Unbuilt, *kinds)) and all(isinstance(one, Metric) for one in several), name)
    setup = Setup(**{**header, "instances": tuple(ids), "seed": int(seed)})
    return setup, measured, tuple(names), channel


def _check_arrays(trace: Trace) -> None:
    """Raises ValueError if an array has not the axes and the type of its group."""
    size, network = trace.final.waiting.shape[-1], trace.setup.network
    sizes = {"round": trace.rounds, "instance": len(trace.setup.instances), "device": size}
    for group in _GROUPS:
        content, wanted = getattr(trace, group.name), group.metadata["axes"]
        axes = tuple(sizes[axis] for axis in wanted if axis is not ...)
        counts = {"delivered": "bool"} if is_dataclass(content) else DEVICE_ARRAYS if group.name == "devices" else None
        for name, array in _named(content).items():
            own = array.shape[: len(axes)] if ... in wanted else array.shape
            fits = array.dtype.kind in "biufc" if counts is None else array.dtype == counts.get(name, "int64")
            _need(bool(name) and own == axes and fits, f"{group.name}/{name}")
    _need(trace.score.size > 0 and "backlog" in trace.series, "series")
    _need(isinstance(network, Unbuilt) or network.size == size, "network")
    _need(len(trace.device_names) in (0, size), "device_names")
    wanted = DEVICE_ARRAYS.keys() - {"available"} if trace.record == "full" else set()
    _need(trace.devices.keys() - {"available"} == wanted, "record")
    per_device = {name for name, about in trace.metrics.items() if about.per_device}
    _need((per_device, trace.metrics.keys() - per_device) == (set(trace.accumulated), set(trace.series)), "metrics")


def _need(fine: bool, name: str) -> None:
    if not fine:
        raise ValueError(f"{name} has the wrong type, shape or range")


def labelled_traces(traces: Trace | Mapping[str, Trace] | Iterable[Trace]) -> dict[str, Trace]:
    """Traces by label, from one trace, several, or a mapping. Raises FedwaveError for anything else."""
    rule = "must be a trace, several of them, or a mapping of labels to traces"
    if isinstance(traces, Trace):
        traces = [traces]
    if not (isinstance(traces, Mapping) or is_list(traces)):
        raise FedwaveError(f"traces is {short_repr(traces)}, {rule}.")
    pairs: list[tuple[Any, Any]] = (
        list(traces.items()) if isinstance(traces, Mapping) else [(getattr(one, "label", None), one) for one in traces]
    )
    if not pairs:
        raise FedwaveError("traces is empty, must hold at least one trace, as fw.simulate returns.")
    texts = [str(label) for label, _ in pairs]
    for label, (_, one) in zip(texts, pairs, strict=True):
        if not isinstance(one, Trace):
            raise FedwaveError(f"traces holds {short_repr(one)}, {rule}.")
        if texts.count(label) > 1:
            raise FedwaveError(f"two traces are called {label!r}: give a mapping of labels to traces.")
    return {label: one for label, (_, one) in zip(texts, pairs, strict=True)}
