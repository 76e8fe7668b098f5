"""The Trace: what happened in a simulation, and the setup that made it.

A file is a plain NumPy .npz archive with a JSON header and a checksum. Reading one executes nothing from the file,
unpickles nothing, and takes no more memory than the file has bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError, is_list, plural, short_repr
from fedwave.files.archive import is_plain, read_archive, refusing, write_archive
from fedwave.files.reading import as_path, opened
from fedwave.files.writing import write_whole
from fedwave.metrics import Description, Metric, check_column, over_rounds
from fedwave.network.network import Network
from fedwave.network.partition import Labels
from fedwave.network.world import can_keep
from fedwave.parts.serialize import pack, unpack
from fedwave.plain_text import brief
from fedwave.schedulers.base import Scheduler
from fedwave.types import Array, BoolArray, FloatArray, IntArray, LabelState, NetworkState, State
from fedwave.version import __version__

if TYPE_CHECKING:
    import xarray as xr

FORMAT = "trace 4"
PARTS: dict[str, Any] = {"network": Network, "scheduler": Scheduler, "metrics": Metric, "labels": Labels}
# The arrays of a full record: one number per round, instance and device.
DEVICE_ARRAYS = {
    "gain": "float64",
    "scheduled": "bool",
    "delivered": "bool",
    "arrivals": "int32",
    "waiting": "int32",
    "lost": "int32",
    "heard": "bool",
    "delay": "int32",
    "learned": "int64",
}
_MOST = 2**53  # shards or rounds: float64 counts exactly up to here


@dataclass(frozen=True, eq=False)
class Packed:
    """A part as a file holds it. It is built when it is needed, because its class may not be registered here."""

    content: Any
    arrays: Mapping[str, Array]

    @classmethod
    def of(cls, name: str, part: Any) -> Packed:
        """The packed form of a part, which may be packed already."""
        if isinstance(part, Packed):
            return part
        arrays: dict[str, Array] = {}
        return cls(pack(list(part) if name == "metrics" else part, arrays, name), arrays)

    def same_as(self, other: Packed) -> bool:
        return bool(self.content == other.content) and _same_arrays(self.arrays, other.arrays)


@dataclass(frozen=True, eq=False)
class Setup:
    """What is simulated. With the number of rounds, it determines every number in a Trace.

    ``simulation.make_setup`` checks the arguments of ``fw.simulate`` and makes one.
    """

    network: Any  # a Network; of a trace from a file Packed, like the other parts: see ``part``
    scheduler: Any
    label: str  # the scheduler with the parameters that were given
    instances: Sequence[int]  # their numbers
    seed: int = 0
    record: str = "full"  # or "summary"
    beliefs: bool = False  # are they recorded?
    metrics: Any = ()  # beside the built-in ones
    labels: Any = None
    version: str = __version__  # of fedwave, which simulated the first round

    def part(self, name: str) -> Any:
        """The network, scheduler, labels or metrics; FedwaveError if a part from a file cannot be built here."""
        part = getattr(self, name)
        if not isinstance(part, Packed):
            return part
        try:
            part = unpack(part.content, part.arrays)
        except (FedwaveError, RecursionError) as error:  # it may quote the file
            raise FedwaveError(brief(error)) from None
        if name == "labels" and part is None:
            return None
        every = part if name == "metrics" and isinstance(part, tuple) else [part]
        if not all(isinstance(one, PARTS[name]) for one in every):
            raise FedwaveError(f"the {name} in the file is {brief(short_repr(part))}, not a {PARTS[name].__name__}.")
        return part

    def same_as(self, other: Setup) -> bool:
        """Do both make the same trace? The version of fedwave may differ."""
        mine, theirs = self.packed(), other.packed()
        one, two = ({**setup, "version": None} for setup, _ in (mine, theirs))
        return one == two and _same_arrays(mine[1], theirs[1])

    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The setup as JSON, and the arrays that it refers to."""
        content = {f.name: getattr(self, f.name) for f in fields(self)}
        # A seed may have more digits than readers of JSON accept as a number.
        content |= {"instances": list(self.instances), "seed": str(self.seed)}
        arrays: dict[str, Array] = {}
        for name in PARTS:
            part = Packed.of(name, content[name])
            content[name] = part.content
            arrays |= part.arrays
        return content, arrays


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """What happened in a simulation: one row per round, and the setup, from which it can be continued or repeated.

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

    @cached_property
    def network(self) -> Network:
        """The network that was simulated."""
        network: Network = self.setup.part("network")
        if network.size != self.final.waiting.shape[1]:
            raise FedwaveError(
                f"the network in the file has {network.size} devices, but the trace has {self.final.waiting.shape[1]}."
            )
        return network

    @cached_property
    def scheduler(self) -> Scheduler:
        """The scheduler that decided."""
        scheduler: Scheduler = self.setup.part("scheduler")
        return scheduler

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

    @property
    def gain(self) -> FloatArray:
        """h, ``[T, I, U]``."""
        return self._of_devices("gain")

    @property
    def scheduled(self) -> BoolArray:
        """a, ``[T, I, U]``."""
        return self._of_devices("scheduled")

    @property
    def delivered(self) -> BoolArray:
        """Scheduled and arrived, ``[T, I, U]``."""
        return self._of_devices("delivered")

    @property
    def arrivals(self) -> IntArray:
        """m, shards that arrived, lost ones included, ``[T, I, U]``."""
        return self._of_devices("arrivals")

    @property
    def lost(self) -> IntArray:
        """Shards of ``arrivals`` that found the buffer full, ``[T, I, U]``."""
        return self._of_devices("lost")

    @property
    def accepted(self) -> IntArray:
        """Shards of ``arrivals`` that found room in the buffer and are trained on, ``[T, I, U]``."""
        return self.arrivals - self.lost

    @property
    def waiting(self) -> IntArray:
        """n at the round's start, ``[T, I, U]``."""
        return self._of_devices("waiting")

    @property
    def heard(self) -> BoolArray:
        """Which devices heard the broadcast, ``[T, I, U]``."""
        return self._of_devices("heard")

    @property
    def delay(self) -> IntArray:
        """d in every round, ``[T, I, U]``."""
        return self._of_devices("delay")

    @property
    def learned(self) -> IntArray:
        """N after every round: the shards that a device has delivered so far, ``[T, I, U]``."""
        return self._of_devices("learned")

    def _of_devices(self, name: str) -> Array:
        if name not in self.devices:
            raise FedwaveError(f'this trace is a summary and has no {name!r}: simulate with record="full" to keep it.')
        return self.devices[name]

    def memory_of(self, metric: str) -> dict[str, Array]:
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
        """Are all arrays of both traces equal, to the last bit? False if ``other`` is not a Trace."""
        return isinstance(other, Trace) and _same_arrays(self._packed()[1], other._packed()[1])

    def save(self, path: str | Path) -> Path:
        """Write the trace to ``path`` (.npz), whole or not at all."""
        path = as_path("the file for a trace", path)
        if path.suffix != ".npz":
            raise FedwaveError(f"a trace is saved as a .npz file, not {path.name!r}.")
        return write_whole(path, self.write)

    def write(self, file: IO[bytes]) -> None:
        """Write the trace into an open file."""
        header, arrays = self._packed()
        for name, array in arrays.items():
            if not is_plain(array, numbers=not name.startswith("constants/")):
                what = "Python objects" if array.dtype.hasobject else array.dtype
                raise FedwaveError(f"{name} holds {what}, which a trace cannot keep: use arrays of numbers.")
        write_archive(file, FORMAT, header, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace that ``save`` wrote.

        A part whose class is not registered here is no obstacle: only what needs it raises FedwaveError.
        """
        path = as_path("the file of a trace", path)
        if not os.path.lexists(path):
            raise FedwaveError(f"there is no trace at {path}.")
        with opened(path, str(path)) as (raw, _):
            return cls.read(raw, str(path))

    @classmethod
    def read(cls, raw: IO[bytes], name: str) -> Trace:
        """Read a trace from an open file, which messages call ``name``."""
        header, arrays = read_archive(raw, name, FORMAT)
        with refusing(name, FORMAT):
            trace = cls._of(header, arrays)
            _check_arrays(trace)
        return trace

    def _packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The header and the arrays of a file."""
        setup, constants = self.setup.packed()
        header = {
            **setup,
            "measured": {name: asdict(about) for name, about in self.metrics.items()},
            "device_names": list(self.device_names),
            "channel": pack(self.channel, constants, "channel"),
        }
        groups = {f.name: _named(getattr(self, f.name)) for f in _GROUPS} | {"constants": constants}
        return header, {f"{group}/{name}": array for group, own in groups.items() for name, array in own.items()}

    @classmethod
    def _of(cls, header: dict[str, Any], arrays: Mapping[str, Array]) -> Trace:
        """The trace with this header and these arrays; their shapes are checked later."""
        groups: dict[str, Any] = {f.name: {} for f in _GROUPS} | {"constants": {}}
        for key, array in arrays.items():
            group, _, name = key.partition("/")
            groups[group][name] = array
        constants = groups.pop("constants")
        setup, measured, device_names, channel = _read_header(header, constants)
        groups["final"] = NetworkState(**groups["final"])
        groups["labels"] = LabelState(**groups["labels"]) if groups["labels"] else None
        return cls(setup, measured, device_names, channel=channel, **groups)


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
    _need(isinstance(header["label"], str) and isinstance(header["version"], str), "label")
    seed = header["seed"]
    _need(isinstance(seed, str) and seed.isascii() and seed.isdecimal() and len(seed) < 400, "seed")
    _need(header["record"] in ("full", "summary"), "record")
    _need(isinstance(header["beliefs"], bool), "beliefs")
    ids, names = header["instances"], header.pop("device_names")
    _need(isinstance(ids, list) and all(type(i) is int and 0 <= i < 2**63 for i in ids), "instances")
    _need(len(set(ids)) == len(ids), "instances")
    _need(isinstance(names, list) and all(isinstance(one, str) for one in names), "device_names")
    measured = {name: Description(**about) for name, about in header.pop("measured").items()}
    for name, about in measured.items():
        texts = (about.name, about.label, about.over_rounds, about.better)
        _need(all(isinstance(one, str) for one in texts) and isinstance(about.per_device, bool), name)
        _need(about.name == name, name)
        check_column(name, about.over_rounds)
    channel = unpack(header.pop("channel"), constants)
    _need(channel == () or can_keep(channel, len(ids)), "channel")
    for name in PARTS:
        own = {key: array for key, array in constants.items() if key.split(".")[0] == name}
        header[name] = Packed(header[name], own)
    header |= {"instances": tuple(ids), "seed": int(seed)}
    return Setup(**header), measured, tuple(names), channel


def _check_arrays(trace: Trace) -> None:
    """Raises ValueError if an array has not the axes and the type of its group."""
    _need(trace.score.ndim == 2 and trace.score.size > 0 and trace.final.waiting.ndim == 2, "score")
    size = trace.final.waiting.shape[1]
    sizes = {"round": trace.rounds, "instance": trace.instances, "device": size}
    for group in _GROUPS:
        wanted = group.metadata["axes"]
        axes = tuple(sizes[axis] for axis in wanted if axis is not ...)
        for name, array in _named(getattr(trace, group.name)).items():
            own = array.shape[: len(axes)] if ... in wanted else array.shape
            _need(bool(name) and is_plain(array) and own == axes, f"{group.name}/{name}")
            if isinstance(getattr(trace, group.name), (NetworkState, LabelState)):
                _check_counts(f"{group.name}/{name}", array, "bool" if name == "delivered" else "int64")
    _need(trace.devices.keys() == (DEVICE_ARRAYS.keys() if trace.record == "full" else set()), "record")
    for name, array in trace.devices.items():
        _check_counts(f"devices/{name}", array, DEVICE_ARRAYS[name])
    _need(len(trace.setup.instances) == trace.instances, "instances")
    _need(len(trace.device_names) in (0, size), "device_names")
    _need({name for name, about in trace.metrics.items() if about.per_device} == set(trace.accumulated), "accumulated")
    _need({name for name, about in trace.metrics.items() if not about.per_device} == set(trace.series), "series")
    _need({"score", "backlog"} <= trace.series.keys(), "series")


def _check_counts(name: str, array: Array, dtype: str) -> None:
    _need(array.dtype == dtype and bool(array.min() >= 0) and bool(array.max() <= _MOST), name)


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
