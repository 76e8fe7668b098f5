"""The run id: one checksum of everything that decides the numbers of a run.

That is the resolved experiment, the checksums of its inputs and the version of the numerics. Left out are the number
of instances and the first one, how the work is cut into units, and fields that are only shown. So all lots of an
experiment have the same run id.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

# Fields that only say how results are shown, or how often they are saved.
SHOWN = ("name", "against", "burn_in", "targets", "checkpoint_seconds")
INSTANCES = ("first_instance", "instances")
# How the work is cut. It can change the last digits of training, and nothing else.
CUT = ("block", "group", "training.lanes")


def run_id(
    experiment: Mapping[str, Any], points: Sequence[Mapping[str, Any]], checksums: Mapping[str, str], numerics: int
) -> str:
    """Of a resolved experiment, the numbers of its points and the checksums of its inputs."""
    fields = deciding_fields(experiment)
    # The order of the axes numbers the points, and sorted keys would hide it.
    fields["sweep"] = list(fields.get("sweep", {}).items())
    content = {
        "experiment": fields,
        "points": [{name: value for name, value in values.items() if name not in CUT} for values in points],
        "inputs": dict(checksums),
        "numerics": numerics,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def deciding_fields(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an experiment that decide numbers."""
    fields = {name: value for name, value in experiment.items() if name not in (*SHOWN, *INSTANCES, *CUT)}
    fields["training"] = {k: v for k, v in experiment.get("training", {}).items() if f"training.{k}" not in CUT}
    return fields


def cut_fields(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that say how the work is cut into units."""
    lanes = experiment.get("training", {}).get("lanes")
    return {"block": experiment.get("block"), "group": experiment.get("group"), "training.lanes": lanes}


def same_fields(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Are two experiments equal, the order of the axes of their sweeps included?"""
    return there == wanted and list(there.get("sweep", ())) == list(wanted.get("sweep", ()))


def first_difference(there: Any, wanted: Any, where: str = "") -> tuple[str, Any, Any]:
    """The first field, with its dots, in which two experiments differ, and its two values."""
    keys = [k for k in {**wanted, **there} if wanted.get(k) != there.get(k)]
    if not keys:
        return "sweep", list(there.get("sweep", ())), list(wanted.get("sweep", ()))
    field, is_, asked = where + keys[0], there.get(keys[0]), wanted.get(keys[0])
    if isinstance(is_, dict) and isinstance(asked, dict):
        return first_difference(is_, asked, f"{field}.")
    return field, is_, asked
