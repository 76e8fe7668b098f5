"""Fingerprints: one sum of all that decides the numbers of a run, and from it one for each of its units.

That is the resolved experiment, with the numbers that only some points of its sweep have, the sums of its inputs and
the version of the numerics; of a unit also its point, its schedulers and its instances. The record of a unit and the
content of its checkpoint have the unit's, so that results of two runs, or of two units, are never mixed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fedwave.experiments.config.units import Unit

# Fields that only say how results are shown, or how often they are saved.
NOT_NUMBERS = ("name", "against", "burn_in", "targets", "checkpoint_seconds")


def fingerprint(
    experiment: Mapping[str, Any], at_points: Sequence[Mapping[str, Any]], sums: Mapping[str, str], numerics: int
) -> str:
    """Of a run: the content of its config.yaml, the numbers of its points, the sums of its inputs."""
    fields = {k: v for k, v in experiment.items() if k not in NOT_NUMBERS}
    # Folders from before there was this field go on.
    if fields.get("first_instance") == 0:
        del fields["first_instance"]
    # The order of the axes numbers the points, and sorted keys would hide it.
    fields["sweep"] = list(fields.get("sweep", {}).items())
    content: dict[str, Any] = {"experiment": fields, "inputs": dict(sums), "numerics": numerics}
    if any(at_points):
        content["points"] = [dict(values) for values in at_points]
    return _sum(content)


def unit_fingerprint(run: str, unit: Unit) -> str:
    """Of a unit of the run with the fingerprint ``run``."""
    return _sum([run, unit.name, unit.point, list(unit.schedulers), list(unit.instances)])


def _sum(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
