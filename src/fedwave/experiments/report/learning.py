"""The paper's learning figures and their numbers, on common worlds and common data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment, TaskConfig
from fedwave.experiments.results.bootstrap import bootstrap_rounds
from fedwave.experiments.results.container import Point, curves_of, labels
from fedwave.files import write_csv


def task_of(experiment: Experiment) -> TaskConfig:
    """The task that was trained."""
    if experiment.task is None:
        raise FedwaveError("nothing was learnt in this experiment: it has no task.")
    return experiment.task


def is_synthetic(experiment: Experiment) -> bool:
    """Whether synthetic data replaced a dataset that was unavailable."""
    return task_of(experiment).instead_of is not None


def dataset_of(experiment: Experiment) -> str:
    """The dataset that was asked for."""
    task = task_of(experiment)
    return task.instead_of or str(task.dataset)


def caption_of(experiment: Experiment) -> str:
    """What was trained and how it was evaluated."""
    dataset, training = dataset_of(experiment), experiment.training
    text = f"{dataset}: {experiment.instances} instances, seed {experiment.seed}; accuracy on "
    text += (
        f"{training.test_images:,} test images, loss on {training.loss_images:,} training images."
    )
    warning = f"SYNTHETIC DATA, not {dataset}: the real files are unavailable.\n"
    return (warning if is_synthetic(experiment) else "") + text


def write_learning(point: Point, folder: Path) -> list[Path]:
    """Figures 3, 4 and 5, the curves and the rounds to every target."""
    from fedwave.experiments.report.figures import learning as figures
    from fedwave.experiments.report.figures.common import save_figure

    task_of(point.experiment)  # or there is nothing to draw
    paths = save_figure(figures.curves_figure(point), folder / "figure3")
    paths += save_figure(figures.single_figure(point), folder / "figure4")
    paths += save_figure(figures.targets_figure(point), folder / "figure5")
    paths.append(_write_curves(point, folder / "curves.csv"))
    return [*paths, _write_targets(point, folder / "targets.csv")]


def learnt_json(point: Point) -> dict[str, Any]:
    """What the summary of a learning experiment adds."""
    by_class = point.data["class_accuracy"].isel(round=-1).mean("instance").round(6)
    uploads = point.data["device_uploads"].mean("instance")
    return {
        "synthetic": is_synthetic(point.experiment),
        "class_accuracy": dict(zip(labels(point.data), by_class.values.tolist(), strict=True)),
        "uploads_per_device": dict(zip(labels(point.data), uploads.values.tolist(), strict=True)),
    }


def _write_curves(point: Point, path: Path) -> Path:
    names = ("loss", "accuracy", "accuracy_on_all")
    arrays = [point.data[name].transpose("scheduler", "instance", "round").values for name in names]
    instances, rows = point.data["instance"].values, []
    for s, label in enumerate(labels(point.data)):
        for i, t in np.ndindex(arrays[0].shape[1:]):
            rows.append([label, instances[i], t + 1, *(_text(array[s, i, t]) for array in arrays)])
    return write_csv(path, ["scheduler", "instance", "round", *names], rows)


def _write_targets(point: Point, path: Path) -> Path:
    """Rounds until three in a row beat a target, with bootstrap intervals and those that never got there."""
    heading = [
        "scheduler", "target", "share_reached_at_the_end", "instances", "never",
        "rounds_never_counted_as_last", "low", "high", "rounds_of_those_that_did", "low_of_those", "high_of_those",
    ]  # fmt: skip
    lines: list[list[Any]] = []
    for label in labels(point.data):
        curves = curves_of(point.data, label)
        for target in point.experiment.targets:
            found = bootstrap_rounds(curves.rounds_to(target), point.experiment.rounds)
            numbers = (*vars(found.restricted).values(), *vars(found.of_reached).values())
            share = float(curves.reaches(target).mean())
            lines.append([label, target, share, found.total, found.censored, *map(_text, numbers)])
    return write_csv(path, heading, lines)


def _text(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6g}"
