"""The fingerprint of a run: one sum of all that decides its numbers.

That is the resolved experiment, with the numbers that only some points of its sweep have, the sums of its inputs and
the version of the numerics. Every record of a unit and every checkpoint has it, so that results of two runs are never
mixed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.points import to_mapping

# Fields that only say how results are shown, or how often they are saved.
NOT_NUMBERS = ("name", "against", "burn_in", "targets", "checkpoint_seconds")


def fingerprint(
    experiment: Experiment,
    at_points: Sequence[Mapping[str, Any]],
    sums: Mapping[str, str],
    numerics: int,
) -> str:
    """The fingerprint of a resolved experiment, with the numbers of its points, on inputs with these sums."""
    fields = {k: v for k, v in to_mapping(experiment).items() if k not in NOT_NUMBERS}
    # The order of the axes numbers the points, and sorted keys would hide it.
    fields["sweep"] = list(fields["sweep"].items())
    content: dict[str, Any] = {"experiment": fields, "inputs": dict(sums), "numerics": numerics}
    if any(at_points):
        content["points"] = [dict(values) for values in at_points]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
