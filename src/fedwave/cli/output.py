"""What people see in the terminal: tables on standard output, progress on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedwave import registry
from fedwave.experiments.report.tables import with_interval
from fedwave.experiments.results.comparison import Comparison
from fedwave.files import json_text

_INFORMATION_NAMES = {
    "channel": "h",
    "backlog": "n",
    "learner": "learner",
    "rates": "true rates",
    "statistics": "chances",
}
# Headings and formats of metrics that need no interval in a narrow table.
_COMPACT = {
    "delivered_share": ("delivered", "{:.1%}"), "jain": ("Jain", "{:.2f}"), "mean_age": ("age", "{:.1f}"),
    "worst_age": ("worst", "{:.0f}"), "loss": ("loss", "{:.3f}"), "spikes": ("spikes", "{:.1f}"),
}  # fmt: skip
_NOT_LEARNT = ("score", "mean_age", "worst_age")  # left out where there is an accuracy to show


def print_json(content: Any) -> None:
    """JSON and nothing else on standard output."""
    print(json_text(content))


def console() -> Console:
    """Standard output; piped to a file there is no terminal to fit into, so tables take their own width."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=160)


@contextmanager
def progress(label: str, rounds: int) -> Iterator[Callable[[int], None]]:
    """A bar over the rounds of one run, with the time left; silent when standard error is not a terminal."""
    error = Console(stderr=True)
    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds, time left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=error, transient=True, disable=not error.is_terminal) as bar:
        task = bar.add_task(label, total=rounds)
        yield lambda played: bar.update(task, advance=played)


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Say which part is being worked on; silent when standard error is not a terminal."""
    error = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn())
    with Progress(*columns, console=error, transient=True, disable=not error.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda text: bar.update(task, description=text)


def plain_rows(heading: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Table:
    """Any table of texts: the names of the first column on the left, the rest flush right."""
    out = _plain_table(title, "±: half-width of the 95 % interval over instances.")
    for place, name in enumerate(heading):
        out.add_column(name, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        out.add_row(*row)
    return out


def comparison_table(comparison: Comparison, heading: str) -> Table:
    """Mean and 95 % interval of what a schedule brings and costs, after what was learnt on it."""
    first, *others = (
        m for m in comparison.brief if "loss" not in comparison.values or m not in _NOT_LEARNT
    )
    out = _plain_table(
        heading,
        f"±: half-width of the 95 % interval over instances. vs: paired difference of the {first}. Delivered: share "
        "of the shards. Jain: fairness of uploads. Age: rounds since a device's last delivery; worst: the oldest.",
    )
    out.add_column("scheduler", no_wrap=True)
    names = (_COMPACT.get(metric, (metric, ""))[0] for metric in others)
    for name in (first, f"vs {comparison.base}", *names):
        out.add_column(name, justify="right", no_wrap=True)
    for label in comparison.schedulers:
        apart = comparison.difference(label, first)
        text = with_interval(apart.mean, apart.half_width, sign="+", most=4)
        cells = [*comparison.cells(label, [first]), "-" if label == comparison.base else text]
        for metric in others:
            mean = comparison.estimate(label, metric).mean
            compact = _COMPACT[metric][1].format(mean) if metric in _COMPACT else None
            cells.append(compact or comparison.cells(label, [metric])[0])
        out.add_row(comparison.name(label), *cells)
    return out


def scheduler_rows() -> list[dict[str, str]]:
    """The paper's information table, for every registered scheduler."""
    rows = []
    for name in registry.names("scheduler"):
        kind = registry.find("scheduler", name)
        known = [_INFORMATION_NAMES[k] for k in ("rates", "statistics") if k in kind.needs]
        seen = [_INFORMATION_NAMES[k] for k in ("channel", "backlog", "learner") if k in kind.needs]
        rows.append(
            {
                "name": name,
                "must know": ", ".join(known) or "-",
                "sees": ", ".join(seen) or "-",
                "priority": kind.formula,
                "about": (kind.__doc__ or "").strip().split("\n")[0],
            }
        )
    return rows


def scheduler_table() -> Table:
    """`fedwave schedulers`."""
    out = _plain_table(
        "Schedulers",
        "Must know: before the first round; chances: of channels and arrivals. Sees: reported every round; h "
        "channel gains, n backlogs. Every one also sees which uploads arrived, the shards they brought, and d, the "
        "rounds since. p: chance that an upload arrives; theta: arrival rate, theta_k: drawn from what is known of "
        "it, once per stage.",
    )
    for heading in ("name", "must know", "sees", "priority"):
        out.add_column(heading, no_wrap=heading != "priority")
    out.add_column("about")
    for row in scheduler_rows():
        out.add_row(*row.values())
    return out


def _plain_table(heading: str, caption: str) -> Table:
    """Few lines and little padding: eight columns must fit into a terminal of 80."""
    return Table(
        title=heading, title_justify="left", title_style="bold", caption=caption, caption_justify="left",
        box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False,
    )  # fmt: skip
