"""The names of the tables and figures that an experiment can end in."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.store.checksums import SUMS

_FIGURES = ("score", "score-paper", "learning-curves", "one-instance", "targets", "devices", "metrics")
_TABLES = ("rounds.csv", "instances.csv", "curves.csv", "targets.csv", "devices.csv")
_ALWAYS = ("summary.json", "summary.csv", "table.md", "table.tex", "results.nc", SUMS)


def output_files(experiment: Experiment) -> set[str]:
    """The figures and tables of an experiment, simulated or trained."""
    stems = {*_FIGURES, *(stem for axis in experiment.sweep for stem in sweep_stems(experiment, axis))}
    if experiment.sweep:
        points = prod(len(values) for values in experiment.sweep.values())
        stems |= {f"learning-curves-{number}" for number in range(1, points + 1)}
    return {*_TABLES, *_ALWAYS, *with_endings(stems)}


def sweep_stems(experiment: Experiment, axis: str) -> list[str]:
    """The names of the figures of one axis of a sweep: one for each setting of the other axes."""
    stem = f"{experiment.metric}-{axis.replace('.', '-')}"
    others = prod(len(values) for name, values in experiment.sweep.items() if name != axis)
    return [stem, *(f"{stem}-{number}" for number in range(1, others + 1))]


def with_endings(stems: Iterable[str]) -> set[str]:
    """Figures are written as PNG and SVG."""
    return {f"{stem}.{ending}" for stem in stems for ending in ("png", "svg")}
