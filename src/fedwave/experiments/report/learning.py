"""Learning curves and targets reached, on common worlds and common data: the figures and their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.experiments.analysis.bootstrap import bootstrap_rounds
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.store.dataset import Point, Results, curves_of, labels, task_metric
from fedwave.files.writing import write_csv

if TYPE_CHECKING:
    import xarray as xr

    from fedwave.experiments.report.figures.common import Figure
    from fedwave.learning.curves import Curves

_MOST_FIGURES = 24  # of points of a sweep


@dataclass(frozen=True)
class Learning:
    """What the figures of a trained run show: of a point of a run, or of the tables that it left."""

    data: xr.Dataset  # loss, accuracy, ... [scheduler, instance, round]; its attributes as those of results
    dataset: str  # the one that was asked for
    targets: tuple[float, ...] = ()
    synthetic: bool = False  # synthetic data replaced the dataset
    where: Mapping[str, Any] = field(default_factory=dict)  # of a sweep: the place on its axes

    @property
    def caption(self) -> str:
        """What was trained and how it was evaluated."""
        test, loss = (f"{self.data.attrs[name]:,}" for name in ("test_images", "loss_images"))
        kind = "images" if self.metric == "accuracy" else "samples"
        text = f"{self.dataset}: {self.metric} on {test} test {kind}, loss on {loss} training {kind}."
        warning = f"SYNTHETIC DATA, not {self.dataset}: the real files are unavailable.\n"
        return (warning if self.synthetic else "") + text

    @property
    def metric(self) -> str:
        """What the models were tested by."""
        return task_metric(self.data)

    def curves(self) -> dict[str, Curves]:
        """The curves of every scheduler."""
        return {label: curves_of(self.data, label) for label in labels(self.data)}


def learning_of(point: Point) -> Learning:
    """What the figures of a point show."""
    how = point.experiment
    return Learning(point.data, dataset_of(how), tuple(how.targets), is_synthetic(how), point.where)


def is_synthetic(experiment: Experiment) -> bool:
    """Whether synthetic data replaced a dataset that was unavailable."""
    return experiment.task is not None and experiment.task.instead_of is not None


def dataset_of(experiment: Experiment) -> str:
    """The dataset that was asked for."""
    assert experiment.task is not None, "nothing was learnt"
    return experiment.task.instead_of or str(experiment.task.dataset)


def write_learning(point: Point, folder: Path) -> list[Path]:
    """Learning curves, a single instance, and the rounds to every target if there are any."""
    from fedwave.experiments.report.figures.common import save_figure

    figures = learning_figures(learning_of(point))
    paths = [path for stem, figure in figures.items() for path in save_figure(figure, folder / stem)]
    paths.append(_write_curves([point], folder / "curves.csv"))
    if point.experiment.targets:
        paths.append(_write_targets(point, folder / "targets.csv"))
    return paths


def learning_figures(learnt: Learning) -> dict[str, Figure]:
    """The figures of a trained run, by the names of their files."""
    from fedwave.experiments.report.figures import learning as figures

    found = {"learning-curves": figures.curves_figure(learnt), "one-instance": figures.single_figure(learnt)}
    if learnt.targets:
        found["targets"] = figures.targets_figure(learnt)
    return found


def write_learning_sweep(results: Results, folder: Path) -> list[Path]:
    """Learning curves of every point of a sweep, numbered in its order, and all of them in one table."""
    from fedwave.experiments.report.figures.common import save_figure
    from fedwave.experiments.report.figures.learning import curves_figure

    paths: list[Path] = []
    for number, point in enumerate(results.points[:_MOST_FIGURES], 1):
        paths += save_figure(curves_figure(learning_of(point)), folder / f"learning-curves-{number}")
    return [*paths, _write_curves(results.points, folder / "curves.csv")]


def learnt_json(point: Point) -> dict[str, Any]:
    """What the summary of a learning experiment adds."""
    data = point.data
    more: dict[str, Any] = {}
    if "class_accuracy" in data:
        by_class = data["class_accuracy"].isel(round=-1).mean("instance").round(6).values.tolist()
        more["class_accuracy"] = dict(zip(labels(data), by_class, strict=True))
    uploads: list[Any] = data["device_uploads"].mean("instance").values.tolist()
    if data["device"].dtype.kind in "UO":  # the devices have names
        uploads = [dict(zip(data["device"].values.tolist(), means, strict=True)) for means in uploads]
    return {
        "synthetic": is_synthetic(point.experiment),
        **more,
        "uploads_per_device": dict(zip(labels(data), uploads, strict=True)),
    }


def _write_curves(points: Sequence[Point], path: Path) -> Path:
    names: list[str] = ["loss", metric := task_metric(points[0].data)]
    rows = []
    if any(np.isfinite(point.data[f"{metric}_on_all"].values).any() for point in points):
        names.append(f"{metric}_on_all")
    for point in points:
        arrays = [point.data[n].transpose("scheduler", "instance", "round").values for n in names]
        keys, instances = labels(point.data), point.data["instance"].values
        for s, i, t in np.ndindex(arrays[0].shape):
            numbers = (_text(float(array[s, i, t])) for array in arrays)
            rows.append([*point.where.values(), keys[s], instances[i], t + 1, *numbers])
    return write_csv(path, [*points[0].where, "scheduler", "instance", "round", *names], rows)


def _write_targets(point: Point, path: Path) -> Path:
    """Rounds until three in a row beat a target, with bootstrap intervals and those that never got there."""
    heading = [
        "scheduler",
        "target",
        "share_reached_at_the_end",
        "instances",
        "never",
        "rounds_never_counted_as_last",
        "low",
        "high",
        "rounds_of_those_that_did",
        "low_of_those",
        "high_of_those",
    ]
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
