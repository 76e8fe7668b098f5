"""A run folder: an experiment, its results so far, and a lock.

    config.yaml        the experiment, resolved: run again, it gives the same results
    plan.json          the units that the experiment consists of
    provenance.json    versions, machine, time, commit
    inputs/            copies of the user's files that the experiment imports, for people, and inputs.json: their
                       SHA-256 sums. They are never imported from here.
    rounds/*.parquet   one file per finished unit: a row per scheduler, instance and round
    devices/*.parquet  the same: a row per scheduler, instance and device
    units/*.json       written last: the unit is finished, and these are the SHA-256 sums of its files
    checkpoints/       of units at work
    .lock, lock.json   Only one process can use a run folder at a time; a second one fails and names the first.
                       The system releases the lock when the process dies.

Every file is written whole or not at all. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import points, stored_experiment, to_mapping, to_yaml
from fedwave.experiments.results.inputs import find_inputs, keep_inputs
from fedwave.experiments.results.parquet import dataset_from, tables
from fedwave.experiments.run.units import Unit
from fedwave.files import check_folder, write_json, write_text, write_whole
from fedwave.parts_import import checksum, import_source

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
        """Hold the lock; fail if another process holds it."""
        check_folder(self.path)
        holder, lock = self.path / "lock.json", FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise FedwaveError(
                f"{self.path} is in use by {_named(holder)}: wait for it, or choose another place."
            ) from None
        try:
            write_json(holder, {"process": os.getpid(), "machine": platform.node()})
            self._remove_unfinished()
            yield
        finally:
            holder.unlink(missing_ok=True)
            lock.release()  # .lock stays: if it were removed, two processes could each lock their own

    def exists(self) -> bool:
        """Has an experiment been begun here?"""
        return self._config.exists()

    def begin(self, experiment: Experiment, units: Sequence[Unit]) -> None:
        """Write down the experiment of this folder, or refuse one that differs from it."""
        if self._config.exists():
            self._check_same(experiment)
        keep_inputs(self.path, units[0].sources)
        fields = ("name", "point", "where", "schedulers", "instances")
        plan = [{field: getattr(unit, field) for field in fields} for unit in units]
        write_json(self.path / "plan.json", plan)
        if not self._config.exists():  # last, since it makes this a run folder
            write_text(self._config, to_yaml(experiment))

    def experiment(self, imports: Sequence[str] = ()) -> Experiment:
        """The experiment, to resume it: imports the user's files from their old places or from ``imports``."""
        stored = self.stored()
        for path, text in find_inputs(self.path, stored.imports, imports).items():
            import_source(path, text)
        return stored

    def stored(self) -> Experiment:
        """The experiment, to read its results: imports nothing."""
        if not self._config.exists():
            raise FedwaveError(f"{self.path} is no run folder: it has no config.yaml.")
        return stored_experiment(self._config)

    def units(self) -> list[Unit]:
        """All units of the experiment, finished or not; imports nothing."""
        at = [point for _, point in points(self.stored())]
        plan = self.path / "plan.json"
        try:
            return [
                Unit(
                    unit["name"], unit["point"], unit["where"], tuple(unit["schedulers"]),
                    tuple(unit["instances"]), at[unit["point"]],
                )
                for unit in json.loads(plan.read_bytes())
            ]  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            raise Damaged(f"{plan} is damaged ({error}): resume the run to repair it.") from None

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
            "imports": {path: checksum(source) for path, source in unit.sources.items()},
            "sha256": {name: _sum(content) for name, content in contents.items()},
        }
        write_json(self._record(unit), record)
        self.checkpoint(unit).unlink(missing_ok=True)

    def finished(self, unit: Unit) -> bool:
        """Is it stored? Raises Damaged, with the file's name, if a file of it has changed since."""
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
        """The file with the checkpoint of a unit at work."""
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

    @property
    def _config(self) -> Path:
        return self.path / "config.yaml"

    def _check_same(self, experiment: Experiment) -> None:
        there, wanted = to_mapping(self.stored()), to_mapping(experiment)
        # The order of the axes numbers the points, and with them the units.
        if there != wanted or list(there["sweep"]) != list(wanted["sweep"]):
            field, is_, asked = _first_difference(there, wanted)
            raise FedwaveError(
                f"{self.path} holds another experiment: its {field} is {_short(is_)}, not {_short(asked)}; "
                f"choose another --out, or go on with it by `fedwave resume {self.path}`."
            )

    def _remove_unfinished(self) -> None:
        """Remove what a killed process left half-written."""
        for unfinished in self.path.rglob(".*.part"):
            unfinished.unlink(missing_ok=True)


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _named(holder: Path) -> str:
    try:
        content = json.loads(holder.read_bytes())
        return f"process {content['process']} on {content['machine']}"
    except (OSError, ValueError, KeyError):
        return "another process"


def _first_difference(there: Any, wanted: Any, where: str = "") -> tuple[str, Any, Any]:
    """The first field, with its dots, in which two experiments differ, and its values."""
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
