"""The table and the figure, from the file of a measurement: `python -m benchmarks.peers.report FILE.json`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.errors import plural
from fedwave.experiments.analysis.tables import markdown
from fedwave.experiments.report.figures.common import figure_with, wrapped, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Content = Mapping[str, Any]  # of the JSON file, or of a part of it
# The cells of a contender, by column.
CELLS: dict[str, Callable[[Content], str]] = {
    "times plain PyTorch": lambda way: "{median} ({least} to {most})".format(
        **{key: ratio_text(value) for key, value in way["times_plain"].items()}
    ),
    "rounds/s": lambda way: ratio_text(way["rounds_per_second"]["median"]),
    "samples/s": lambda way: f"{way['samples_per_second']['median']:,.0f}",
    "memory": lambda way: "-" if way["memory_bytes"] is None else f"{way['memory_bytes'] / 2**20:,.0f} MiB",
}
_WIDE = 50  # times as fast: from here on the axis is logarithmic
_OURS, _PLAIN, _OTHERS = "#0072B2", "#555555", "#B8B8B8"
_WIDTH, _BAR, _AROUND = (8.0, 0.42, 0.75)  # inches: of the figure, for a bar, and around the bars of a panel


def main() -> None:
    """Prints the table and draws the figure."""
    asked = argparse.ArgumentParser(prog="python -m benchmarks.peers.report", description=__doc__)
    asked.add_argument("file", type=Path, help="of python -m benchmarks.peers; the figure is written beside it")
    print(write_report(asked.parse_args().file))


def write_report(path: Path) -> str:
    """Draws the figure beside the file of a measurement (.png instead of .json); returns the tables."""
    content = json.loads(path.read_text())
    write_figure(speed_figure(content), path.with_suffix(".png"))
    lines = [work_of(content)]
    for section in content["sections"]:
        missing = [way for way in section["ways"] if not way["available"]]
        lines += ["", _title(content, section), "", speed_table(section)]
        lines += [f"{way['label']} is unavailable: {way['why']}." for way in missing]
    return "\n".join(lines)


def speed_table(section: Content) -> str:
    """A row for every contender that is available, in Markdown."""
    ways = [way for way in section["ways"] if way["available"]]
    return markdown(["", *CELLS], [[way["label"], *(cell(way) for cell in CELLS.values())] for way in ways])


def work_of(content: Content) -> str:
    """The work and its measurement in a few sentences."""
    work, how = content["work"], content["measurement"]
    repeats = f"{plural(how['repeats'], 'repeat')} of {plural(how['rounds_a_repeat'], 'round')}"
    return (
        f"The paper's round on {work['dataset']}: {work['clients']} clients, "
        f"{work['scheduled_per_round']:.0f} scheduled, batch {work['batch']}, {work['epochs']} local epochs, "
        f"{work['samples_per_round']:,.0f} samples in a mean round. Median of {repeats} in turns, after a warm-up, "
        "without evaluation. The same clients train on the same batches in every way; skipping leaves out training "
        "that weighs a millionth or less when it is delivered."
    )


def ratio_text(ratio: float) -> str:
    """A ratio with three digits or so.

    >>> ratio_text(0.968), ratio_text(65.52), ratio_text(2164.6)
    ('0.97', '65.5', '2,165')
    """
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}" if ratio < 100 else f"{ratio:,.0f}"


def _title(content: Content, section: Content) -> str:
    machine = content["machine"]
    if section["device"] == "cuda":
        return f"{machine['gpu']}"
    return f"{machine['processor']}, {plural(section['threads'], 'core')}"


def speed_figure(content: Content) -> Figure:
    """A panel for every section, a bar for every contender; plain PyTorch is 1."""
    sections = content["sections"]
    bars = sum(len(section["ways"]) for section in sections)
    size = (_WIDTH, _BAR * bars + _AROUND * len(sections) + 0.8)
    figure, axes = figure_with(len(sections), 1, size)
    most = [max(way["times_plain"]["most"] for way in one["ways"] if way["available"]) for one in sections]
    # One scale, so that bars of different panels can be compared by eye; not where one would dwarf the others.
    common = max((value for value in most if value < _WIDE), default=0.0)
    for axis, section, mine in zip(axes, sections, most, strict=True):
        _panel(axis, _title(content, section), section["ways"], max(mine, common))
    axes[-1].set_xlabel("Speed on the same rounds, plain PyTorch = 1")
    figure.supxlabel(wrapped(work_of(content), _WIDTH), fontsize=7.5, color="0.35")
    return figure


def _panel(axis: Axes, title: str, ways: Sequence[Content], longest: float) -> None:
    for place, way in enumerate(ways):
        if way["available"]:
            _bar(axis, place, way, longest)
        else:
            axis.text(0.01 * longest, place, "unavailable", va="center", fontsize=8.5, color="0.5")
    axis.axvline(1, color="0.4", lw=0.8, ls=(0, (4, 3)), zorder=0)
    axis.set_yticks(range(len(ways)), [way["label"] for way in ways])
    axis.invert_yaxis()
    if longest < _WIDE:
        axis.set_xlim(0, 1.45 * longest)
    else:  # else bars of different orders could not be told apart
        axis.set_xscale("log")
        axis.set_xlim(0.5, longest**1.6)
    axis.xaxis.set_major_formatter("{x:,g}")
    axis.set_title(title, loc="left", fontsize=10, weight="bold")
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0, labelsize=10)
    axis.grid(axis="x", alpha=0.3, lw=0.5)
    axis.set_axisbelow(True)


def _bar(axis: Axes, place: int, way: Content, longest: float) -> None:
    """The median with whiskers from the smallest to the largest repeat, and its numbers beside them."""
    ratio, rate, plain = (way["times_plain"], way["samples_per_second"]["median"], way["name"] == "plain")
    colour = _OURS if way["name"].startswith("fedwave") else _PLAIN if plain else _OTHERS
    axis.barh(place, ratio["median"], height=0.68, color=colour)
    if not plain:
        reach = [[ratio["median"] - ratio["least"]], [ratio["most"] - ratio["median"]]]
        axis.errorbar(ratio["median"], place, xerr=reach, color="black", lw=0.9, capsize=2.5)
    right = ratio["most"] + 0.015 * longest if longest < _WIDE else 1.1 * ratio["most"]
    at = (right, place)
    number = axis.text(*at, f"{ratio_text(ratio['median'])} \u00d7", va="center", fontsize=10, weight="bold")
    number.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})  # over the line at 1
    # Beside the number, however long it is.
    axis.annotate(f"  {rate:,.0f} samples/s", (1, 0.5), xycoords=number, va="center", fontsize=8.5, color="0.35")


if __name__ == "__main__":
    main()
