"""What people and programs read: tables and JSON on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from fedwave.cli.terminal import OutputFailed, PlainConsole
from fedwave.experiments.analysis.labels import NARROW, axis_label, meanings, sentences
from fedwave.experiments.analysis.statistics import Estimate
from fedwave.experiments.analysis.tables import with_interval
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.report.comparison import Comparison
from fedwave.experiments.report.learning import dataset_of, is_synthetic
from fedwave.experiments.report.outputs import comparison_of, interval_note, note_of, summary, title_of, write_results
from fedwave.experiments.store.checksums import SUMS, write_sums
from fedwave.experiments.store.dataset import Results
from fedwave.experiments.store.lock import writing_outputs
from fedwave.files.writing import json_text
from fedwave.types import FloatArray

_FINER = ("score", "mean_age", "jain", "loss")  # small differences of these matter
_NOT_LEARNT = ("score", "mean_age", "worst_age")  # left out where there is an accuracy to show
_WIDTH = 100  # of what is not printed on a terminal


def print_json(content: Any) -> None:
    """JSON and nothing else on standard output."""
    print(json_text(content))


def print_out(sentence: str) -> None:
    """A sentence of any length: the terminal wraps it."""
    console().print(sentence, soft_wrap=True)


def console() -> PlainConsole:
    """Standard output; in a file, tables may be wider."""
    plain = PlainConsole()
    return plain if plain.is_terminal else PlainConsole(width=_WIDTH)


def show(results: Results, folder: Path, as_json: bool, quiet: bool = False) -> None:
    """Write figures and tables beside the results, and print the tables."""
    paths = write_results(results, folder)
    try:
        if as_json:
            print_json({"files": [str(path) for path in paths], **summary(results)})
        elif not quiet:
            print_tables(result_tables(results))
            say_where(folder, paths)
        sys.stdout.flush()  # what a buffer holds could only fail later
    except OutputFailed as error:
        raise OutputFailed(f"{error} The results are stored in {folder}.") from None


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


@contextmanager
def own_files(folder: Path | None, names: set[str]) -> Iterator[None]:
    """Within the block, these files may be written into a folder; raises first if others' would be overwritten."""
    if folder is None:
        yield
        return
    with writing_outputs(folder, {*names, SUMS}):
        yield
        write_sums(folder, names)


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
    """Any table of texts: the names of the first column on the left, the rest flush right.

    Few lines and little padding: eight columns must fit into a terminal of 80.
    """
    out = Table(title=title, box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    for place, name in enumerate(names):
        out.add_column(name, justify="right" if place else "left", no_wrap=place > 0, overflow="fold")
    for row in rows:
        out.add_row(*row)
    return out


def definitions() -> Table:
    """A table of names and what is said about them, without lines: each name is in the first column."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    return table


def comparison_tables(comparison: Comparison, name: str, note: str | None = None) -> list[Table]:
    """The means of the brief metrics, and their paired differences from the base if there is another scheduler.

    A metric that is equal for all schedulers has no column; its value is named below.
    """
    names, equal = _names(comparison), []
    if len(comparison.schedulers) > 1:
        equal = [metric for metric in names[1:] if _is_equal(comparison.values[metric])]
    title, more = f"{name}: {comparison.title}", comparison.note if note is None else note
    tables = _tables([([], comparison)], [m for m in names if m not in equal], [], title, more)
    if equal:
        cells = zip(_headings(equal), _cells(comparison, comparison.base, equal), strict=True)
        same = ", ".join(f"{heading} {value}" for heading, value in cells)
        tables[-1].caption = f"Equal for all: {same}. {meanings(equal)}\n{tables[-1].caption}"
    return tables


def sweep_tables(results: Results) -> list[Table]:
    """The same at every point of a sweep."""
    compared = [([str(value) for value in point.where.values()], comparison_of(point)) for point in results.points]
    axes = [axis_label(axis) for axis in results.experiment.sweep]
    return _tables(compared, _names(compared[-1][1]), axes, title_of(results), note_of(results))


def _tables(
    compared: list[tuple[list[str], Comparison]], names: list[str], axes: list[str], title: str, note: str
) -> list[Table]:
    """A table of means, and one of differences if there are any, with a footer; of points with their places."""
    means, differences = [], []
    for place, found in compared:
        for label in found.schedulers:
            means.append([found.name(label), *place, *_cells(found, label, names)])
            if label != found.base:
                differences.append([found.name(label), *place, *_cells(found, label, names, difference=True)])
    heads, base = ["scheduler", *axes, *_headings(names)], compared[0][1].base
    tables = [plain_rows(heads, means, title)]
    if differences:
        tables.append(plain_rows(heads, differences, f"Paired differences from {base}, instance by instance"))
    intervals = interval_note(*(found for _, found in compared), metrics=names)
    tables[-1].caption = sentences(intervals, meanings(names), note)
    return tables


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


def _names(comparison: Comparison) -> list[str]:
    learnt = "loss" in comparison.values
    return [m for m in comparison.brief if m == comparison.first or not (learnt and m in _NOT_LEARNT)]


def _is_equal(values: FloatArray) -> bool:
    """Has every scheduler the same number in every instance? ``values [scheduler, instance]``."""
    return bool(np.array_equal(values, np.broadcast_to(values[:1], values.shape), equal_nan=True))


def _headings(names: Sequence[str]) -> list[str]:
    return [NARROW[name][0] if name in NARROW else name for name in names]


def _cells(comparison: Comparison, label: str, names: Sequence[str], difference: bool = False) -> list[str]:
    """Means, or paired differences from the base, with their intervals."""
    of, sign = (comparison.difference, "+") if difference else (comparison.estimate, "")
    found = ((of(label, name), name) for name in names)
    return [_cell(value, name, sign) + comparison.share(value) for value, name in found]


def _cell(value: Estimate, metric: str, sign: str = "") -> str:
    _, factor, decimals, unit, _ = NARROW.get(metric, ("", 1, 4, "", ""))
    decimals += bool(sign) and metric in _FINER
    text = with_interval(factor * value.mean, factor * value.half_width, sign, decimals)
    return text if np.isnan(value.mean) else text + unit
