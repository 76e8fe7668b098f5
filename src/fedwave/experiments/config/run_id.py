"""The run id: one checksum of everything that decides the numbers of a run.

That is the resolved experiment, the checksums of its inputs and the version of the numerics. Left out are the number
of instances and the first one, how the work is cut into units, and fields that are only shown. So all lots of an
experiment have the same run id.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedwave.files.checksum import sha256

# Fields that only say how results are shown, or how often they are saved.
SHOWN = ("name", "against", "burn_in", "targets", "checkpoint_seconds")
INSTANCES = ("first_instance", "instances")
# How the work is cut. It can change the last digits of training, and nothing else.
CUT = ("block", "group", "training.lanes")


def run_id(
    experiment: Mapping[str, Any], points: Sequence[Mapping[str, Any]], checksums: Mapping[str, str], numerics: int
) -> str:
    """The checksum of a resolved experiment, the numbers of its points and the checksums of its inputs."""
    fields = deciding_fields(experiment)
    # The order of the axes numbers the points, and sorted keys would hide it.
    fields["sweep"] = list(fields.get("sweep", {}).items())
    content = {
        "experiment": fields,
        "points": [{name: value for name, value in values.items() if name not in CUT} for values in points],
        "inputs": dict(checksums),
        "numerics": numerics,
    }
    return sha256(json.dumps(content, sort_keys=True).encode())


def deciding_fields(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an experiment that decide numbers."""
    fields = {name: value for name, value in experiment.items() if name not in (*SHOWN, *INSTANCES, *CUT)}
    fields["training"] = {k: v for k, v in experiment.get("training", {}).items() if f"training.{k}" not in CUT}
    return fields


def first_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[str, Any, Any]]:
    """The first field, with its dots, in which two experiments differ, and its two values, by the kind of change.

    That is "numbers", "instances", "cut" (how the work is cut) or "shown".
    """
    changes = {name: "shown" for name in SHOWN} | {name: "instances" for name in INSTANCES}
    changes |= {name: "cut" for name in CUT}
    found: dict[str, tuple[str, Any, Any]] = {}
    for field, one, other in _differences(a, b):
        found.setdefault(changes.get(field, "numbers"), (field, one, other))
    return found


def _differences(a: Mapping[str, Any], b: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    for key in {**b, **a}:
        one, other = a.get(key), b.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _differences(one, other, f"{prefix}{key}.")
        elif one != other:
            yield prefix + key, one, other
    if prefix == "sweep." and list(a) != list(b):  # the order of the axes numbers the points
        yield "sweep", list(a), list(b)
