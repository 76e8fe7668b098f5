"""The Trace: what happened in a run, and how to run it again.

Series ``[T, I]`` are always kept; the ``[T, I, U]`` arrays unless the run kept only a summary; beliefs
only with ``beliefs=True``. A file is a plain NumPy .npz archive (no pickle) with a JSON header and a
checksum of everything inside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from html import escape
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError, counted, is_list, shown
from fedwave.files.archive import is_plain, read_archive, refusing, write_archive
from fedwave.files.reading import as_path, opened
from fedwave.files.writing import write_whole
from fedwave.metrics import over_rounds
from fedwave.trace_check import check_trace
from fedwave.types import Array, BoolArray, FloatArray, IntArray, NetworkState, State

if TYPE_CHECKING:
    import xarray as xr

FORMAT = "trace 4"


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """A run of one scheduler. Round t is row t - 1."""

    series: Mapping[str, Array]  # [T, I]: one metric each
    devices: Mapping[str, Array]  # [T, I, U]; empty in a summary
    beliefs: Mapping[str, Array]  # [T, I, ...]; empty without beliefs=True
    accumulated: Mapping[str, Array]  # [I, U]: per-device metrics, see ``totals``
    final: NetworkState  # the counts after the last round
    scheduler_state: State  # after the last round: with `final`, enough to continue the run
    memories: State  # of the metrics, by "metric.name"
    provenance: Mapping[str, Any]  # JSON: network, scheduler, seed, instance numbers, version
    constants: Mapping[str, Array] = field(default_factory=dict)  # arrays of the provenance
    channel: State = field(default_factory=dict)  # of a channel with memory, see network/carry.py
    labels: State = field(default_factory=dict)  # LabelState, of a scheduler that sees labels

    @property
    def rounds(self) -> int:
        return int(self.score.shape[0])

    @property
    def instances(self) -> int:
        return int(self.score.shape[1])

    @property
    def instance_numbers(self) -> tuple[int, ...]:
        return tuple(self.provenance["instances"])

    @property
    def scheduler(self) -> str:
        return str(self.provenance["scheduler_name"])

    @property
    def label(self) -> str:
        """The scheduler, with the parameters that it was given by name."""
        return str(self.provenance.get("label", self.scheduler))

    @property
    def device_names(self) -> tuple[str, ...]:
        """Of the device table; empty where it has none."""
        table = self.provenance["network"]["fields"]["devices"]["fields"]
        return tuple(table.get("name") or ())

    @property
    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """What was watched: label, over_rounds, better and per_device of every metric."""
        out: Mapping[str, Mapping[str, Any]] = self.provenance["metrics"]
        return out

    @property
    def totals(self) -> dict[str, Array]:
        """Per-device metrics over all rounds, ``[I, U]`` each: device_uploads, device_shards, ..."""
        return {
            name: value / self.rounds if self.metrics[name]["over_rounds"] == "mean" else value
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
        """Who heard the broadcast, ``[T, I, U]``."""
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
        """What a metric remembers after the last round."""
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
            # The third axis is often the device, but what a scheduler believes is its own.
            own = 3 if rows.shape[2:3] == self.final.waiting.shape[1:] else 2
            more = [f"{name}_{k}" for k in range(own, rows.ndim)]
            data[f"belief_{name}"] = ((*axes[:own], *more)[: rows.ndim], rows)
        coordinates = {
            "round": np.arange(1, self.rounds + 1),
            "instance": list(self.instance_numbers),
            "device": list(self.device_names) or np.arange(1, self.final.waiting.shape[1] + 1),
        }
        about = {"scheduler": self.scheduler, "seed": self.provenance["seed"]}
        return xr.Dataset(data, coords=coordinates, attrs=about)

    def __repr__(self) -> str:
        kept = "full" if self.devices else "summary"
        sizes = ((self.rounds, "round"), (self.instances, "instance"), (self.final.waiting.shape[1], "device"))
        return (
            f"Trace of {self.label}: {', '.join(counted(n, what) for n, what in sizes)}, "
            f"seed {self.provenance['seed']}, {kept} record\n"
            f"  mean score {self.score.mean():.2f}, mean backlog {self.backlog.mean():.1f}"
        )

    def _repr_html_(self) -> str:
        """Every metric's mean over instances, for notebooks."""
        rows = []
        for name, values in self.series.items():
            about = self.metrics[name]
            mean = over_rounds(about["over_rounds"], values).mean()
            rows.append(f"<tr><td>{escape(about['label'])}</td><td>{about['over_rounds']}</td><td>{mean:.4g}</td></tr>")
        heading = "<tr><th>metric</th><th>over rounds</th><th>mean over instances</th></tr>"
        return f"<pre>{escape(repr(self))}</pre><table>{heading}{''.join(rows)}</table>"

    def same_as(self, other: Trace) -> bool:
        """Are all arrays equal? Those of something else than a trace are not."""
        if not isinstance(other, Trace):
            return False
        mine, theirs = self._arrays(), other._arrays()
        return mine.keys() == theirs.keys() and all(
            np.array_equal(mine[k], theirs[k], equal_nan=mine[k].dtype.kind == "f") for k in mine
        )

    def save(self, path: str | Path) -> Path:
        """Write the trace to ``path`` (.npz), whole or not at all."""
        path = as_path("the file for a trace", path)
        if path.suffix != ".npz":
            raise FedwaveError(f"a trace is saved as a .npz file, not {path.name!r}.")
        return write_whole(path, self.write)

    def write(self, file: IO[bytes]) -> None:
        """Write the trace into an open file."""
        arrays = self._arrays()
        for name, array in arrays.items():
            if not is_plain(array, numbers=not name.startswith(("constants/", "channel/"))):
                what = "Python objects" if array.dtype.hasobject else array.dtype
                raise FedwaveError(f"{name} holds {what}, which a trace cannot keep: use arrays of numbers.")
        write_archive(file, FORMAT, self.provenance, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace that ``save`` wrote."""
        path = as_path("the file of a trace", path)
        if not os.path.lexists(path):
            raise FedwaveError(f"there is no trace at {path}.")
        with opened(path, str(path)) as (raw, _):
            return cls.read(raw, str(path))

    @classmethod
    def read(cls, raw: IO[bytes], name: str) -> Trace:
        """Read a trace from an open file; ``name`` is what to call it if it is damaged."""
        provenance, arrays = read_archive(raw, name, FORMAT)
        with refusing(name, FORMAT):
            trace = cls._of(arrays, provenance)
            check_trace(trace)
            return trace

    def groups(self) -> dict[str, Mapping[str, Array]]:
        """All arrays, by the group they belong to."""
        return {
            "series": self.series,
            "devices": self.devices,
            "beliefs": self.beliefs,
            "accumulated": self.accumulated,
            "final": {f.name: getattr(self.final, f.name) for f in fields(self.final)},
            "state": self.scheduler_state,
            "memories": self.memories,
            "constants": self.constants,
            "channel": self.channel,
            "labels": self.labels,
        }

    def _arrays(self) -> dict[str, Array]:
        return {f"{g}/{name}": array for g, group in self.groups().items() for name, array in group.items()}

    @classmethod
    def _of(cls, arrays: dict[str, Array], provenance: dict[str, Any]) -> Trace:
        groups: dict[str, dict[str, Array]] = {}
        for key, array in arrays.items():
            group, _, name = key.partition("/")
            groups.setdefault(group, {})[name] = array
        known = {
            "series",
            "devices",
            "beliefs",
            "accumulated",
            "final",
            "state",
            "memories",
            "constants",
            "channel",
            "labels",
        }
        if not groups.keys() <= known:
            raise ValueError(f"it holds {min(groups.keys() - known)!r}, which is no part of a trace")
        return cls(
            series=groups["series"],
            devices=groups.get("devices", {}),
            beliefs=groups.get("beliefs", {}),
            accumulated=groups["accumulated"],
            final=NetworkState(**groups["final"]),
            scheduler_state=groups.get("state", {}),
            memories=groups.get("memories", {}),
            provenance=provenance,
            constants=groups.get("constants", {}),
            channel=groups.get("channel", {}),
            labels=groups.get("labels", {}),
        )


def labelled_traces(traces: Trace | Mapping[str, Trace] | Iterable[Trace]) -> dict[str, Trace]:
    """Traces by label, whether one is given, several, or a mapping; anything else is refused."""
    rule = "must be a trace, several of them, or a mapping of labels to traces"
    if isinstance(traces, Trace):
        traces = [traces]
    if not (isinstance(traces, Mapping) or is_list(traces)):
        raise FedwaveError(f"traces is {shown(traces)}, {rule}.")
    pairs: list[tuple[Any, Any]] = (
        list(traces.items()) if isinstance(traces, Mapping) else [(getattr(one, "label", None), one) for one in traces]
    )
    if not pairs:
        raise FedwaveError("traces is empty, must hold at least one trace, as fw.simulate returns.")
    texts = [str(label) for label, _ in pairs]
    for label, (_, one) in zip(texts, pairs, strict=True):
        if not isinstance(one, Trace):
            raise FedwaveError(f"traces holds {shown(one)}, {rule}.")
        if texts.count(label) > 1:
            raise FedwaveError(f"two traces are called {label!r}: give a mapping of labels to traces.")
    return {label: one for label, (_, one) in zip(texts, pairs, strict=True)}
