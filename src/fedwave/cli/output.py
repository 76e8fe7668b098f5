"""What people and programs read: tables and JSON on standard output, and files of tables and figures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from fedwave.cli.options import Printing
from fedwave.cli.terminal import OutputFailed, PlainConsole
from fedwave.experiments.analysis.captions import dataset_of, field_name, is_synthetic, sentences
from fedwave.experiments.analysis.statistics import Estimate
from fedwave.experiments.analysis.tables import with_interval
from fedwave.experiments.report.comparison import BOUND, Comparison
from fedwave.experiments.report.outputs import with_endings, write_results
from fedwave.experiments.report.summary import comparison_of, interval_note, note_of, summary, title_of
from fedwave.experiments.store.checksums import SUMS, write_sums
from fedwave.experiments.store.dataset import Point, Results
from fedwave.experiments.store.lock import writing_outputs
from fedwave.files.writing import json_text, write_csv, write_json, write_text

# Heading, factor, decimals, unit and meaning of metrics in a narrow table.
NARROW: dict[str, tuple[str, int, int, str, str]] = {
    "score": ("score", 1, 2, "", ""),
    "backlog": ("backlog", 1, 1, "", "Backlog: shards that wait."),
    "backlog_p99": ("99 %", 1, 0, "", "99 %: not more than these wait in 99 of 100 rounds."),
    "delivered_share": ("delivered", 100, 1, "%", "Delivered: share of the shards."),
    "jain": ("Jain", 1, 2, "", "Jain: fairness of uploads."),
    "mean_age": ("age", 1, 1, "", "Age: rounds since a device's last delivery."),
    "worst_age": ("worst", 1, 0, "", "Worst: the largest age."),
    "accuracy": ("accuracy", 1, 4, "", "Accuracy: on test images, after the last round."),
    "loss": ("loss", 1, 3, "", "Loss: on training images."),
    "spikes": ("spikes", 1, 1, "", "Spikes: rounds whose loss jumps up."),
}
_FINER = ("score", "mean_age", "jain", "loss")  # small differences of these matter
_NOT_LEARNT = ("score", "mean_age", "worst_age", "backlog_p99")  # left out where there is an accuracy to show
_NO_DIFFERENCE = ("backlog_p99", "worst_age")  # left out of the differences, which then fit 80 columns
_WIDTH = 100  # of what is not printed on a terminal
Compared = Callable[[Point], Comparison]


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


def show(results: Results, folder: Path, printing: Printing, compared: Compared = comparison_of) -> None:
    """Write figures and tables beside the results, and print the tables."""
    paths = write_results(results, folder)
    try:
        if printing.json:
            print_json({"files": [str(path) for path in paths], **summary(results, compared)})
        elif not printing.quiet:
            print_tables(result_tables(results, compared))
            say_where(folder, paths)
        sys.stdout.flush()  # what a buffer holds could only fail later
    except OutputFailed as error:
        raise OutputFailed(f"{error} The results are stored in {folder}.") from None


def print_answer(
    printing: Printing, content: Any, table: Table, folder: Path | None = None, paths: Sequence[Path] = ()
) -> None:
    """The content as JSON; or the table, and the files that were written into a folder."""
    if printing.json:
        print_json(content)
    elif not printing.quiet:
        print_tables([table])
        if folder is not None:
            say_where(folder, paths)


def say_where(folder: Path, paths: Sequence[Path]) -> None:
    """The last line: the folder and its files."""
    print_out(f"Figures and data are in {folder}: {', '.join(str(path.relative_to(folder)) for path in paths)}")


@contextmanager
def writing(folder: Path | None, names: Iterable[str]) -> Iterator[Callable[[Mapping[str, Any]], list[Path]]]:
    """Hold a folder for files with these names; raises first if files of others would be overwritten.

    Yields a function that writes contents by their names: figures, tables, JSON and texts. A name without an ending is
    a figure, which becomes PNG and SVG. Without a folder, nothing is written.
    """
    if folder is None:
        yield lambda files: []
        return
    names, paths = list(names), list[Path]()

    def write(files: Mapping[str, Any]) -> list[Path]:
        written = [path for name, content in files.items() for path in _write_file(folder / name, content)]
        paths.extend(written)
        return written

    with writing_outputs(folder, {*names, *with_endings(names), SUMS}):
        yield write
        write_sums(folder, [path.name for path in paths])


def _write_file(path: Path, content: Any) -> list[Path]:
    from fedwave.experiments.report.figures.common import ENDINGS, save_figure, write_figure

    if not path.suffix:
        return save_figure(content, path)
    if path.suffix in ENDINGS:
        return [write_figure(content, path)]
    if path.suffix == ".csv":
        return [write_csv(path, *content)]
    if path.suffix == ".json":
        return [write_json(path, content)]
    return [write_text(path, content)]


def print_tables(tables: Sequence[Table]) -> None:
    """Tables below each other, without cutting numbers.

    Where a table is too wide, long names in its first column wrap if that makes it fit; else lines exceed the terminal.
    """
    for number, table in enumerate(tables):
        screen = console()
        if number:
            screen.print()
        # The table's own title and caption would wrap at its width.
        title, caption, table.title, table.caption = table.title, table.caption, None, None
        if title:
            screen.print(title, style="bold")
        unlimited = screen.options.update(max_width=10_000)
        excess = screen.measure(table, options=unlimited).maximum - screen.width
        if excess > 0:
            first = table.columns[0]
            longest = max(screen.measure(cell, options=unlimited).maximum for cell in first.cells)
            if longest - excess >= len(str(first.header)):
                first.max_width = longest - excess
            screen.width = max(screen.width, screen.measure(table, options=unlimited).maximum)
        screen.print(table)
        for paragraph in str(caption or "").splitlines():
            console().print(paragraph)


def plain_table(names: Sequence[str], rows: Sequence[Sequence[str]], title: str, caption: str = "") -> Table:
    """Any table of texts: the names of the first column on the left, the rest flush right.

    Few lines and little padding: eight columns must fit into a terminal of 80.
    """
    out = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    for place, name in enumerate(names):
        out.add_column(name, justify="right" if place else "left", no_wrap=place > 0, overflow="fold")
    for row in rows:
        out.add_row(*row)
    return out


def definitions(columns: int = 2) -> Table:
    """A table of names and what is said about them, without lines; the last column wraps."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for _ in range(columns - 1):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def result_tables(results: Results, compared: Compared = comparison_of) -> list[Table]:
    """The tables of an experiment for a terminal; a sweep has lines for each of its points."""
    how, name, note = results.experiment, None, note_of(results)
    found = [([str(value) for value in point.where.values()], compared(point)) for point in results.points]
    if how.task is not None and not how.sweep:
        name = f"SYNTHETIC DATA (no {dataset_of(how)})" if is_synthetic(how) else dataset_of(how)
    axes = [field_name(axis) for axis in how.sweep]
    if not how.sweep:
        note = sentences(found[0][1].remark, note)
    return comparison_tables(found, axes, title_of(results, name), note)


