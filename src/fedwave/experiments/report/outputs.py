"""Writes the outputs of a finished experiment: figures, tables, one netCDF file, checksums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.experiments.analysis.bootstrap import bootstrap_rounds
from fedwave.experiments.analysis.captions import sentences
from fedwave.experiments.analysis.randomness import Randomness
from fedwave.experiments.analysis.tables import escape_markdown, latex, markdown, one_line
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.report.comparison import COLUMNS, Comparison
from fedwave.experiments.report.figures import common
from fedwave.experiments.report.figures.comparison import rounds_figure
from fedwave.experiments.report.figures.devices import devices_figure
from fedwave.experiments.report.figures.learning import Learning, curves_figure, learning_figures
from fedwave.experiments.report.figures.score import BANDS, Scores, score_figures
from fedwave.experiments.report.figures.sweep import sweep_figure
from fedwave.experiments.report.summary import comparison_of, full_table, interval_note, note_of, summary, title_of
from fedwave.experiments.store.checksums import SUMS, write_sums
from fedwave.experiments.store.dataset import Point, Results, curves_of, metrics_of, scheduler_labels, task_metric
from fedwave.experiments.store.folder import RunFolder
from fedwave.files.writing import write_csv, write_json, write_text, write_whole

if TYPE_CHECKING:
    import xarray as xr

_FIGURES = ("score", "score-paper", "learning-curves", "one-instance", "targets", "devices", "metrics")
_TABLES = ("rounds.csv", "instances.csv", "curves.csv", "targets.csv", "devices.csv")
_ALWAYS = ("summary.json", "summary.csv", "table.md", "table.tex", "results.nc", SUMS)
_MOST_CURVES = 24  # figures of points of a sweep
_MOST_ROWS = 100_000  # in devices.csv: results of larger networks are in devices/*.parquet
_MOST_DEVICES = 60  # that fit beside each other


def write_results(results: Results, folder: Path) -> list[Path]:
    """Writes every output that applies to the experiment. The caller holds the lock of the folder."""
    trained = results.experiment.task is not None
    if results.experiment.sweep:
        paths = _write_sweep(results, folder)
    else:
        write = write_learning if trained else write_score
        paths = [*write(results.only, folder), *_write_own_metrics(results.only, folder)]
        paths += _write_devices(results.only.data, folder)
    paths.append(write_json(folder / "summary.json", summary(results)))
    paths += _write_tables(results, folder)
    paths.append(_write_netcdf(results, folder))
    store = RunFolder(folder)
    written = [path.relative_to(folder).as_posix() for path in paths]
    write_sums(folder, written, store.checksums() if store.exists() else {})
    return paths


def write_score(point: Point, folder: Path) -> list[Path]:
    """The figures of a simulated run, and CSV files by round and by instance."""
    scores = Scores.of(point.data, point.experiment.base)
    paths = _write_figures(score_figures(scores), folder)
    heading = [f"{name}_{part}" for name in BANDS for part in ("mean", "half_width")]
    rows = [
        [label, number, *map(_six_digits, line)]
        for label, bands in scores.bands.items()
        for number, line in enumerate(zip(*(part for name in BANDS for part in bands[name]), strict=True), 1)
    ]
    paths.append(write_csv(folder / "rounds.csv", ["scheduler", "round", *heading], rows))
    values = Comparison.of(point.data, scores.base).values  # from the whole run, without a burn-in
    rows = [
        [label, number, *(f"{array[s, i]:.10g}" for array in values.values())]
        for s, label in enumerate(scheduler_labels(point.data))
        for i, number in enumerate(point.data["instance"].values)
    ]
    return [*paths, write_csv(folder / "instances.csv", ["scheduler", "instance", *values], rows)]


def write_learning(point: Point, folder: Path) -> list[Path]:
    """Learning curves, a single instance, and the rounds to every target if there are any."""
    paths = _write_figures(learning_figures(Learning.of(point)), folder)
    paths.append(_write_curves([point], folder / "curves.csv"))
    return [*paths, _write_targets(point, folder / "targets.csv")] if point.experiment.targets else paths


def _write_figures(figures: dict[str, common.Figure], folder: Path) -> list[Path]:
    return [path for stem, figure in figures.items() for path in common.save_figure(figure, folder / stem)]


def _write_own_metrics(point: Point, folder: Path) -> list[Path]:
    """A figure of the metrics that the experiment watches beside the built-in ones, and of the one asked for."""
    how = point.experiment
    drawn = ("score", "backlog") if how.task is None else (task_metric(point.data), "loss")
    asked = [how.metric, *(part.name for part in how.metrics)]
    own = [name for name in dict.fromkeys(asked) if name in metrics_of(point.data) and name not in drawn]
    return common.save_figure(rounds_figure(point, own), folder / "metrics") if own else []


def _write_devices(data: xr.Dataset, folder: Path) -> list[Path]:
    """A row per scheduler and device, and a figure of the uploads if the devices fit in one."""
    names = [str(name) for name, variable in data.data_vars.items() if variable.dims[-1] == "device"]
    devices, randomness = data.sizes.get("device", 0), Randomness.of(data)
    if not names or devices * data.sizes["scheduler"] > _MOST_ROWS:
        return []
    rows: list[list[Any]] = []
    for label in scheduler_labels(data):
        own = data.sel(scheduler=label).transpose("device", "instance", ...)
        bands = [randomness.band(own[name].values, name, label) for name in names]
        for place, device in enumerate(data["device"].values):
            rows.append([label, device, *(f"{part[place]:.6g}" for band in bands for part in band)])
    heading = [f"{name}_{part}" for name in names for part in ("mean", "half_width")]
    paths = [write_csv(folder / "devices.csv", ["scheduler", "device", *heading], rows)]
    if devices <= _MOST_DEVICES and "device_uploads" in data:
        paths += common.save_figure(devices_figure(data), folder / "devices")
    return paths


def _write_sweep(results: Results, folder: Path) -> list[Path]:
    """One figure per axis: the metric against it, one figure for each setting of the other axes."""
    paths: list[Path] = []
    metric = results.experiment.metric
    for axis in results.experiment.sweep:
        others: dict[str, list[Point]] = {}
        for point in results.points:
            rest = str({name: value for name, value in point.where.items() if name != axis})
            others.setdefault(rest, []).append(point)
        alone, *numbered = sweep_stems(results.experiment, axis)
        for stem, points in zip(numbered if len(others) > 1 else [alone], others.values(), strict=False):
            paths += common.save_figure(sweep_figure(points, axis, metric), folder / stem)
    if results.experiment.task is None:
        return paths
    for number, point in enumerate(results.points[:_MOST_CURVES], 1):
        paths += common.save_figure(curves_figure(Learning.of(point)), folder / f"learning-curves-{number}")
    return [*paths, _write_curves(results.points, folder / "curves.csv")]


def _write_curves(points: Sequence[Point], path: Path) -> Path:
    """Loss and metric of every scheduler, instance and round."""
    metric = task_metric(points[0].data)
    names, rows = ["loss", metric], []
    if any(np.isfinite(point.data[f"{metric}_on_all"].values).any() for point in points):
        names.append(f"{metric}_on_all")
    for point in points:
        arrays = [point.data[n].transpose("scheduler", "instance", "round").values for n in names]
        keys, instances = scheduler_labels(point.data), point.data["instance"].values
        for s, i, t in np.ndindex(arrays[0].shape):
            numbers = (_six_digits(float(array[s, i, t])) for array in arrays)
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
    for label in scheduler_labels(point.data):
        curves = curves_of(point.data, label)
        for target in point.experiment.targets:
            found = bootstrap_rounds(curves.rounds_to(target), point.experiment.rounds)
            numbers = (*vars(found.restricted).values(), *vars(found.of_reached).values())
            share = float(curves.reaches(target).mean())
            lines.append([label, target, share, found.total, found.censored, *map(_six_digits, numbers)])
    return write_csv(path, heading, lines)


def _six_digits(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6g}"


def _write_tables(results: Results, folder: Path) -> list[Path]:
    """Means and paired differences, for a page, for a paper and for programs."""
    heads, base = title_of(results), results.experiment.base
    compared = [comparison_of(point) for point in results.points]
    footer = sentences("Means over instances.", interval_note(*compared), note_of(results))
    parts = [(f"{heads}.", full_table(results))]
    if len(results.experiment.schedulers) > 1:
        text = f"Paired differences from {base}, instance by instance; {heads}."
        parts.append((text, full_table(results, paired=True)))
    page = "\n".join(f"**{_for_page(text)}**\n\n{markdown(*table)}" for text, table in parts)
    paper = "\n".join(latex(*table, f"{text} {footer}") for text, table in parts)
    pairs = zip(results.points, compared, strict=True)
    lines = [[*point.where.values(), *line] for point, found in pairs for line in found.lines()]
    return [
        write_text(folder / "table.md", f"{page}\n{_for_page(footer)}\n"),
        write_text(folder / "table.tex", paper),
        write_csv(folder / "summary.csv", [*results.experiment.sweep, *COLUMNS], lines),
    ]


def _for_page(text: str) -> str:
    return escape_markdown(one_line(text))


def _write_netcdf(results: Results, folder: Path) -> Path:
    from fedwave.experiments.store.load import to_dataset, write_netcdf

    dataset = to_dataset(results)
    return write_whole(folder / "results.nc", lambda file: write_netcdf(dataset, file))


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
