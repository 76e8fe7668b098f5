"""What people and machines read: tables and JSON on standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from fedwave.cli.terminal import OutputFailed, PlainConsole
from fedwave.errors import FedwaveError
from fedwave.experiments.analysis.labels import NARROW, axis_label, meanings, sentences
from fedwave.experiments.analysis.statistics import Estimate
from fedwave.experiments.analysis.tables import with_interval
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.report.comparison import Comparison
from fedwave.experiments.report.learning import dataset_of, is_synthetic
from fedwave.experiments.report.outputs import comparison_of, interval_note, note_of, summary, title_of, write_results
from fedwave.experiments.store.dataset import Results
from fedwave.files.writing import json_text

_FINER = ("score", "mean_age", "jain", "loss")  # small differences of these matter
_NOT_LEARNT = ("score", "mean_age", "worst_age")  # left out where there is an accuracy to show


def print_json(content: Any) -> None:
    """JSON and nothing else on standard output."""
    print(json_text(content))


def print_out(sentence: str) -> None:
    """A sentence of any length: the terminal wraps it."""
    console().print(sentence, soft_wrap=True)


def console() -> PlainConsole:
    """Standard output; in a file tables take their own width."""
    plain = PlainConsole()
    return plain if plain.is_terminal else PlainConsole(width=160)


def show(results: Results, folder: Path, as_json: bool) -> None:
    """Write figures and tables beside the results, and print the tables."""
    paths = write_results(results, folder)
    try:
        if as_json:
            print_json({"files": [str(path) for path in paths], **summary(results)})
        else:
            print_tables(result_tables(results))
            say_where(folder, paths)
        sys.stdout.flush()  # what a buffer holds could only fail later
    except OutputFailed as error:
        raise FedwaveError(f"{error} The results are stored in {folder}.") from None


def print_table(table: Table, folder: Path, paths: Sequence[Path]) -> None:
    """A table, and the files beside it."""
    print_wide(table)
    say_where(folder, paths)


def print_tables(tables: Sequence[Table]) -> None:
    """Tables below each other; what they mean comes once, at the end."""
    for number, table in enumerate(tables):
        if number:
            print_out("")
        print_wide(table)


def say_where(folder: Path, paths: Sequence[Path]) -> None:
    """The last line: the folder and its files."""
    print_out(f"Figures and data are in {folder}: {', '.join(str(path.relative_to(folder)) for path in paths)}")


def print_wide(table: Table) -> None:
    """Print a table without cutting numbers: long names in its first column wrap, then lines exceed the terminal."""
    screen = console()
    # The table's own title and caption would wrap at its width.
    title, caption, table.title, table.caption = table.title, table.caption, None, None
    if title:
        screen.print(title, style="bold")
    unlimited = screen.options.update(max_width=10_000)
    excess = screen.measure(table, options=unlimited).maximum - screen.width
    if excess > 0:
        first = table.columns[0]
        longest = max(screen.measure(cell, options=unlimited).maximum for cell in first.cells)
        first.max_width = max(len(str(first.header)), longest - excess)
        screen.width = max(screen.width, screen.measure(table, options=unlimited).maximum)
    screen.print(table)
    if caption:
        console().print(caption)


def plain_rows(names: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Table:
    """Any table of texts: the names of the first column on the left, the rest flush right."""
    out = plain_table(title)
    for place, name in enumerate(names):
        out.add_column(name, justify="right" if place else "left", no_wrap=place > 0, overflow="fold")
    for row in rows:
        out.add_row(*row)
    return out


def comparison_tables(comparison: Comparison, name: str, note: str | None = None) -> list[Table]:
    """The means of the brief metrics, and their paired differences from the base if there is another scheduler."""
    names = _names(comparison)
    rows = [[comparison.name(k), *_cells(comparison, k, names)] for k in comparison.schedulers]
    found = [plain_rows(["scheduler", *_headings(names)], rows, f"{name}: {comparison.title}")]
    rows = [
        [comparison.name(k), *_difference_cells(comparison, k, names)]
        for k in comparison.schedulers
        if k != comparison.base
    ]
    more = comparison.note if note is None else note
    footer = sentences(interval_note(comparison, metrics=names), meanings(names), more)
    return _with_differences(found, rows, ["scheduler", *_headings(names)], comparison.base, footer)


def sweep_tables(results: Results) -> list[Table]:
    """The same at every point of a sweep."""
    how, means, differences, compared = results.experiment, [], [], []
    for point in results.points:
        found = comparison_of(point)
        compared.append(found)
        names, places = _names(found), [str(value) for value in point.where.values()]
        for label in found.schedulers:
            means.append([found.name(label), *places, *_cells(found, label, names)])
            if label != found.base:
                differences.append([found.name(label), *places, *_difference_cells(found, label, names)])
    heads = ["scheduler", *map(axis_label, how.sweep), *_headings(names)]
    first = plain_rows(heads, means, title_of(results))
    footer = sentences(interval_note(*compared, metrics=names), meanings(names), note_of(results))
    return _with_differences([first], differences, heads, how.base, footer)


def _with_differences(
    tables: list[Table], rows: list[list[str]], heads: list[str], base: str, footer: str
) -> list[Table]:
    """The tables with one of differences, if there are any, and a footer below the last."""
    if rows:
        name = f"Paired differences from {base}, instance by instance"
        tables.append(plain_rows(heads, rows, name))
    tables[-1].caption = footer
    return tables


def plain_table(title: str, caption: str | None = None) -> Table:
    """Few lines and little padding: eight columns must fit into a terminal of 80."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption=caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
        show_edge=False,
    )


def _names(comparison: Comparison) -> list[str]:
    learnt = "loss" in comparison.values
    return [m for m in comparison.brief if m == comparison.first or not (learnt and m in _NOT_LEARNT)]


def _headings(names: Sequence[str]) -> list[str]:
    return [NARROW[name][0] if name in NARROW else name for name in names]


def _cells(comparison: Comparison, label: str, names: Sequence[str]) -> list[str]:
    found = ((comparison.estimate(label, name), name) for name in names)
    return [_cell(value, name) + comparison.share(value) for value, name in found]


def _difference_cells(comparison: Comparison, label: str, names: Sequence[str]) -> list[str]:
    found = ((comparison.difference(label, name), name) for name in names)
    return [_cell(value, name, "+") + comparison.share(value) for value, name in found]


def _cell(value: Estimate, metric: str, sign: str = "") -> str:
    _, factor, decimals, unit, _ = NARROW.get(metric, ("", 1, 4, "", ""))
    decimals += bool(sign) and metric in _FINER
    text = with_interval(factor * value.mean, factor * value.half_width, sign, decimals)
    return text if np.isnan(value.mean) else text + unit


def result_tables(results: Results) -> list[Table]:
    """The tables of an experiment for a terminal."""
    how = results.experiment
    if how.sweep:
        return sweep_tables(results)
    return comparison_tables(comparison_of(results.only), name_of(how), note_of(results))


def name_of(how: Experiment) -> str:
    """The experiment's name, or the dataset that was learnt."""
    if how.task is None:
        return how.name
    dataset = dataset_of(how)
    return f"SYNTHETIC DATA (no {dataset})" if is_synthetic(how) else dataset
