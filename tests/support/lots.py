"""Run folders of lots, small and quickly made: sound and finished, but without figures and tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.checksums import write_sums
from fedwave.experiments.store.folder import RunFolder

SMALL: dict[str, Any] = {
    "network": {"kind": "random", "devices": 4, "slots": 2},
    "schedulers": ["age", "random"],
    "rounds": 5,
}
TASK: dict[str, Any] = {
    **SMALL,
    "schedulers": ["age", "update-aware"],  # one of them is trained in lock step
    "rounds": 3,
    "task": {"dataset": "synthetic", "model": "logistic", "epochs": 1},
    "training": {"loss_images": 20, "test_images": 20, "device": "cpu"},
}


def lot(place: Path, first: int, count: int, asked: Mapping[str, Any] = SMALL, *more: str) -> Path:
    """The finished run of instances ``first`` and on."""
    overrides = [f"first_instance={first}", f"instances={count}", *more]
    run_experiment(experiment_from(asked, overrides), place, workers=1)
    return listed(place)


def listed(place: Path) -> Path:
    """A folder with the sums that are written at the end of a run."""
    write_sums(place, (), RunFolder(place).checksums())
    return place


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that two equal runs have in common, by name."""
    left_out = ("done.jsonl", ".lock")
    files = (path for path in folder.rglob("*") if path.is_file())
    named = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    return {name: content for name, content in named.items() if not name.startswith(left_out)}
