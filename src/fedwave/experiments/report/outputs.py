"""What a finished experiment leaves for people and programs: figures, tables, one netCDF file, checksums."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from fedwave.experiments.config.read import to_mapping
from fedwave.experiments.report.learning import learnt_json, write_learning
from fedwave.experiments.report.score import write_score
from fedwave.experiments.report.tables import latex, markdown
from fedwave.experiments.results.comparison import COLUMNS, Comparison
from fedwave.experiments.results.container import Point, Results, metrics_of
from fedwave.files import write_csv, write_json, write_text, write_whole
from fedwave.version import __version__

SUMS = "SHA256SUMS"


def write_results(results: Results, folder: Path) -> list[Path]:
    """Everything that suits the experiment."""
    if results.experiment.sweep:
        paths = _write_sweep(results, folder)
    else:
        write = write_score if results.experiment.task is None else write_learning
        paths = write(results.only, folder) + _write_own_metrics(results.only, folder)
        paths.append(write_json(folder / "summary.json", summary(results.only)))
    paths += _write_tables(results, folder)
    paths.append(_write_netcdf(results, folder))
    _write_sums(folder)
    return paths


def _write_own_metrics(point: Point, folder: Path) -> list[Path]:
    """A figure of the metrics that the experiment watches beside the built-in ones."""
    own = [part.name for part in point.experiment.metrics if part.name in metrics_of(point.data)]
    if not own:
        return []
    from fedwave.experiments.report.figures.common import save_figure
    from fedwave.experiments.report.figures.comparison import rounds_figure

    return save_figure(rounds_figure(point, own), folder / "metrics")


def comparison_of(point: Point) -> Comparison:
    """The schedulers of a point, compared as its experiment says."""
    return Comparison.of(point.data, point.experiment.base, point.experiment.burn_in)


def summary(point: Point) -> dict[str, Any]:
    """The numbers of a point for machines."""
    how = point.experiment
    return {
        "fedwave": __version__, "rounds": how.rounds, "instances": how.instances, "seed": how.seed,
        "experiment": to_mapping(how), "schedulers": comparison_of(point).to_json(),
        **({} if how.task is None else learnt_json(point)),
    }  # fmt: skip


def sweep_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    """Heading and lines: the scheduler, the point's place on every axis, and every metric."""
    heading, lines = ["scheduler", *results.experiment.sweep], []
    for point in results.points:
        comparison = comparison_of(point)
        names = comparison.metrics
        for label in comparison.schedulers:
            places = map(str, point.where.values())
            lines.append([label, *places, *comparison.cells(label, names)])
    return [*heading, *names], lines


def _write_sweep(results: Results, folder: Path) -> list[Path]:
    """One figure per axis: the metric against it, one figure for each setting of the other axes."""
    from fedwave.experiments.report.figures.common import save_figure
    from fedwave.experiments.report.figures.sweep import sweep_figure

    paths: list[Path] = []
    metric = results.experiment.metric
    for axis in results.experiment.sweep:
        others: dict[str, list[Point]] = {}
        for point in results.points:
            rest = str({name: value for name, value in point.where.items() if name != axis})
            others.setdefault(rest, []).append(point)
        for number, points in enumerate(others.values(), 1):
            stem = f"{metric}-{axis.replace('.', '-')}" + (f"-{number}" if len(others) > 1 else "")
            paths += save_figure(sweep_figure(points, axis, metric), folder / stem)
    return paths


def _write_tables(results: Results, folder: Path) -> list[Path]:
    heading, rows = sweep_rows(results)
    caption = f"{results.experiment.name}: mean and half-width of the 95 % interval over instances."
    lines = [
        [*point.where.values(), *line]
        for point in results.points
        for line in comparison_of(point).lines()
    ]
    return [
        write_text(folder / "table.md", markdown(heading, rows)),
        write_text(folder / "table.tex", latex(heading, rows, caption)),
        write_csv(folder / "summary.csv", [*results.experiment.sweep, *COLUMNS], lines),
    ]


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
