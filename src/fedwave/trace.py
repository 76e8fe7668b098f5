"""The Trace: what happened in a run, and how to make it again.

Series ``[T, I]`` are always there; the ``[T, I, U]`` arrays unless the run kept only a summary; beliefs
when they were asked for. A file is a plain NumPy .npz archive (no pickle) with a JSON text inside.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.files import write_whole
from fedwave.types import Array, BoolArray, FloatArray, IntArray, NetworkState, State

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Trace:
    """A run of one scheduler. Round t stands in row t - 1."""

    series: Mapping[str, Array]  # [T, I]
    devices: Mapping[str, Array]  # [T, I, U]; empty in a summary
    beliefs: Mapping[str, Array]  # [T, I, ...]; empty unless asked for
    final: NetworkState  # the counts after the last round
    uploads: IntArray  # [I, U] uploads that arrived, per device
    scheduler_state: State  # after the last round: with `final`, all a run needs to go on
    provenance: Mapping[str, Any]  # JSON: network, scheduler, seed, instance numbers, version
    constants: Mapping[str, Array] = field(
        default_factory=dict
    )  # arrays that the provenance refers to

    @property
    def rounds(self) -> int:
        return int(self.score.shape[0])

    @property
    def instances(self) -> int:
        return int(self.score.shape[1])

    @property
    def scheduler(self) -> str:
        return str(self.provenance["scheduler_name"])

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
        return self._whole("gain")

    @property
    def scheduled(self) -> BoolArray:
        """a, ``[T, I, U]``."""
        return self._whole("scheduled")

    @property
    def delivered(self) -> BoolArray:
        """Scheduled and arrived, ``[T, I, U]``."""
        return self._whole("delivered")

    @property
    def arrivals(self) -> IntArray:
        """m, shards that came in, lost ones included, ``[T, I, U]``."""
        return self._whole("arrivals")

    @property
    def lost(self) -> IntArray:
        """Shards of ``arrivals`` that found the buffer full, ``[T, I, U]``."""
        return self._whole("lost")

    @property
    def waiting(self) -> IntArray:
        """n at the round's start, ``[T, I, U]``."""
        return self._whole("waiting")

    @property
    def heard(self) -> BoolArray:
        """Who heard the broadcast, ``[T, I, U]``."""
        return self._whole("heard")

    @property
    def delay(self) -> IntArray:
        """d in every round, ``[T, I, U]``, counted from ``delivered``."""
        delivered = self.delivered
        delay = np.ones(delivered.shape, dtype=np.int64)
        for t in range(1, self.rounds):
            delay[t] = np.where(delivered[t - 1], 1, delay[t - 1] + 1)
        return delay

    def _whole(self, name: str) -> Array:
        if name not in self.devices:
            raise FedwaveError(
                f'this trace is a summary and has no {name!r}: simulate with record="full" to keep it.'
            )
        return self.devices[name]

    def same_as(self, other: Trace) -> bool:
        """Did exactly the same happen?"""
        mine, theirs = self._arrays(), other._arrays()
        return mine.keys() == theirs.keys() and all(
            np.array_equal(mine[k], theirs[k], equal_nan=mine[k].dtype.kind == "f") for k in mine
        )

    def save(self, path: str | Path) -> Path:
        """Write the trace to ``path`` (.npz), whole or not at all."""
        path = Path(path)
        if path.suffix != ".npz":
            raise FedwaveError(f"a trace is saved as a .npz file, not {path.name!r}.")
        return write_whole(path, self.write)

    def write(self, file: IO[bytes]) -> None:
        """Write the trace into an open file."""
        text = json.dumps({"format": FORMAT, **self.provenance})
        arrays = {"provenance": np.array(text), **self._arrays()}
        for name, array in arrays.items():
            if array.dtype.hasobject:  # it would have to be pickled
                raise FedwaveError(
                    f"{name} holds Python objects, which a trace cannot keep: use arrays of numbers."
                )
        np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace that ``save`` wrote."""
        try:
            with open(path, "rb") as raw:
                return cls.read(raw, str(path))
        except FileNotFoundError:
            raise FedwaveError(f"there is no trace at {path}.") from None
        except OSError as error:
            raise FedwaveError(f"{path} cannot be read: {error.strerror}.") from None

    @classmethod
    def read(cls, raw: IO[bytes], name: str) -> Trace:
        """Read a trace from an open file; ``name`` is what to call it if it is damaged."""
        try:
            if not zipfile.is_zipfile(raw):
                raise FedwaveError(f"{name} is not a trace or is damaged: it is no .npz archive.")
            raw.seek(0)
            with np.load(raw, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
            provenance = json.loads(str(arrays.pop("provenance")))
            if provenance.pop("format") != FORMAT:
                raise FedwaveError(f"{name} was written by another version of fedwave.")
            return cls._of(arrays, provenance)
        except FedwaveError:
            raise
        except Exception as error:  # damage shows anywhere: in the archive, an array or the text
            raise FedwaveError(f"{name} is not a trace or is damaged ({error}).") from None

    def _arrays(self) -> dict[str, Array]:
        groups: dict[str, Mapping[str, Array]] = {
            "series": self.series,
            "devices": self.devices,
            "beliefs": self.beliefs,
            "final": {f.name: getattr(self.final, f.name) for f in fields(self.final)},
            "state": self.scheduler_state,
            "constants": self.constants,
        }
        flat = {
            f"{g}/{name}": array for g, group in groups.items() for name, array in group.items()
        }
        return flat | {"uploads": self.uploads}

    @classmethod
    def _of(cls, arrays: dict[str, Array], provenance: dict[str, Any]) -> Trace:
        groups: dict[str, dict[str, Array]] = {}
        for key, array in arrays.items():
            group, _, name = key.partition("/")
            groups.setdefault(group, {})[name] = array
        return cls(
            series=groups["series"],
            devices=groups.get("devices", {}),
            beliefs=groups.get("beliefs", {}),
            final=NetworkState(**groups["final"]),
            uploads=arrays["uploads"],
            scheduler_state=groups.get("state", {}),
            provenance=provenance,
            constants=groups.get("constants", {}),
        )
