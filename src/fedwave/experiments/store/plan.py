"""plan.json: what a run consists of, written when it is begun and never changed.

format, numerics   versions of the run folder and of the numerics: another one is refused
config             the lines of config.yaml, which must be these to the last byte
inputs             the SHA-256 sum of every input
points             numbers that differ between the points of the sweep
units              the units of work: every scheduler and instance of every point is in exactly one
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import stored_content, stored_experiment
from fedwave.experiments.config.resolve import Values, with_added
from fedwave.experiments.config.sweep import points, to_mapping
from fedwave.experiments.config.units import Unit
from fedwave.experiments.store.fingerprint import fingerprint, unit_fingerprint
from fedwave.experiments.store.own_files import CONFIG, PLAN
from fedwave.experiments.store.sealed import Damaged, plain_bytes, read_sealed, sealed_text, write_sealed

FORMAT = 2  # of a run folder; raised when this fedwave cannot go on with folders of before
_UNIT = ("name", "point", "where", "schedulers", "instances")
# As units.py makes them. A name is part of paths: it must not lead out of the folder.
_NAME = re.compile(r"\d{4,}_[A-Za-z0-9.+~-]*_\d+-\d+")


@dataclass(frozen=True)
class Plan:
    """The content of plan.json."""

    config: str  # the text of config.yaml
    numerics: int
    inputs: Mapping[str, str]
    points: Sequence[Values]
    parts: Sequence[Mapping[str, Any]]  # the units as plain values

    @classmethod
    def of(
        cls, config: str, numerics: int, inputs: Mapping[str, str], at_points: Sequence[Values], units: Sequence[Unit]
    ) -> Plan:
        """The plan of a run that begins."""
        parts = [{field: getattr(unit, field) for field in _UNIT} for unit in units]
        return cls(config, numerics, inputs, at_points, parts)

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """Raises Damaged if it is, another FedwaveError if the folder has another format."""
        path = folder / PLAN
        try:
            content = read_sealed(path)
        except Damaged:
            _check_older(folder)
            raise
        if content.get("format") != FORMAT:
            raise FedwaveError(
                f"{folder} has format {json.dumps(content.get('format'))[:20]} of run folders, but this fedwave reads "
                f"format {FORMAT}: use the fedwave that made it, or run its experiment again in another folder."
            )
        try:
            config = "\n".join(content["config"])
            numerics = content["numerics"]
            inputs = {str(name): str(sum_) for name, sum_ in content["inputs"].items()}
            return cls(config, numerics, inputs, list(content["points"]), list(content["units"]))
        except (KeyError, TypeError, AttributeError) as error:  # a seal made by others
            raise Damaged(f"{path} is damaged ({error}).") from None

    def write(self, folder: Path) -> None:
        """Write it into a run folder."""
        write_sealed(folder / PLAN, self._content())

    def same_as(self, other: Plan) -> bool:
        """Would both be the same file?"""
        return sealed_text(self._content()) == sealed_text(other._content())

    @cached_property
    def fingerprint(self) -> str:
        """Of the run."""
        fields = stored_content(self.config, CONFIG)
        return fingerprint(fields, self.points, self.inputs, self.numerics)

    def marked(self, units: Sequence[Unit]) -> list[Unit]:
        """The units with their fingerprints."""
        return [replace(u, fingerprint=unit_fingerprint(self.fingerprint, u)) for u in units]

    def experiment(self) -> Experiment:
        """The experiment that config.yaml had when the run was begun."""
        return stored_experiment(stored_content(self.config, CONFIG))

    def units(self, folder: Path) -> list[Unit]:
        """All units of the experiment; imports nothing."""
        try:
            stored = self.experiment()
            at = [_filled(at, self.points[k]) for k, (_, at) in enumerate(points(stored))]
            units = [_unit(part, at) for part in self.parts]
            _check_whole(units, at)
            return self.marked(units)
        except (FedwaveError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            reason = " ".join(str(error).split())
            raise Damaged(f"{folder / PLAN} is damaged ({reason}): resume the run to repair it.") from None

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "numerics": self.numerics,
            "config": self.config.split("\n"),
            "inputs": dict(self.inputs),
            "points": list(self.points),
            "units": list(self.parts),
        }


def _check_older(folder: Path) -> None:
    """Refuse a plan from before there were formats and seals; a damaged one has at least one of them."""
    try:
        content = json.loads(plain_bytes(folder / PLAN))
    except (Damaged, ValueError, RecursionError):
        return
    if isinstance(content, dict):
        older = {"units", "points"} <= content.keys() and not {"format", "seal"} & content.keys()
    else:
        older = isinstance(content, list)
    if older:
        raise FedwaveError(
            f"{folder} was made by an older version of fedwave, whose run folders this one cannot read: "
            "run its experiment again in another folder."
        )


def _filled(at: Experiment, values: Values) -> Experiment:
    """A point with its own numbers, which are checked like those of a file."""
    return stored_experiment(to_mapping(with_added(at, values))) if values else at


def _unit(part: Mapping[str, Any], at: Sequence[Experiment]) -> Unit:
    name, point, instances = part["name"], part["point"], tuple(part["instances"])
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is no name of a unit")
    if not all(type(number) is int and number >= 0 for number in (point, *instances)):
        raise ValueError(f"at unit {name}")
    return Unit(name, point, dict(part["where"]), tuple(part["schedulers"]), instances, at[point])


def _check_whole(units: Sequence[Unit], at: Sequence[Experiment]) -> None:
    """Every scheduler and instance of every point exactly once: a unit left out is noticed."""
    found = {(u.point, label, k) for u in units for label in u.schedulers for k in u.instances}
    listed = sum(len(unit.schedulers) * len(unit.instances) for unit in units)
    # Counted first: an experiment of somebody else may ask for any number of instances.
    if listed != len(found) or listed != sum(len(one.labels) * one.instances for one in at):
        raise ValueError("it does not have every scheduler and instance once")
    for number, one in enumerate(at):
        for label in one.labels:
            if any((number, label, k) not in found for k in one.instance_numbers):
                raise ValueError(f"scheduler {label} of point {number} is not complete")
    if len({unit.name for unit in units}) < len(units):
        raise ValueError("two units have one name")