def comparison_tables(
    compared: Sequence[tuple[list[str], Comparison]], axes: Sequence[str] = (), title: str = "", note: str = ""
) -> list[Table]:
    """The means of the brief metrics, and their paired differences from the base if there is another scheduler.

    ``compared`` are points of a sweep, each with its place on the axes. The best scheduler comes first, and the bound
    last. A metric that is equal for all schedulers has no column; its value is named below, after the verdict.
    """
    last = compared[-1][1]
    learnt = "loss" in last.values
    shown = [m for m in last.brief if m == last.first or not (learnt and m in _NOT_LEARNT)]
    equal = [m for m in shown[1:] if _is_equal([found.values[m] for _, found in compared])]
    names = [m for m in shown if m not in equal]
    means, differences = [], []
    apart = [name for name in names if name == names[0] or name not in _NO_DIFFERENCE]
    percent = not np.isnan(last.percent(last.base, names[0]).mean)
    for place, found in compared:
        for label in found.ranking:
            means.append([found.name(label), *place, *_cells(found, label, names)])
            if label != found.base:
                cells = _cells(found, label, apart, difference=True)
                if percent:
                    cells.insert(1, with_interval(found.percent(label, names[0]).mean, np.nan, "+", most=1))
                differences.append([found.name(label), *place, *cells])
        if found.bounds.keys() & set(names):
            limits = (_cell(Estimate(found.bounds.get(name, np.nan), np.nan, np.nan), name) for name in names)
            means.append([BOUND, *place, *("" if text == "-" else text for text in limits)])
    tables = [plain_table(["scheduler", *axes, *_headings(names)], means, title)]
    if differences:
        title = f"Paired differences from {last.base}, instance by instance"
        heads = _headings(apart)
        heads[1:1] = ["in %"] if percent else []
        tables.append(plain_table(["scheduler", *axes, *heads], differences, title))
    values = zip(_headings(equal), _cells(last, last.base, equal), strict=True)
    same = f"Equal for all: {', '.join(map(' '.join, values))}." if equal else ""
    intervals = interval_note(*(found for _, found in compared), metrics=shown)
    caption = sentences(same, intervals, *(NARROW[name][-1] for name in shown if name in NARROW), note)
    verdict = last.verdict if len(compared) == 1 else ""
    tables[-1].caption = "\n".join(filter(None, (verdict, caption)))
    return tables


def _is_equal(values: Sequence[Any]) -> bool:
    """Has every scheduler the same number in every instance, at all points? ``[scheduler, instance]`` at each."""
    rows = [row.tobytes() for at in values for row in at]
    return len(rows) > 1 and len(set(rows)) == 1


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
