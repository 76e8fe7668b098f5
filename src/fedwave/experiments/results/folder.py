"""A run folder: an experiment, its results so far, and a lock.

    config.yaml        the experiment, resolved: run again, it gives the same results
    plan.json          its units, the sums of its inputs, and numbers that differ between the points of its sweep
    provenance.json    versions, machine, time, commit
    inputs/            copies and sums of what came from outside (inputs.py)
    rounds/*.parquet   one file per finished unit: a row per scheduler, instance and round
    devices/*.parquet  the same: a row per scheduler, instance and device
    units/*.json       written last: the unit is finished; the fingerprint of its run, the SHA-256 sums of its files
    timings/*.json     how long a finished unit took, when and where
    checkpoints/       of units at work; the fingerprint of the run is part of their names
    .lock, lock.json   Only one process can use a run folder at a time; a second one fails and names the first.
                       The system releases the lock when the process dies.

Every file is written whole or not at all. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.files import renamed
from fedwave.experiments.config.read import points, stored_experiment, to_mapping, to_yaml
from fedwave.experiments.config.resolve import Values, added, with_added
from fedwave.experiments.results import inputs
from fedwave.experiments.results.fingerprint import fingerprint
from fedwave.experiments.results.parquet import dataset_from, tables
from fedwave.experiments.results.parquet_check import Wanted, WrongTable
from fedwave.experiments.run.units import Unit, units_of
from fedwave.files import check_folder, write_json, write_text, write_whole
from fedwave.parts_import import import_source, imported_sources
from fedwave.version import NUMERICS, __version__

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

    def begin(self, experiment: Experiment) -> list[Unit]:
        """The units of a resolved experiment, which is written down here, or refused if it is another than before.

        What it reads is kept here or pinned; its units read that and nothing else.
        """
        sources = imported_sources(experiment.imports)
        found = inputs.found_files(self.path, experiment, sources)
        places = {one.name: str(one.place) for one in found if one.kind in ("code", "data")}
        stored = renamed(experiment, {place: name for name, place in places.items()})
        begun = self._config.exists()
        if begun:
            inputs.check_inputs(self.path, found)
            self._check_same(stored)
            self._check_numerics()
        units = units_of(stored, places)
        found += _datasets(units)
        if begun:
            inputs.check_inputs(self.path, found)
        known = inputs.restore_copies(self.path, found) if begun else {}
        known = known or inputs.keep_inputs(self.path, found)
        for name, one in known.items():
            if one.kind == "data" and one.copy is not None:
                places[name] = os.path.abspath(self.path / one.copy)
        sums = {name: one.sha256 for name, one in known.items()}
        at = {unit.point: unit.experiment for unit in units}
        at_points = [added(before, at[k]) for k, (_, before) in enumerate(points(stored))]
        print_ = fingerprint(stored, at_points, sums, NUMERICS)
        pins = {name: one.sha256 for name, one in known.items() if one.kind != "code"}
        units = [replace(u, places=places, pins=pins, fingerprint=print_) for u in units]
        self._write_plan(at_points, units, sums)
        if not begun:  # last, since it makes this a run folder
            write_text(self._config, to_yaml(stored))
        return units

    def experiment(self, imports: Sequence[str] = ()) -> Experiment:
        """The experiment, to resume it: imports the user's files from their old places or from ``imports``.

        Data files are read from their copies here.
        """
        stored = self.stored()
        places = inputs.data_for(self.path)
        for name, (place, text) in inputs.code_for(self.path, stored.imports, imports).items():
            import_source(place, text)
            places[name] = place
        return renamed(stored, places)

    def stored(self) -> Experiment:
        """The experiment, to read its results: imports nothing."""
        if not self._config.exists():
            raise FedwaveError(f"{self.path} is no run folder: it has no config.yaml.")
        return stored_experiment(self._config)

    def units(self) -> list[Unit]:
        """All units of the experiment, finished or not; imports nothing."""
        stored, path = self.stored(), self._plan
        try:
            plan = json.loads(path.read_bytes())
            if isinstance(plan, list):
                raise FedwaveError(
                    f"{self.path} was made by an older version of fedwave, whose run folders this one cannot read: "
                    "run its config.yaml again."
                )
            values = plan["points"]
            at = [with_added(at, values[k]) for k, (_, at) in enumerate(points(stored))]
            print_ = fingerprint(stored, values, plan["inputs"], plan["numerics"])
            return [
                Unit(
                    unit["name"], unit["point"], unit["where"], tuple(unit["schedulers"]),
                    tuple(unit["instances"]), at[unit["point"]], fingerprint=print_,
                )
                for unit in plan["units"]
            ]  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise Damaged(f"{path} is damaged ({error}): resume the run to repair it.") from None

    def is_finished(self) -> bool:
        """Is every unit stored and undamaged? Then nothing from outside is needed any more."""
        try:
            return all(self.finished(unit) for unit in self.units())
        except Damaged:
            return False

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
            "fingerprint": unit.fingerprint,
            "sha256": {name: _sum(content) for name, content in contents.items()},
        }
        now = datetime.now(UTC).isoformat(timespec="seconds")
        took = {"seconds": round(seconds, 3), "finished": now, "machine": platform.node()}
        write_json(self.path / "timings" / f"{unit.name}.json", took)
        write_json(self._record(unit), record)
        with suppress(OSError):  # it may be a folder that somebody made; nobody reads it any more
            self.checkpoint(unit).unlink(missing_ok=True)

    def recorded(self, unit: Unit) -> bool:
        """Is it stored? Whether it is sound is seen when it is read."""
        return self._record(unit).exists()

    def finished(self, unit: Unit) -> bool:
        """Is it stored? Raises Damaged, with the file's name, if a file of it has changed since."""
        if not self._record(unit).exists():
            return False
        self.data(unit)
        return True

    def data(self, unit: Unit) -> xr.Dataset:
        """The results of a finished unit."""
        rounds, devices = self._contents(unit)
        try:
            return dataset_from(rounds, devices, _wanted(unit))
        except WrongTable as error:  # the checksums match, so somebody wrote it so
            name = self.path / error.table / f"{unit.name}.parquet"
            raise Damaged(f"{name} is not the table of its unit: {error}.") from None

    def checkpoint(self, unit: Unit) -> Path:
        """The file with the checkpoint of a unit at work; one of another run has another name."""
        return self.path / "checkpoints" / f"{unit.name}.{unit.fingerprint[:16]}.npz"

    def _record(self, unit: Unit) -> Path:
        return self.path / "units" / f"{unit.name}.json"

    def _contents(self, unit: Unit) -> list[bytes]:
        record = self._record(unit)
        try:
            content = json.loads(record.read_bytes())
            names = [f"{kind}/{unit.name}.parquet" for kind in ("rounds", "devices")]
            wanted = [content["sha256"][name] for name in names]
            made_by = content["fingerprint"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Damaged(f"{record} is damaged ({error}).") from None
        if made_by != unit.fingerprint:
            raise FedwaveError(
                f"{record} belongs to another run: another experiment, other inputs or another version made it than "
                f"{self.path / 'config.yaml'} and plan.json say; restore these, or start a new run."
            )
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

    @property
    def _plan(self) -> Path:
        return self.path / "plan.json"

    def _write_plan(
        self, at_points: Sequence[Values], units: Sequence[Unit], sums: Mapping[str, str]
    ) -> None:
        fields = ("name", "point", "where", "schedulers", "instances")
        plan = {
            "numerics": NUMERICS,
            "inputs": dict(sums),
            "points": list(at_points),
            "units": [{field: getattr(unit, field) for field in fields} for unit in units],
        }
        write_json(self._plan, plan)

    def _check_numerics(self) -> None:
        try:
            made_by = json.loads(self._plan.read_bytes())["numerics"]
        except (OSError, ValueError, KeyError, TypeError):
            return  # damaged, and written anew; the fingerprints of the units tell
        if made_by != NUMERICS:
            raise FedwaveError(
                f"{self.path} was begun with version {made_by} of the numerics, but fedwave {__version__} has version "
                f"{NUMERICS}: finish it with the fedwave that began it, or start a new run."
            )

    def _check_same(self, experiment: Experiment) -> None:
        there, wanted = to_mapping(self.stored()), to_mapping(experiment)
        # The order of the axes numbers the points, and with them the units.
        if there != wanted or list(there["sweep"]) != list(wanted["sweep"]):
            field, is_, asked = first_difference(there, wanted)
            raise FedwaveError(
                f"{self.path} holds another experiment: its {field} is {_short(is_)}, not {_short(asked)}; "
                f"choose another --out, or go on with it by `fedwave resume {self.path}`."
            )

    def _remove_unfinished(self) -> None:
        """Remove what a killed process left half-written."""
        for unfinished in self.path.rglob(".*.part"):
            unfinished.unlink(missing_ok=True)


def _datasets(units: Sequence[Unit]) -> list[inputs.Found]:
    """The datasets that the units learn, each loaded once."""
    parts = {}
    for unit in units:
        task = unit.experiment.task
        if task is not None and str(task.dataset) not in parts:
            located = unit.located().task
            assert located is not None
            parts[str(task.dataset)] = located.dataset
    return [inputs.found_dataset(name, part) for name, part in parts.items()]


def _wanted(unit: Unit) -> Wanted:
    """What the tables of a unit must hold."""
    how = unit.experiment
    more = [part.name for part in how.metrics]
    return Wanted(
        unit.where, unit.schedulers, unit.instances, how.rounds, how.network, more, how.task is not None
    )  # fmt: skip


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _named(holder: Path) -> str:
    try:
        content = json.loads(holder.read_bytes())
        return f"process {content['process']} on {content['machine']}"
    except (OSError, ValueError, KeyError):
        return "another process"


def first_difference(there: Any, wanted: Any, where: str = "") -> tuple[str, Any, Any]:
    """The first field, with its dots, in which two experiments differ, and its values."""
    keys = [k for k in {**wanted, **there} if wanted.get(k) != there.get(k)]
    if not keys:
        return "sweep", list(there["sweep"]), list(wanted["sweep"])
    field, is_, asked = where + keys[0], there.get(keys[0]), wanted.get(keys[0])
    if isinstance(is_, dict) and isinstance(asked, dict):
        return first_difference(is_, asked, f"{field}.")
    return field, is_, asked


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 60 else text[:57] + "..."
