"""What a finished experiment leaves for people and programs: figures, tables, one netCDF file, checksums."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.experiments.report.learning import Learned, LearningRow, write_learning
from fedwave.experiments.report.score import write_score
from fedwave.experiments.report.tables import latex, markdown, with_interval
from fedwave.experiments.results.comparison import Row, metrics, table
from fedwave.experiments.results.outcome import Outcome
from fedwave.experiments.results.statistics import Estimate, estimate
from fedwave.experiments.run.runner import Point, Results
from fedwave.files import write_csv, write_text, write_whole

SUMS = "SHA256SUMS"
Rows = list[Row] | list[LearningRow]
_LEARNT = ("accuracy", "loss")


def write_results(results: Results, folder: Path) -> tuple[Rows, list[Path]]:
    """Everything that suits the experiment; the rows are those of its single point, none for a sweep."""
    rows: Rows = []
    if results.experiment.sweep:
        paths = _write_sweep(results, folder)
    elif results.experiment.task is not None:
        rows, paths = write_learning(Learned.of(results.only), folder)
    else:
        rows, paths = write_score(results.only, folder)
    paths += _write_tables(results, folder)
    paths.append(_write_netcdf(results, folder))
    _write_sums(folder)
    return rows, paths


def measure(outcome: Outcome, metric: str, burn_in: int) -> Estimate:
    """A metric of one scheduler over its instances; of accuracy and loss the last round's."""
    if metric in _LEARNT:
        assert outcome.curves is not None  # the configuration allows it only with a task
        last = getattr(outcome.curves, metric)[-1]
        good = last[np.isfinite(last)]
        return estimate(good) if good.size else Estimate(np.nan, np.nan, np.nan)
    return estimate(metrics(outcome, burn_in)[metric])


def sweep_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    """Heading and lines: the scheduler, the point's place on every axis, and what came out there."""
    names = ["score", "backlog", "delivered", "jain"]
    names += list(_LEARNT) if results.experiment.task is not None else []
    heading = ["scheduler", *results.experiment.sweep, *names]
    return heading, [
        [label, *map(str, point.where.values()), *_cells(point, outcome, names)]
        for point in results.points
        for label, outcome in point.outcomes.items()
    ]


def _cells(point: Point, outcome: Outcome, names: Sequence[str]) -> list[str]:
    cells = []
    for name in names:
        value = measure(outcome, name, point.experiment.burn_in)
        cells.append(with_interval(value.mean, value.half_width, most=4))
    return cells


def _write_sweep(results: Results, folder: Path) -> list[Path]:
    """One figure per axis: the metric against it, one figure for each setting of the other axes."""
    from fedwave.experiments.report.figures.common import save_figure
    from fedwave.experiments.report.figures.sweep import sweep_figure

    paths: list[Path] = []
    experiment = results.experiment
    for axis in experiment.sweep:
        others: dict[str, list[Point]] = {}
        for point in results.points:
            rest = ", ".join(f"{k} = {v}" for k, v in point.where.items() if k != axis)
            others.setdefault(rest, []).append(point)
        for number, (rest, points) in enumerate(others.items()):
            series = {
                label: _line(points, label, experiment.metric) for label in points[0].outcomes
            }
            how = points[0].experiment
            caption = f"{rest + '; ' if rest else ''}{how.instances} instances, seed {how.seed}; bands: 95 % intervals."
            values = [point.where[axis] for point in points]
            figure = sweep_figure(axis, values, series, experiment.metric, caption)
            suffix = f"-{number + 1}" if len(others) > 1 else ""
            paths += save_figure(figure, folder / f"{experiment.metric}-{axis.replace('.', '-')}{suffix}")  # fmt: skip
    return paths


def _line(points: list[Point], label: str, metric: str) -> tuple[Any, Any]:
    found = [measure(p.outcomes[label], metric, p.experiment.burn_in) for p in points]
    return np.array([e.mean for e in found]), np.array([e.half_width for e in found])


def _write_tables(results: Results, folder: Path) -> list[Path]:
    heading, rows = sweep_rows(results)
    caption = f"{results.experiment.name}: mean and half-width of the 95 % interval over instances."
    paths = [write_text(folder / "table.md", markdown(heading, rows))]
    paths.append(write_text(folder / "table.tex", latex(heading, rows, caption)))
    columns = ["mean", "half_width", "standard_error"]
    lines = []
    for point in results.points:
        base = table(point.outcomes, point.experiment.base, point.experiment.burn_in)
        for row in base:
            values = dict(row.values)
            values["score_difference"] = row.score_difference
            values["backlog_difference"] = row.backlog_difference
            if results.experiment.task is not None:
                outcome = point.outcomes[row.label]
                values |= {name: measure(outcome, name, 0) for name in _LEARNT}
            for name, value in values.items():
                numbers = (getattr(value, column) for column in columns)
                lines.append([*point.where.values(), row.label, name, *numbers])
    paths.append(
        write_csv(
            folder / "summary.csv",
            [*results.experiment.sweep, "scheduler", "quantity", *columns],
            lines,
        )
    )
    return paths


def _write_netcdf(results: Results, folder: Path) -> Path:
    from fedwave.experiments.results.dataset import netcdf_bytes, to_dataset

    content = netcdf_bytes(to_dataset(results))
    return write_whole(folder / "results.nc", lambda file: file.write(content))


def _write_sums(folder: Path) -> Path:
    """Checksums of all files, as `sha256sum -c SHA256SUMS` checks them."""
    lines = []
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder).as_posix()
        if path.is_file() and place != SUMS and not place.startswith((".", "lock", "checkpoints/")):
            lines.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {place}\n")
    return write_text(folder / SUMS, "".join(lines))
