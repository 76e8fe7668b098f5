"""The paper's learning figures and their table, on common worlds and common data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment, TaskConfig
from fedwave.experiments.config.read import to_mapping
from fedwave.experiments.results.bootstrap import bootstrap_rounds
from fedwave.experiments.results.comparison import metrics
from fedwave.experiments.results.outcome import Outcomes
from fedwave.experiments.results.statistics import Estimate, estimate, paired_difference
from fedwave.experiments.run.runner import Point
from fedwave.files import write_csv, write_json
from fedwave.types import FloatArray
from fedwave.version import __version__

if TYPE_CHECKING:
    from fedwave.learning.curves import Curves


@dataclass(frozen=True)
class Learned:
    """A finished point of an experiment in which something was learnt."""

    experiment: Experiment
    outcomes: Outcomes
    curves: Mapping[str, Curves]

    @classmethod
    def of(cls, point: Point) -> Learned:
        curves = {label: outcome.curves for label, outcome in point.outcomes.items()}
        trained = {label: c for label, c in curves.items() if c is not None}
        if point.experiment.task is None or len(trained) < len(curves):
            raise FedwaveError("nothing was learnt in this experiment: it has no task.")
        return cls(point.experiment, point.outcomes, trained)

    @property
    def task(self) -> TaskConfig:
        assert self.experiment.task is not None  # or it could not have been made
        return self.experiment.task

    @property
    def dataset(self) -> str:
        """The one that was wanted."""
        return self.task.instead_of or str(self.task.dataset)

    @property
    def synthetic(self) -> bool:
        """Could the wanted data not be had?"""
        return self.task.instead_of is not None

    @property
    def base(self) -> str:
        return self.experiment.base

    @property
    def caption(self) -> str:
        how = self.experiment
        text = f"{self.dataset}: {how.instances} instances, seed {how.seed}; accuracy on "
        text += f"{how.training.test_images:,} test images, loss on {how.training.loss_images:,} training images."
        warning = f"SYNTHETIC DATA, not {self.dataset}: the real files could not be had.\n"
        return (warning if self.synthetic else "") + text


@dataclass(frozen=True)
class LearningRow:
    """One scheduler of a learning experiment."""

    label: str
    accuracy: Estimate  # after the last round, over the instances that did not diverge
    difference: Estimate  # paired, from the base
    loss: Estimate
    spikes: float  # per instance
    diverged: int
    backlog: float
    delivered: float
    jain: float


def learning_table(learned: Learned) -> list[LearningRow]:
    """Accuracy beside what the schedule cost."""
    rows = []
    reference = learned.curves[learned.base].accuracy[-1]
    for label, curves in learned.curves.items():
        values = metrics(learned.outcomes[label], learned.experiment.burn_in)
        final = curves.accuracy[-1]
        both = np.isfinite(final) & np.isfinite(reference)
        rows.append(
            LearningRow(
                label,
                _estimate(final),
                _paired(final[both], reference[both]),
                _estimate(curves.loss[-1]),
                float(curves.spikes().mean()),
                int(np.count_nonzero(curves.diverged)),
                float(values["backlog"].mean()),
                float(values["delivered"].mean()),
                float(values["jain"].mean()),
            )
        )
    return rows


def write_learning(learned: Learned, folder: Path) -> tuple[list[LearningRow], list[Path]]:
    """Figures 3, 4 and 5, the curves as CSV and a summary."""
    from fedwave.experiments.report.figures.common import save_figure
    from fedwave.experiments.report.figures.learning import (
        curves_figure,
        single_figure,
        targets_figure,
    )

    rows = learning_table(learned)
    paths = save_figure(curves_figure(learned), folder / "figure3")
    paths += save_figure(single_figure(learned), folder / "figure4")
    paths += save_figure(targets_figure(learned), folder / "figure5")
    paths.append(
        write_csv(
            folder / "curves.csv",
            ["scheduler", "instance", "round", "loss", "accuracy", "accuracy_on_all"],
            _curve_rows(learned),
        )
    )
    paths.append(_write_targets(learned, folder / "targets.csv"))
    paths.append(write_json(folder / "summary.json", learning_json(learned, rows)))
    return rows, paths


def learning_json(learned: Learned, rows: list[LearningRow]) -> dict[str, Any]:
    """The summary for machines."""
    return {
        "fedwave": __version__,
        "synthetic": learned.synthetic,
        "experiment": to_mapping(learned.experiment),
        "schedulers": {
            row.label: {
                k: v if not isinstance(v, Estimate) else vars(v) for k, v in vars(row).items()
            }
            for row in rows
        },
        "class_accuracy": {
            label: _mean_of_numbers(curves.class_accuracy[-1]).round(6).tolist()
            for label, curves in learned.curves.items()
        },
        "uploads_per_device": {
            label: outcome.uploads.mean(axis=0).tolist()
            for label, outcome in learned.outcomes.items()
        },
    }


def _write_targets(learned: Learned, path: Path) -> Path:
    """Rounds until three in a row beat a target, with bootstrap intervals and those that never got there."""
    heading = [
        "scheduler", "target", "share_reached_at_the_end", "instances", "never",
        "rounds_never_counted_as_last", "low", "high", "rounds_of_those_that_did", "low_of_those", "high_of_those",
    ]  # fmt: skip
    lines: list[list[Any]] = []
    for label, curves in learned.curves.items():
        for target in learned.experiment.targets:
            found = bootstrap_rounds(curves.rounds_to(target), learned.experiment.rounds)
            numbers = (*vars(found.restricted).values(), *vars(found.of_reached).values())
            share = float(curves.reaches(target).mean())
            told = ["" if np.isnan(value) else f"{value:.6g}" for value in numbers]
            lines.append([label, target, share, found.total, found.censored, *told])
    return write_csv(path, heading, lines)


def _curve_rows(learned: Learned) -> list[list[Any]]:
    rows = []
    for label, curves in learned.curves.items():
        for i, instance in enumerate(learned.outcomes[label].instances):
            for t in range(curves.loss.shape[0]):
                values = (curves.loss[t, i], curves.accuracy[t, i], curves.accuracy_on_all[t, i])
                rows.append(
                    [label, instance, t + 1, *("" if np.isnan(v) else f"{v:.6g}" for v in values)]
                )
    return rows


def _mean_of_numbers(values: FloatArray) -> FloatArray:
    """Over the instances that have not diverged; NaN where all have."""
    count = np.isfinite(values).sum(axis=0)
    mean: FloatArray = np.where(count > 0, np.nansum(values, axis=0) / np.maximum(count, 1), np.nan)
    return mean


def _estimate(values: Any) -> Estimate:
    good = values[np.isfinite(values)]
    return estimate(good) if good.size else Estimate(np.nan, np.nan, np.nan)


def _paired(values: Any, base: Any) -> Estimate:
    return paired_difference(values, base) if values.size else Estimate(np.nan, np.nan, np.nan)
