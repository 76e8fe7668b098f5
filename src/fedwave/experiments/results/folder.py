"""A run folder: what an experiment is, what it has brought so far, and who works on it.

    config.yaml        the experiment, resolved: run again, it gives the same results
    provenance.json    versions, machine, time, commit
    rounds/*.parquet   one file per finished unit: a row per scheduler, instance and round
    devices/*.parquet  the same: a row per scheduler, instance and device
    units/*.json       written last: the unit is finished, and these are its files' SHA-256 sums
    checkpoints/       of units at work
    .lock              held by the process at work; the system frees it when that process dies

Every file is written whole or not at all. Nothing is ever pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import stored_experiment, to_mapping, to_yaml
from fedwave.experiments.results.outcome import Outcome
from fedwave.experiments.results.parquet import devices_bytes, outcomes_from, rounds_bytes
from fedwave.experiments.run.units import Unit
from fedwave.files import check_folder, write_json, write_text, write_whole


class Damaged(FedwaveError):
    """A file of a run folder is not what was written."""


class RunFolder:
    """Reads and writes a run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Work on it alone; another process at work is told of, and left alone."""
        check_folder(self.path)
        holder, lock = self.path / "lock.json", FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise FedwaveError(
                f"{self.path} is in use by {_told(holder)}: wait for it, or choose another place."
            ) from None
        try:
            write_json(holder, {"process": os.getpid(), "machine": platform.node()})
            self._sweep()
            yield
        finally:
            holder.unlink(missing_ok=True)
            lock.release()  # the file stays: removed, two could hold what they take for the same lock

    def begin(self, experiment: Experiment) -> None:
        """Say what experiment this folder is for; refuse one that is for another."""
        config = self.path / "config.yaml"
        if not config.exists():
            write_text(config, to_yaml(experiment))
            return
        there, wanted = to_mapping(stored_experiment(config)), to_mapping(experiment)
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
        return stored_experiment(config)

    def keep(self, unit: Unit, outcomes: Mapping[str, Outcome], seconds: float) -> None:
        """Store a finished unit; its record comes last, its checkpoint goes then."""
        contents = {
            f"rounds/{unit.name}.parquet": rounds_bytes(unit.where, outcomes),
            f"devices/{unit.name}.parquet": devices_bytes(unit.where, outcomes),
        }
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
        """Is it there, whole? Raises Damaged, with the file's name, if it is there but not whole."""
        if not self._record(unit).exists():
            return False
        self._contents(unit)
        return True

    def outcomes(self, unit: Unit) -> dict[str, Outcome]:
        """What a finished unit brought."""
        rounds, devices = self._contents(unit)
        try:
            return outcomes_from(rounds, devices, self._settings(unit))
        except Exception as error:  # sums match, so somebody wrote other tables and new sums
            where = f"unit {unit.name} in {self.path}"
            raise Damaged(f"the tables of {where} cannot be read ({error}).") from None

    def checkpoint(self, unit: Unit) -> Path:
        """Where the checkpoint of a unit at work lies."""
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

    def _settings(self, unit: Unit) -> dict[str, Any]:
        point = to_mapping(unit.experiment)
        return {**point["training"], **(point["task"] or {})}

    def _sweep(self) -> None:
        """Remove what a killed process left half-written."""
        for unfinished in self.path.rglob(".*.part"):
            unfinished.unlink(missing_ok=True)


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _told(holder: Path) -> str:
    try:
        told = json.loads(holder.read_bytes())
        return f"process {told['process']} on {told['machine']}"
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
