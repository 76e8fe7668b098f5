"""run.json, the record of a run. Written once, before the first unit; it has no path, time or host.

format, numerics   versions of the run folder and of the numerics: others are refused
experiment         every number that was used; the files that it names are inputs
points             numbers that differ between the points of a sweep
inputs             kind, checksum and copy of everything that came from outside (inputs.py)
units              the units of work: name, point, schedulers, instances
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import stored_experiment
from fedwave.experiments.config.resolve import filled_fields
from fedwave.experiments.config.run_id import run_id
from fedwave.experiments.config.sweep import Values, points, to_mapping, with_fields
from fedwave.experiments.config.units import Unit, where_of_points
from fedwave.experiments.store.checksums import Corrupt
from fedwave.experiments.store.inputs import Input
from fedwave.files.checksum import sha256
from fedwave.files.reading import read_bytes, read_json
from fedwave.version import NUMERICS

MANIFEST, CONFIG = "run.json", "config.yaml"
FORMAT = 3  # raised when this fedwave cannot read folders of before
_MOST_BYTES = 100_000_000  # enough for some 300,000 units
# The names that units.py makes. A name is part of paths: it must not lead out of the folder.
_NAME = re.compile(r"\d{4,}_[A-Za-z0-9.+~-]*_\d+-\d+")


@dataclass(frozen=True)
class Manifest:
    """The content of run.json."""

    experiment: Experiment  # resolved
    points: Sequence[Values]
    inputs: Mapping[str, Input]
    units: Sequence[Unit]
    numerics: int = NUMERICS

    @classmethod
    def of(cls, experiment: Experiment, inputs: Mapping[str, Input], units: Sequence[Unit]) -> Manifest:
        """Makes the manifest of a new run."""
        at = {unit.point: unit.experiment for unit in units}
        numbers = [filled_fields(before, at[k]) for k, (_, before) in enumerate(points(experiment))]
        return cls(experiment, numbers, inputs, units)

    @property
    def run_id(self) -> str:
        """The run id, which is the same for all lots of the experiment."""
        sums = {name: one.sha256 for name, one in self.inputs.items()}
        return run_id(to_mapping(self.experiment), self.points, sums, self.numerics)

    def text(self) -> str:
        """The text of the file."""
        units = [
            {"name": u.name, "point": u.point, "schedulers": list(u.schedulers), "instances": list(u.instances)}
            for u in self.units
        ]
        content = {
            "format": FORMAT,
            "numerics": self.numerics,
            "experiment": to_mapping(self.experiment),
            "points": list(self.points),
            "inputs": {name: asdict(one) for name, one in self.inputs.items()},
            "units": units,
        }
        # Infinite numbers stay as Python's json reads them back.
        return json.dumps(content, indent=1) + "\n"


def read_manifest(folder: Path, checksum: str | None = None) -> Manifest:
    """Read run.json, which must have this checksum; imports nothing. Raises Corrupt if it cannot be read."""
    path = folder / MANIFEST
    with _refusing(path):
        raw = read_bytes(path, "it", _MOST_BYTES)
        if checksum not in (None, sha256(raw)):
            raise ValueError("it has changed since the run was begun")
        content = read_json(raw.decode(), "it")
        format_ = content["format"]
    if format_ != FORMAT:
        raise FedwaveError(
            f"{folder} has format {json.dumps(format_)[:20]} of run folders, but this fedwave reads format {FORMAT}: "
            "use the fedwave that made it, or run its experiment again in another folder."
        )
    with _refusing(path):
        inputs = {str(name): Input.read(one) for name, one in content["inputs"].items()}
        experiment, numbers = stored_experiment(content["experiment"]), list(content["points"])
        at = [with_fields(before, numbers[k]) for k, (_, before) in enumerate(points(experiment))]
        wheres = where_of_points(experiment)
        units = [_unit(one, wheres, at) for one in content["units"]]
        if {unit.point for unit in units} != set(range(len(at))):
            raise ValueError("it has no units of a point")
        return Manifest(experiment, numbers, inputs, units, content["numerics"])


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except (FedwaveError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        why = " ".join(str(error).split())
        raise Corrupt(
            f"{path} is corrupt ({why}): restore it, or run the experiment again in another folder."
        ) from None


def _unit(part: Mapping[str, Any], wheres: Sequence[Mapping[str, Any]], at: Sequence[Experiment]) -> Unit:
    name, point = part["name"], part["point"]
    schedulers, instances = tuple(part["schedulers"]), tuple(part["instances"])
    whole = all(type(number) is int and number >= 0 for number in (point, *instances))
    if not (_NAME.fullmatch(name) and whole and set(schedulers) <= set(at[point].labels)):
        raise ValueError(f"at unit {name[:80]!r}")
    return Unit(name, point, wheres[point], schedulers, instances, at[point])
