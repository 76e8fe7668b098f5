"""A run folder: an experiment, its results so far, and the lock of the process at work.

    config.yaml        the experiment, resolved: run again, it gives the same results
    provenance.json    versions, machine, time, commit
    rounds/*.parquet   one file per finished unit: a row per scheduler, instance and round
    devices/*.parquet  the same: a row per scheduler, instance and device
    units/*.json       written last: the unit is finished, and these are its files' SHA-256 sums
    checkpoints/       of units at work
    .lock              held by the process at work; the system releases it when that process ends

Every file is written whole or not at all. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import load_experiment, to_mapping, to_yaml
from fedwave.experiments.results.parquet import dataset_from, tables
from fedwave.experiments.run.units import Unit
from fedwave.files import check_folder, write_json, write_text, write_whole

if TYPE_CHECKING:
    import xarray as xr


class Damaged(FedwaveError):
    """A file of a run folder has changed since it was written."""


class RunFolder:
    """Reads and writes a run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock; fail and name the holder if another process has it."""
        check_folder(self.path)
        holder, lock = self.path / "lock.json", FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise FedwaveError(
                f"{self.path} is in use by {_holder(holder)}: wait for it, or choose another place."
            ) from None
        try:
            write_json(holder, {"process": os.getpid(), "machine": platform.node()})
            self._sweep()
            yield
        finally:
            holder.unlink(missing_ok=True)
            lock.release()  # the file stays: if it were removed, two processes could lock different files

    def begin(self, experiment: Experiment) -> None:
        """Store the experiment; refuse a folder that holds another one."""
        config = self.path / "config.yaml"
        if not config.exists():
            write_text(config, to_yaml(experiment))
            return
        there, wanted = to_mapping(load_experiment(config)), to_mapping(experiment)
        # The order of the axes numbers the points, and with them the units.
        if there != wanted or list(there["sweep"]) != list(wanted["sweep"]):
            field, is_, asked = _first_difference(there, wanted)
            raise FedwaveError(
                f"{self.path} holds another experiment: its {field} is {_short(is_)}, not {_short(asked)}; "
                f"choose another --out, or go on with it by `fedwave resume {self.path}`."
            )

    def experiment(self) -> Experiment:
        """The experiment of this folder."""
        config = self.path / "config.yaml"
        if not config.exists():
            raise FedwaveError(f"{self.path} is no run folder: it has no config.yaml.")
        return load_experiment(config)

    def keep(self, unit: Unit, data: xr.Dataset, seconds: float) -> None:
        """Store a finished unit: its tables, then its record; then its checkpoint is removed."""
        made = tables(unit.where, data)
        contents = {f"{kind}/{unit.name}.parquet": table for kind, table in made.items()}
        for name, content in contents.items():
            write_whole(self.path / name, lambda file, c=content: file.write(c))  # type: ignore[misc]
        record = {
            "unit": unit.name,
            "where": dict(unit.where),
            "schedulers": list(unit.schedulers),
            "instances": list(unit.instances),
            "seconds": round(seconds, 3),
            "sha256": {name: _sum(content) for name, content in contents.items()},
        }
        write_json(self._record(unit), record)
        self.checkpoint(unit).unlink(missing_ok=True)

    def finished(self, unit: Unit) -> bool:
        """Whether the unit is stored; raises Damaged, with the file's name, if a file is damaged."""
        if not self._record(unit).exists():
            return False
        self._contents(unit)
        return True

    def data(self, unit: Unit) -> xr.Dataset:
        """The results of a finished unit."""
        rounds, devices = self._contents(unit)
        try:
            return dataset_from(rounds, devices)
        except Exception as error:  # the checksums match, so these tables were made by other code
            where = f"unit {unit.name} in {self.path}"
            raise Damaged(f"the tables of {where} cannot be read ({error}).") from None

    def checkpoint(self, unit: Unit) -> Path:
        """The path of a unit's checkpoint."""
        return self.path / "checkpoints" / f"{unit.name}.npz"

    def _record(self, unit: Unit) -> Path:
        return self.path / "units" / f"{unit.name}.json"

    def _contents(self, unit: Unit) -> list[bytes]:
        record = self._record(unit)
        try:
            sums = json.loads(record.read_bytes())["sha256"]
            names = [f"{kind}/{unit.name}.parquet" for kind in ("rounds", "devices")]
            wanted = [sums[name] for name in names]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Damaged(f"{record} is damaged ({error}).") from None
        contents = []
        for name, sum_ in zip(names, wanted, strict=True):
            path = self.path / name
            try:
                content = path.read_bytes()
            except OSError as error:
                raise Damaged(f"{path} cannot be read: {error.strerror}.") from None
            if _sum(content) != sum_:
                raise Damaged(f"{path} is damaged: its checksum is not the one it was stored with.")
            contents.append(content)
        return contents

    def _sweep(self) -> None:
        """Remove unfinished files of a killed process."""
        for unfinished in self.path.rglob(".*.part"):
            unfinished.unlink(missing_ok=True)


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _holder(path: Path) -> str:
    try:
        found = json.loads(path.read_bytes())
        return f"process {found['process']} on {found['machine']}"
    except (OSError, ValueError, KeyError):
        return "another process"


def _first_difference(there: Any, wanted: Any, where: str = "") -> tuple[str, Any, Any]:
    """A field, with its dots, that two experiments do not share, and its values."""
    keys = [k for k in {**wanted, **there} if wanted.get(k) != there.get(k)]
    if not keys:
        return "sweep", list(there["sweep"]), list(wanted["sweep"])
    field, is_, asked = where + keys[0], there.get(keys[0]), wanted.get(keys[0])
    if isinstance(is_, dict) and isinstance(asked, dict):
        return _first_difference(is_, asked, f"{field}.")
    return field, is_, asked


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 60 else text[:57] + "..."
