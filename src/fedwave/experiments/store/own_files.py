"""The files that fedwave writes into a folder, by name; what else lies there belongs to somebody else."""

from __future__ import annotations

import os
from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.store import inputs
from fedwave.experiments.store.sums import SUMS

if TYPE_CHECKING:
    from fedwave.experiments.config.units import Unit
    from fedwave.experiments.store.folder import RunFolder

CONFIG, PLAN, PROVENANCE = "config.yaml", "plan.json", "provenance.json"
SUMMARY = "summary.json"
# Folders of a run folder. Files lie directly in them.
PLACES = ("rounds/", "devices/", "units/", "timings/", "checkpoints/", "inputs/")
RUN_FILES = frozenset({CONFIG, PLAN, PROVENANCE, inputs.LIST, inputs.PLACES, *PLACES})
_OF_A_UNIT = {"rounds": "parquet", "devices": "parquet", "units": "json", "timings": "json"}
_FIGURES = ("score", "score-paper", "learning-curves", "one-instance", "targets", "devices", "metrics")
_TABLES = (
    "rounds.csv",
    "instances.csv",
    "curves.csv",
    "targets.csv",
    "devices.csv",
    "summary.json",
    "summary.csv",
    "table.md",
    "table.tex",
    "results.nc",
    SUMS,
)

# What every finished run has, whatever the experiment.
ALWAYS_WRITTEN = frozenset({"summary.json", "summary.csv", "table.md", "table.tex", "results.nc"})


def files_of_run(store: RunFolder, units: Iterable[Unit]) -> set[str]:
    """What a run writes below its folder, but for its figures and tables."""
    found = set(RUN_FILES)
    for unit in units:
        if "/" in unit.name or os.sep in unit.name:
            raise FedwaveError(f"{store.path / PLAN} is damaged: it has a unit {unit.name!r}.")
        found |= {f"{place}/{unit.name}.{ending}" for place, ending in _OF_A_UNIT.items()}
        found.add(f"checkpoints/{store.checkpoint(unit).name}")
    return found | inputs.pinned_copies(store.path).keys()


def output_files(experiment: Experiment) -> set[str]:
    """The figures and tables that an experiment can end in, simulated or trained."""
    stems = {*_FIGURES, *(stem for axis in experiment.sweep for stem in sweep_stems(experiment, axis))}
    if experiment.sweep:
        points = prod(len(values) for values in experiment.sweep.values())
        stems |= {f"learning-curves-{number}" for number in range(1, points + 1)}
    return {*_TABLES, *with_endings(stems)}


def sweep_stems(experiment: Experiment, axis: str) -> list[str]:
    """The names of the figures of one axis of a sweep: one for each setting of the other axes."""
    stem = f"{experiment.metric}-{axis.replace('.', '-')}"
    others = prod(len(values) for name, values in experiment.sweep.items() if name != axis)
    return [stem, *(f"{stem}-{number}" for number in range(1, others + 1))]


def with_endings(stems: Iterable[str]) -> set[str]:
    """Figures are written as PNG and SVG."""
    return {f"{stem}.{ending}" for stem in stems for ending in ("png", "svg")}
