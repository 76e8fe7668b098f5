"""A small trained run with a sweep, for tests of predictions."""

from __future__ import annotations

from pathlib import Path

import fedwave as fw

RULES = ["lee:beta=0.001", "constant:beta=1"]


def trained_run(place: Path) -> Path:
    """Run it into this folder."""
    how = {
        "name": "small",
        "schedulers": ["fresh", "mass", "round-robin", "w-max"],
        "rounds": 7,
        "instances": 2,
        "first_instance": 3,
        "seed": 1,
        "task": {"dataset": "synthetic:train=400,test=100", "model": "logistic"},
        "sweep": {"task.aggregation": RULES},
    }
    fw.run(how, place, workers=1)
    return place
