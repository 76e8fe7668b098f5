"""What a finished experiment leaves for people and programs: figures, tables, one netCDF file, checksums."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedwave.experiments.analysis.labels import axis_label, burn_in_note, place, sentences, title
from fedwave.experiments.analysis.randomness import Randomness, notes
from fedwave.experiments.analysis.tables import escape_markdown, latex, markdown, one_line
from fedwave.experiments.config.sweep import to_mapping
from fedwave.experiments.report.comparison import COLUMNS, Comparison, Table
from fedwave.experiments.report.devices import worst_devices, worst_note, write_devices
from fedwave.experiments.report.learning import learnt_json, write_learning, write_learning_sweep
from fedwave.experiments.report.score import write_score
from fedwave.experiments.store.checksums import write_sums
from fedwave.experiments.store.dataset import Point, Results, metrics_of, task_metric
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.output_names import sweep_stems
from fedwave.files.writing import write_csv, write_json, write_text, write_whole
from fedwave.version import __version__

_HALF_WIDTH = "±: half-width of the 95 % interval over instances."


def write_results(results: Results, folder: Path) -> list[Path]:
    """Everything that suits the experiment. The caller holds the lock of the folder."""
    if results.experiment.sweep:
        paths = _write_sweep(results, folder)
    else:
        write = write_score if results.experiment.task is None else write_learning
        paths = write(results.only, folder) + _write_own_metrics(results.only, folder)
        paths += write_devices(results.only, folder)
    paths.append(write_json(folder / "summary.json", summary(results)))
    paths += _write_tables(results, folder)
    paths.append(_write_netcdf(results, folder))
    store = RunFolder(folder)
    written = [path.relative_to(folder).as_posix() for path in paths]
    write_sums(folder, written, store.checksums() if store.exists() else {})
    return paths


def _write_own_metrics(point: Point, folder: Path) -> list[Path]:
    """A figure of the metrics that the experiment watches beside the built-in ones, and of the one asked for."""
    how = point.experiment
    drawn = ("score", "backlog") if how.task is None else (task_metric(point.data), "loss")
    asked = [how.metric, *(part.name for part in how.metrics)]
    own = [name for name in dict.fromkeys(asked) if name in metrics_of(point.data) and name not in drawn]
    if not own:
        return []
    from fedwave.experiments.report.figures.common import save_figure
    from fedwave.experiments.report.figures.comparison import rounds_figure

    return save_figure(rounds_figure(point, own), folder / "metrics")


def comparison_of(point: Point) -> Comparison:
    """The schedulers of a point, compared as its experiment says."""
    how = point.experiment
    return Comparison.of(point.data, how.base, how.burn_in, how.metric)


def summary(results: Results) -> dict[str, Any]:
    """The numbers of an experiment for machines; those of a sweep under ``points``, each with its place."""
    how = results.experiment
    about = {
        "fedwave": __version__,
        "name": how.name,
        "rounds": how.rounds,
        "instances": how.instances,
        "first_instance": how.first_instance,
        "seed": how.seed,
        "metric": how.metric,
        "experiment": to_mapping(how),
    }
    if not how.sweep:
        return about | _numbers(results.only)
    points = [{"where": _plain(point.where), **_numbers(point)} for point in results.points]
    return about | {"points": points}


def _numbers(point: Point) -> dict[str, Any]:
    found = comparison_of(point)
    learnt = {} if point.experiment.task is None else learnt_json(point)
    worst = {k: {"device": d, "share": s} for k, (d, s) in worst_devices(point.data).items()}
    # What the titles and captions of figures state (a compact export is drawn with it).
    made_with = {**point.data.attrs, "devices": int(point.data.sizes["device"])}
    about = {**found.about(), "made_with": made_with}
    return {**about, "schedulers": found.to_json(), "worst_devices": worst, **learnt}


def _plain(where: dict[str, Any]) -> dict[str, Any]:
    return {k: v if isinstance(v, (bool, int, float, str)) else str(v) for k, v in where.items()}


def full_table(results: Results, paired: bool = False) -> Table:
    """The scheduler, the point's place on every axis, and the mean of every metric that all points have.

    Or the paired differences from the base, without rows of the base.
    """
    compared = _compared(results)
    first = compared[0][1]
    axes = map(axis_label, results.experiment.sweep)
    names = [name for name in first.metrics if all(name in found.values for _, found in compared)]
    heading = [f"vs {first.base}" if paired else "Scheduler", *axes, *(first.labels[name] for name in names)]
    rows = [
        [found.name(label), *map(str, point.where.values()), *found.cells(label, names, paired)]
        for point, found in compared
        for label in found.schedulers
        if not (paired and label == found.base)
    ]
    return heading, rows


def note_of(results: Results) -> str:
    """The note below a table: intervals and burn-in of all points."""
    points = results.points
    places = [place(point.where) for point in points]
    burn_in = notes([burn_in_note(point.experiment.burn_in) for point in points], places)
    randomness = notes([Randomness.of(point.data).note for point in points], places)
    return sentences(burn_in, randomness, worst_note(points[0].data) if len(points) == 1 else "")


def interval_note(*found: Comparison, metrics: Sequence[str] = ()) -> str:
    """What ± and (n of N) mean in a table of these metrics, or of all, if they are there."""
    left_out = next(filter(None, (one.left_out(*metrics) for one in found)), "")
    return sentences(_HALF_WIDTH if any(one.has_intervals for one in found) else "", left_out)


def title_of(results: Results, name: str | None = None) -> str:
    """What was run: its name, and U, W, gamma, rounds, instances and seed where they do not vary."""
    return f"{name or results.experiment.name}: {title(*(p.data for p in results.points))}"


def _compared(results: Results) -> list[tuple[Point, Comparison]]:
    return [(point, comparison_of(point)) for point in results.points]


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
        alone, *numbered = sweep_stems(results.experiment, axis)
        for stem, points in zip(numbered if len(others) > 1 else [alone], others.values(), strict=False):
            paths += save_figure(sweep_figure(points, axis, metric), folder / stem)
    if results.experiment.task is not None:
        paths += write_learning_sweep(results, folder)
    return paths


def _write_tables(results: Results, folder: Path) -> list[Path]:
    """Means and paired differences, for a page, for a paper and for programs."""
    heads, base = title_of(results), results.experiment.base
    compared = [found for _, found in _compared(results)]
    footer = sentences("Means over instances.", interval_note(*compared), note_of(results))
    parts = [(f"{heads}.", full_table(results))]
    if len(results.experiment.schedulers) > 1:
        text = f"Paired differences from {base}, instance by instance; {title_of(results)}."
        parts.append((text, full_table(results, paired=True)))
    page = "\n".join(f"**{_for_page(text)}**\n\n{markdown(*table)}" for text, table in parts)
    paper = "\n".join(latex(*table, f"{text} {footer}") for text, table in parts)
    lines = [[*point.where.values(), *line] for point, found in _compared(results) for line in found.lines()]
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
