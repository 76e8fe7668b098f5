"""A run folder: an experiment, its results so far, and a lock.

    config.yaml        the experiment, resolved: run again, it gives the same results
    plan.json          the same text again, its units, the sums of its inputs, and numbers of single points (plan.py)
    provenance.json    versions, machine, time, commit
    inputs/            copies and sums of what came from outside (inputs.py)
    rounds/*.parquet   one file per finished unit: a row per scheduler, instance and round
    devices/*.parquet  the same: a row per scheduler, instance and device
    units/*.json       written last: the unit is finished; its fingerprint, the SHA-256 sums of its files
    timings/*.json     how long a finished unit took, when and where
    checkpoints/       of units at work; each ends in the fingerprint of its unit (run/envelope.py)
    .lock, lock.json   only one process can use a run folder at a time (lock.py)

Every file is written whole or not at all. JSON files carry their own sums (sealed.py). Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.files import renamed
from fedwave.experiments.config.read import points, stored_content, stored_experiment, to_mapping, to_yaml
from fedwave.experiments.config.resolve import added
from fedwave.experiments.config.units import Unit, units_of
from fedwave.experiments.store import inputs
from fedwave.experiments.store.lock import locked
from fedwave.experiments.store.own_files import CONFIG, PLAN, RUN_FILES, SUMMARY
from fedwave.experiments.store.parquet import dataset_from, tables
from fedwave.experiments.store.parquet_check import Wanted, WrongTable
from fedwave.experiments.store.plan import Plan
from fedwave.experiments.store.provenance import config_sum, other_versions
from fedwave.experiments.store.sealed import Damaged, plain_bytes, read_sealed, write_sealed
from fedwave.experiments.store.trusted_code import code_for
from fedwave.files.reading import is_there
from fedwave.files.writing import write_text, write_whole
from fedwave.parts.user_code import import_source, imported_sources
from fedwave.version import NUMERICS, __version__

if TYPE_CHECKING:
    import xarray as xr


def check_is_folder(folder: Path) -> None:
    """Refuse a place at which there is no folder."""
    if not (is_there(folder) and folder.is_dir()):
        raise FedwaveError(f"there is no run folder at {folder}.")


def is_published(folder: Path) -> bool:
    """Does it hold a compact export (paper/compact.py), whole or not? The folder of a run holds more."""
    if is_there(folder / PLAN) or is_there(folder / "units"):
        return False
    return is_there(folder / CONFIG) or is_there(folder / SUMMARY)


def refuse_published(folder: Path) -> None:
    """Refuse a published result in the place of a run, which nothing can go on from."""
    if is_published(folder) and is_there(folder / SUMMARY):
        raise FedwaveError(
            f"{folder} holds a published result, not a run: `fedwave reproduce --from {folder}` draws it."
        )


class RunFolder:
    """Reads and writes a run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []  # when a run goes on: what was repaired, other versions

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock; fail if another process holds it."""
        return locked(self.path, RUN_FILES)

    def exists(self) -> bool:
        """Has an experiment been begun here?"""
        return is_there(self._config)

    def begin(self, experiment: Experiment) -> list[Unit]:
        """The units of a resolved experiment, which is written down here, or refused if it is another than before.

        What it reads is kept here or pinned; its units read that and nothing else.
        """
        sources = imported_sources(experiment.imports)
        begun = is_there(self._config)
        known = inputs.known_inputs(self.path) if begun else {}
        found = inputs.found_files(self.path, experiment, sources, known)
        places = {one.name: str(one.place) for one in found if one.kind in ("code", "data")}
        stored = renamed(experiment, {place: name for name, place in places.items()})
        if begun:
            self._check_same(stored)
            self._check_numerics()
            inputs.check_inputs(self.path, found)
        units = units_of(stored, places)
        found += _datasets(units)
        if begun:
            inputs.check_inputs(self.path, found)
        sums = {name: one.sha256 for name, one in known.items()} or {f.name: f.sha256 for f in found}
        at = {unit.point: unit.experiment for unit in units}
        at_points = [added(before, at[k]) for k, (_, before) in enumerate(points(stored))]
        config = self.config() if begun else to_yaml(stored)
        plan = Plan.of(config, NUMERICS, sums, at_points, units)
        if begun:
            self._check_plan(plan, units)
        known = known or inputs.keep_inputs(self.path, found)
        self.warnings += inputs.restore_copies(self.path, found, known)
        for name, one in known.items():
            if one.kind == "data" and one.copy is not None:
                places[name] = os.path.abspath(self.path / one.copy)
        pins = {name: one.sha256 for name, one in known.items() if one.kind != "code"}
        if not begun:
            plan.write(self.path)
            write_text(self._config, config)  # last, since it makes this a run folder
        return [replace(unit, places=places, pins=pins) for unit in plan.marked(units)]

    def experiment(self, imports: Sequence[str] = ()) -> Experiment:
        """The experiment, to resume it. Executes the user's files, if ``imports`` or this process have named them.

        Data files are read from their copies here.
        """
        stored = self.stored()
        places = inputs.data_for(self.path)
        for name, (path, text) in code_for(self.path, stored.imports, imports).items():
            import_source(path, text)
            places[name] = path
        return renamed(stored, places)

    def config(self) -> str:
        """The text of config.yaml, which must be the one that the run was begun with."""
        if not is_there(self._config):
            raise FedwaveError(f"{self.path} is no run folder: it has no {CONFIG}.")
        refuse_published(self.path)
        raw = plain_bytes(self._config)
        try:
            plan = Plan.read(self.path)
        except Damaged:  # then provenance.json still knows the sum, and every unit its fingerprint
            if _sum(raw) != (config_sum(self.path) or _sum(raw)):
                raise self._changed_config() from None
            return _decoded(raw, self._config)
        if raw != plan.config.encode():
            raise self._changed_config(_what_changed(plan, raw), f" ({PLAN} has its lines)")
        return plan.config

    def stored(self) -> Experiment:
        """The experiment, to read its results: imports nothing. Refuses a config.yaml that has changed."""
        return stored_experiment(stored_content(self.config(), f"experiment {self._config}"))

    def units(self) -> list[Unit]:
        """All units of the experiment, finished or not; imports nothing."""
        return Plan.read(self.path).units(self.path)

    def fingerprint(self) -> str:
        """Of the run in this folder."""
        return Plan.read(self.path).fingerprint

    def is_finished(self) -> bool:
        """Is every unit stored and undamaged? Then nothing from outside is needed any more."""
        try:
            return all(self.finished(unit) for unit in self.units())
        except Damaged:
            return False

    def keep(self, unit: Unit, data: xr.Dataset, seconds: float) -> None:
        """Store a finished unit: its tables, then its record; then its checkpoint is removed."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        took = {"seconds": round(seconds, 3), "finished": now, "machine": platform.node()}
        self.keep_merged(unit, data, took)
        with suppress(OSError):  # it may be a folder that somebody made; nobody reads it any more
            self.checkpoint(unit).unlink(missing_ok=True)

    def keep_merged(self, unit: Unit, data: xr.Dataset, took: Mapping[str, Any] | None) -> None:
        """Store a unit that was run elsewhere; ``took`` says how long, when and where, if that is known."""
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
            "bytes": {name: len(content) for name, content in contents.items()},
        }
        if took is not None:
            write_sealed(self._timing(unit.name), {"unit": unit.name, **took})
        write_sealed(self._record(unit), record)

    def timing(self, name: str) -> dict[str, Any]:
        """How long a unit took, when and where. Raises Damaged, also where another unit's lies in its place."""
        took = read_sealed(self._timing(name))
        if took.get("unit", name) != name:  # folders of before do not say
            raise Damaged(f"{self._timing(name)} is of another unit.")
        return took

    def _timing(self, name: str) -> Path:
        return self.path / "timings" / f"{name}.json"

    def recorded(self, unit: Unit) -> bool:
        """Is it stored? Whether it is sound is seen when it is read."""
        return is_there(self._record(unit))

    def finished(self, unit: Unit) -> bool:
        """Is it stored? Raises Damaged, with the file's name, if a file of it has changed since."""
        if not is_there(self._record(unit)):
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
        content = read_sealed(record)
        names = [f"{kind}/{unit.name}.parquet" for kind in ("rounds", "devices")]
        if content.get("unit") != unit.name:
            raise Damaged(f"{record} is damaged: it is the record of another unit.")
        if content.get("fingerprint") != unit.fingerprint:
            raise FedwaveError(
                f"{record} belongs to another run: another experiment, other inputs or another version made it than "
                f"{self._config} and {PLAN} say; restore these, or start a new run."
            )
        try:
            wanted = [(content["sha256"][name], int(content["bytes"][name])) for name in names]
        except (KeyError, TypeError, ValueError) as error:  # a seal made by others
            raise Damaged(f"{record} is damaged ({error}).") from None
        contents = []
        for name, (sum_, size) in zip(names, wanted, strict=True):
            table = plain_bytes(self.path / name, size)  # no more is read than was written
            if _sum(table) != sum_:
                raise Damaged(f"{self.path / name} is damaged: its checksum is not the one it was stored with.")
            contents.append(table)
        return contents

    @property
    def _config(self) -> Path:
        return self.path / CONFIG

    def _changed_config(self, what: str = "", where: str = "") -> FedwaveError:
        return FedwaveError(
            f"{self._config} has changed since the run was begun{what}: restore it{where}, or start a new run in "
            "another folder."
        )

    def _check_plan(self, plan: Plan, units: Sequence[Unit]) -> None:
        """Refuse another plan than that of a run which goes on; write a damaged one again."""
        path = self.path / PLAN
        try:
            before = Plan.read(self.path)
        except Damaged as damage:
            for unit in plan.marked(units):  # first: units of another run are refused
                with suppress(Damaged):
                    self.finished(unit)
            self.warnings.append(f"{damage} It is written again from {CONFIG}.")
            plan.write(self.path)
            return
        if before.inputs != plan.inputs:
            raise FedwaveError(
                f"{self.path / inputs.LIST} is not the list of inputs that {path} has: restore it, or start a new run."
            )
        if not before.same_as(plan):
            raise FedwaveError(
                f"{path} has other units or numbers than fedwave {__version__} makes from {self._config}: restore it, "
                "finish the run with the fedwave that began it, or start a new run."
            )

    def _check_numerics(self) -> None:
        """Refuse to go on with other numerics; say so if other versions than those here have worked on it."""
        try:
            made_by = Plan.read(self.path).numerics
        except Damaged:
            made_by = NUMERICS  # it is written anew; the fingerprints of the units tell
        if made_by != NUMERICS:
            raise FedwaveError(
                f"{self.path} was begun with version {made_by} of the numerics, but fedwave {__version__} has version "
                f"{NUMERICS}: finish it with the fedwave that began it, or start a new run."
            )
        try:
            said = other_versions(self.path, "goes on with")
        except Damaged as damage:
            said = f"{damage} No result depends on it; it is begun anew."
        if said is not None:
            self.warnings.append(said)

    def _check_same(self, experiment: Experiment) -> None:
        there, wanted = to_mapping(self.stored()), to_mapping(experiment)
        # The order of the axes numbers the points, and with them the units.
        if there != wanted or list(there["sweep"]) != list(wanted["sweep"]):
            field, is_, asked = first_difference(there, wanted)
            raise FedwaveError(
                f"{self.path} holds another experiment: its {field} is {short_json(is_)}, not {short_json(asked)}; "
                f"choose another --out, or go on with it by `fedwave resume {self.path}`."
            )


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
    return Wanted(unit.where, unit.schedulers, unit.instances, how.rounds, how.network, more, how.task is not None)


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _decoded(raw: bytes, path: Path) -> str:
    try:
        return raw.decode()
    except ValueError:
        raise FedwaveError(f"experiment {path} cannot be read: it is not text.") from None


def _what_changed(plan: Plan, raw: bytes) -> str:
    """The first field of config.yaml that is not as planned, if it can be told."""
    try:
        now = to_mapping(stored_experiment(stored_content(raw.decode(), CONFIG)))
        was = to_mapping(plan.experiment())
    except (FedwaveError, ValueError):
        return ""
    if now == was and list(now["sweep"]) == list(was["sweep"]):
        return " (not in a value)"
    field, is_, before = first_difference(now, was)
    return f" (its {field} is {short_json(is_)}, was {short_json(before)})"


def first_difference(there: Any, wanted: Any, where: str = "") -> tuple[str, Any, Any]:
    """The first field, with its dots, in which two experiments differ, and its values."""
    keys = [k for k in {**wanted, **there} if wanted.get(k) != there.get(k)]
    if not keys:
        return "sweep", list(there["sweep"]), list(wanted["sweep"])
    field, is_, asked = where + keys[0], there.get(keys[0]), wanted.get(keys[0])
    if isinstance(is_, dict) and isinstance(asked, dict):
        return first_difference(is_, asked, f"{field}.")
    return field, is_, asked


def short_json(value: Any) -> str:
    """A value in a sentence."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 60 else text[:57] + "..."
