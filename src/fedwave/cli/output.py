"""What people and machines read: tables and JSON on standard output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.report.learning import dataset_of, is_synthetic
from fedwave.experiments.report.outputs import comparison_of, summary, sweep_rows, write_results
from fedwave.experiments.report.tables import with_interval
from fedwave.experiments.results.comparison import Comparison
from fedwave.experiments.results.container import Results
from fedwave.experiments.results.statistics import Estimate
from fedwave.files import json_text

# Heading, factor, decimals and unit of metrics in a narrow table.
_NARROW = {
    "score": ("score", 1, 2, ""), "backlog": ("backlog", 1, 1, ""),
    "delivered_share": ("delivered", 100, 1, "%"), "jain": ("Jain", 1, 2, ""), "mean_age": ("age", 1, 1, ""),
    "worst_age": ("worst", 1, 0, ""), "loss": ("loss", 1, 3, ""), "spikes": ("spikes", 1, 1, ""),
}  # fmt: skip
_NOT_LEARNT = ("score", "mean_age", "worst_age")  # left out where there is an accuracy to show
_MEANINGS = (
    "Delivered: share of the shards. Jain: fairness of uploads. Age: rounds since a device's last delivery; worst: "
    "the oldest."
)
_HALF_WIDTH = "±: half-width of the 95 % interval over instances."


def print_json(content: Any) -> None:
    """JSON and nothing else on standard output."""
    print(json_text(content))


def say(sentence: str) -> None:
    """A sentence of any length: the terminal wraps it."""
    console().print(sentence, soft_wrap=True)


def console() -> Console:
    """Standard output. Names are printed as they are; in a file tables take their own width."""
    plain = Console(highlight=False, markup=False, emoji=False)
    if plain.is_terminal:
        return plain
    return Console(highlight=False, markup=False, emoji=False, width=160)


def show(results: Results, folder: Path, as_json: bool, metric: str | None = None) -> None:
    """Write figures and tables beside the results, and print the table, ``metric`` first."""
    paths = write_results(results, folder)
    if as_json:
        print_json({"files": [str(path) for path in paths], **_json(results)})
        return
    print_table(_table(results, metric), folder, paths)


def print_table(table: Table, folder: Path, paths: Sequence[Path]) -> None:
    """A table, and the files beside it."""
    print_wide(table)
    say(f"Figures and data are in {folder}: {', '.join(path.name for path in paths)}")


def print_wide(table: Table) -> None:
    """Print a table without cutting numbers: long names in its first column wrap, then lines exceed the terminal."""
    screen = console()
    unlimited = screen.options.update(max_width=10_000)
    excess = screen.measure(table, options=unlimited).maximum - screen.width
    if excess > 0:
        first = table.columns[0]
        longest = max(len(str(cell)) for cell in first.cells)
        first.max_width = max(len(str(first.header)), longest - excess)
        screen.width = max(screen.width, screen.measure(table, options=unlimited).maximum)
    screen.print(table)


def heading(experiment: Experiment, name: str | None = None) -> str:
    """What was run, above a table."""
    how = experiment
    return f"{name or how.name}: {how.rounds} rounds, {how.instances} instances, seed {how.seed}"


def first_metric(experiment: Experiment, asked: str | None) -> str | None:
    """The metric that comes first: that of the command line, or the experiment's if it is not the default."""
    default = Experiment.__dataclass_fields__["metric"].default
    return asked or (None if experiment.metric == default else experiment.metric)


def plain_rows(names: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Table:
    """Any table of texts: the names of the first column on the left, the rest flush right."""
    out = plain_table(title, _HALF_WIDTH)
    for place, name in enumerate(names):
        out.add_column(
            name, justify="right" if place else "left", no_wrap=place > 0, overflow="fold"
        )
    for row in rows:
        out.add_row(*row)
    return out


def comparison_table(comparison: Comparison, title: str, metric: str | None = None) -> Table:
    """The brief metrics with their intervals, ``metric`` first with its paired difference from the base."""
    names = _names(comparison, metric)
    paired = len(comparison.schedulers) > 1
    rows = []
    for label in comparison.schedulers:
        cells = _cells(comparison, label, names)
        if paired:
            apart = _cell(comparison.difference(label, names[0]), names[0], "+")
            cells.insert(1, "-" if label == comparison.base else apart)
        rows.append([comparison.name(label), *cells])
    headings = [_NARROW.get(name, (name,))[0] for name in names]
    if paired:
        headings.insert(1, f"vs {comparison.base}")
    out = plain_rows(["scheduler", *headings], rows, title)
    difference = "vs: paired difference of the first number. " if paired else ""
    out.caption = f"{_HALF_WIDTH} {difference}{_MEANINGS}"
    return out


def sweep_table(results: Results, metric: str | None = None) -> Table:
    """The brief metrics of every scheduler at every point, ``metric`` first."""
    how, rows = results.experiment, []
    for point in results.points:
        comparison = comparison_of(point)
        names = _names(comparison, metric)
        for label in comparison.schedulers:
            places = map(str, point.where.values())
            rows.append([comparison.name(label), *places, *_cells(comparison, label, names)])
    headings = [_NARROW.get(name, (name,))[0] for name in names]
    out = plain_rows(["scheduler", *how.sweep, *headings], rows, heading(how))
    out.caption = f"{_HALF_WIDTH} {_MEANINGS}"
    return out


def plain_table(title: str, caption: str) -> Table:
    """Few lines and little padding: eight columns must fit into a terminal of 80."""
    return Table(
        title=title, title_justify="left", title_style="bold", caption=caption, caption_justify="left",
        box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False,
    )  # fmt: skip


def _names(comparison: Comparison, metric: str | None) -> list[str]:
    learnt = "loss" in comparison.values
    names = [m for m in comparison.brief if m != metric and not (learnt and m in _NOT_LEARNT)]
    return names if metric is None else [metric, *names]


def _cells(comparison: Comparison, label: str, names: Sequence[str]) -> list[str]:
    return [_cell(comparison.estimate(label, name), name) for name in names]


def _cell(value: Estimate, metric: str, sign: str = "") -> str:
    _, factor, decimals, unit = _NARROW.get(metric, ("", 1, 4, ""))
    decimals += bool(sign)  # a difference is small
    return with_interval(factor * value.mean, factor * value.half_width, sign, decimals) + unit


def _table(results: Results, metric: str | None) -> Table:
    how = results.experiment
    if how.sweep:
        return sweep_table(results, first_metric(how, metric))
    name = None
    if how.task is not None:
        name = dataset_of(how)
        name = f"SYNTHETIC DATA (no {name})" if is_synthetic(how) else name
    found = comparison_of(results.only)
    return comparison_table(found, heading(how, name), first_metric(how, metric))


def _json(results: Results) -> dict[str, Any]:
    if not results.experiment.sweep:
        return summary(results.only)
    names, lines = sweep_rows(results)
    rows = [dict(zip(names, line, strict=True)) for line in lines]
    return {"name": results.experiment.name, "rows": rows}
