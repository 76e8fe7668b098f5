"""A run folder: an experiment, its results so far, and a lock.

    .lock              created first: marks the folder as fedwave's; held by the process at work (lock.py)
    inputs/            copies of small inputs (inputs.py)
    config.yaml        the experiment for people: run again, it gives the same results
    run.json           what the run consists of, written once (manifest.py)
    done.jsonl         a line per finished unit, written last (done.py)
    rounds/*.parquet   one file per unit: a row per scheduler, instance and round (parquet.py)
    devices/*.parquet  the same: a row per scheduler, instance and device
    checkpoints/*.npz  of units at work (checkpoint_file.py)

Tables, figures, results.nc and SHA256SUMS are made of these at the end. Nothing is pickled. Every file is written whole
or not at all; lines of done.jsonl are appended.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.errors import FedwaveError, short_repr
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.files import with_file_names
from fedwave.experiments.config.read import to_yaml
from fedwave.experiments.config.run_id import first_differences
from fedwave.experiments.config.sweep import to_mapping
from fedwave.experiments.config.units import Unit, cut_into_units
from fedwave.experiments.store import inputs
from fedwave.experiments.store.checksums import Corrupt, file_sha256
from fedwave.experiments.store.done import DONE, Done, Line, append_line, read_done, write_done
from fedwave.experiments.store.lock import check_links, locked, make_run_folder
from fedwave.experiments.store.manifest import CONFIG, MANIFEST, Manifest, read_manifest
from fedwave.experiments.store.parquet import dataset_from, tables
from fedwave.experiments.store.provenance import machine, other_versions
from fedwave.files.checksum import sha256
from fedwave.files.reading import is_there, read_bytes
from fedwave.files.writing import write_bytes, write_text
from fedwave.parts.user_code import import_source
from fedwave.version import NUMERICS, __version__

if TYPE_CHECKING:
    import xarray as xr

KINDS = ("rounds", "devices")  # the kinds of tables, and their folders


def check_is_folder(folder: Path) -> None:
    """Raises FedwaveError if there is no folder."""
    if not (is_there(folder) and folder.is_dir()):
        raise FedwaveError(f"there is no run folder at {folder}.")


class RunFolder:
    """Reads and writes a run folder. Caches what it reads; make a new RunFolder to read again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []  # filled when a run is resumed: repairs, other versions

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock; raises FedwaveError if another process holds it."""
        make_run_folder(self.path)
        return locked(self.path)

    def exists(self) -> bool:
        """Has a run been begun here?"""
        return is_there(self.path / MANIFEST)

    def check_begun(self) -> None:
        """Raises FedwaveError if no run has been begun here."""
        if not self.exists():
            raise FedwaveError(f"{self.path} is not a run folder: it has no {MANIFEST}.")

    @cached_property
    def done(self) -> Done:
        """The finished units; none of a run that was killed before it wrote the first line."""
        return read_done(self.path) if is_there(self.path / DONE) else Done({}, {}, [])

    @cached_property
    def manifest(self) -> Manifest:
        """The content of run.json. Raises FedwaveError if it or config.yaml has changed since the run was begun."""
        self.check_begun()
        header = self.done.header
        found = read_manifest(self.path, header.get(MANIFEST))
        if header and sha256(read_bytes(self.path / CONFIG, f"experiment {self.path / CONFIG}")) != header.get(CONFIG):
            raise FedwaveError(
                f"{self.path / CONFIG} has changed since the run was begun: restore it ({MANIFEST} has its fields), or "
                "start a new run in another folder."
            )
        return found

    @property
    def input_paths(self) -> dict[str, str]:
        """Where input files were found when the run was begun, by their names."""
        paths = self.done.header.get("paths")
        pairs = paths.items() if isinstance(paths, dict) else ()
        return {name: path for name, path in pairs if isinstance(path, str)}

    def resume_command(self) -> str:
        """The command that resumes the run, with the user's files that it needs."""
        imports = self.manifest.experiment.imports
        return inputs.resume_command(self.path, [self.input_paths.get(name, name) for name in imports])

    @property
    def experiment_as_run(self) -> Experiment:
        """The resolved experiment, with its input files by their names. Imports nothing."""
        return self.manifest.experiment

    def units(self) -> list[Unit]:
        """All units of the experiment, finished or not; imports nothing."""
        run = self.manifest.run_id
        return [replace(unit, run_id=run) for unit in self.manifest.units]

    def experiment(self, imports: Sequence[str] = ()) -> Experiment:
        """The experiment, to resume it. Executes the user's files, if ``imports`` or this process have named them."""
        code = inputs.named_code(
            self.path, self.manifest.experiment.imports, self.manifest.inputs, self.input_paths, imports
        )
        for path, text in code.values():
            import_source(path, text)
        names = {name: path for name, (path, _) in code.items()}
        return with_file_names(self.experiment_as_run, names | self.data_paths())

    def data_paths(self) -> dict[str, str]:
        """Where the data files that the experiment names are now: the copies, or the unchanged originals."""
        return inputs.data_paths(self.path, self.manifest.inputs, self.input_paths)

    def begin(self, experiment: Experiment) -> list[Unit]:
        """Begins or resumes the run of a resolved experiment; returns its units. Raises if the folder holds another.

        The caller holds the lock. What the units read is kept here or pinned; they read that and nothing else.
        """
        begun = self.exists()
        known = self.manifest.inputs if begun else {}
        found = inputs.find_inputs(experiment, known)
        inputs.check_unchanged(self.path, found, known)
        paths = {one.name: one.path for one in found if one.input.kind in ("code", "data") and one.path is not None}
        stored = with_file_names(experiment, {path: name for name, path in paths.items()})
        if begun:
            self._check_same(stored)
        units = self.units() if begun else cut_into_units(stored, paths)
        datasets = inputs.find_datasets(units, paths)
        inputs.check_unchanged(self.path, datasets, known)
        found += datasets
        known = known if begun else {one.name: one.input for one in found}
        copied = inputs.write_copies(self.path, [one for one in found if one.name in known])
        if begun:
            self.warnings += [f"{self.path / name} was corrupt or missing: it is copied again." for name in copied]
        else:
            self._write_manifest(Manifest.of(stored, known, units))
        if not self.done.header:
            self._write_done({one.name: one.path for one in found if one.path is not None})
        elif said := other_versions(self.path, self.done.units.values()):
            self.warnings.append(said)
        if self.done.corrupt:  # such as the torn last line of a killed run
            write_done(self.path, self.done.header, self.done.units.values())
        sources = {one.path: one.text for one in found if one.path is not None and one.text is not None}
        copies = {name: one.copy for name, one in known.items() if one.kind == "data" and one.copy is not None}
        paths |= {name: os.path.abspath(self.path / copy) for name, copy in copies.items()}
        pins = {name: one.sha256 for name, one in known.items() if one.kind != "code"}
        return [replace(unit, sources=sources, paths=paths, pins=pins) for unit in self.units()]

    def write_merged(self, manifest: Manifest, paths: Mapping[str, str], lines: Sequence[Line]) -> None:
        """Make this the folder of a run whose tables and copies of inputs are here already."""
        self._write_manifest(manifest)
        self._write_done(paths, lines)

    def keep(self, unit: Unit, data: xr.Dataset, seconds: float) -> None:
        """Store a finished unit: its tables, then its line; then its checkpoint is removed."""
        contents = dict(zip(table_names(unit), tables(unit, data).values(), strict=True))
        check_links(self.path)
        for name, content in contents.items():
            write_bytes(self.path / name, content)
        line = {
            "unit": unit.name,
            "sha256": {name: sha256(content) for name, content in contents.items()},
            "bytes": {name: len(content) for name, content in contents.items()},
            "seconds": round(seconds, 3),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            **self._machine,
        }
        append_line(self.path, line)
        self.done.units[unit.name] = line
        with suppress(OSError):  # it may be a folder of the user's; it is not read any more
            self.checkpoint(unit).unlink(missing_ok=True)

    def finished(self, unit: Unit) -> bool:
        """Is the unit stored? Raises Corrupt if one of its tables has changed since, or is from another run."""
        return unit.name in self.done.units and bool(self.data(unit).sizes)

    def is_finished(self) -> bool:
        """Is every unit stored and sound? Such a folder needs no file from outside."""
        try:
            return all(self.finished(unit) for unit in self.units())
        except Corrupt:
            return False

    def data(self, unit: Unit) -> xr.Dataset:
        """The results of a finished unit."""
        line, contents = self.done.units[unit.name], []
        try:
            for name in table_names(unit):
                content = read_bytes(self.path / name, name, line["bytes"][name])  # no more is read than was written
                if sha256(content) != line["sha256"][name]:
                    raise FedwaveError(f"the checksum of {name} is not the one it was stored with")
                contents.append(content)
            rounds, devices = contents
            return dataset_from(rounds, devices, unit)
        except Exception as error:  # an untrusted table can raise anything
            why = " ".join(str(error).split()).rstrip(".")
            raise Corrupt(f"unit {unit.name} in {self.path} is corrupt: {why}.") from None

    def checkpoint(self, unit: Unit) -> Path:
        """The file with the checkpoint of a unit at work."""
        return self.path / "checkpoints" / f"{unit.name}.npz"

    def checksums(self) -> dict[str, str]:
        """Checksums, by file, of the files that are equal in two equal runs."""
        found = {name: str(self.done.header.get(name)) for name in (MANIFEST, CONFIG)}
        found |= {one.copy: one.sha256 for one in self.manifest.inputs.values() if one.copy is not None}
        for unit in self.manifest.units:
            found |= self.done.units.get(unit.name, {}).get("sha256", {})
        return found

    @cached_property
    def _machine(self) -> dict[str, Any]:
        return machine(self.experiment_as_run)

    def _write_manifest(self, manifest: Manifest) -> None:
        self.manifest = manifest
        write_text(self.path / CONFIG, to_yaml(manifest.experiment))
        write_text(self.path / MANIFEST, manifest.text())

    def _write_done(self, paths: Mapping[str, str], lines: Sequence[Line] = ()) -> None:
        own = {name: file_sha256(self.path / name) for name in (MANIFEST, CONFIG)}
        write_done(self.path, {"run": self.manifest.run_id, **own, "paths": dict(paths)}, lines)
        self.done = read_done(self.path)

    def _check_same(self, experiment: Experiment) -> None:
        apart = first_differences(to_mapping(self.experiment_as_run), to_mapping(experiment))
        for field, is_, asked in apart.values():
            raise FedwaveError(
                f"{self.path} holds another experiment: its {field} is {short_repr(is_)}, not {short_repr(asked)}; "
                f"choose another --out, or resume it with `fedwave resume {self.path}`."
            )
        if self.manifest.numerics != NUMERICS:
            raise FedwaveError(
                f"{self.path} was begun with version {self.manifest.numerics} of the numerics, but fedwave "
                f"{__version__} has version {NUMERICS}: finish it with the fedwave that began it, or start a new run."
            )


def table_names(unit: Unit) -> list[str]:
    """The files of a finished unit."""
    return [f"{kind}/{unit.name}.parquet" for kind in KINDS]
