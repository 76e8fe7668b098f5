"""What was measured as a figure: a bar for every way, plain PyTorch is 1."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fedwave.bench.table import title_of, work_of
from fedwave.experiments.report.figures.common import figure_with, wrapped
from fedwave.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDINGS = (".png", ".svg", ".pdf")
_OURS, _PLAIN, _OTHERS = "#0072B2", "#555555", "#B8B8B8"
_WIDTH, _BAR, _AROUND = (
    8.0,
    0.42,
    1.15,
)  # inches: of the figure, for a bar, and around the bars of a panel


def write_figure(content: Mapping[str, Any], path: Path) -> Path:
    """A panel for every section."""
    from matplotlib import rc_context

    sections = content["sections"]
    bars = sum(len(section["ways"]) for section in sections)
    size = (_WIDTH, _BAR * bars + _AROUND * len(sections) + 0.5)
    figure, panels = figure_with(len(sections), 1, size)
    for axis, section in zip(panels, sections, strict=True):
        _panel(axis, content, section)
    panels[-1].set_xlabel("Rounds of the same experiment a second, plain PyTorch = 1")
    figure.supxlabel(wrapped(work_of(content), _WIDTH), fontsize=7.5, color="0.35")

    def save(file: IO[bytes], ending: str) -> None:
        dates = {
            "png": {},
            "svg": {"Date": None},
            "pdf": {"CreationDate": None},
        }  # no time in the file
        with rc_context({"svg.hashsalt": "fedwave"}):
            figure.savefig(file, format=ending, dpi=160, metadata=dates[ending])

    return write_whole(path, partial(save, ending=path.suffix[1:]))


def _panel(axis: Axes, content: Mapping[str, Any], section: Mapping[str, Any]) -> None:
    ways = section["ways"]
    longest = max(way["times_plain"]["most"] for way in ways if way["available"])
    for place, way in enumerate(ways):
        if not way["available"]:
            axis.text(0.01 * longest, place, "unavailable", va="center", fontsize=8.5, color="0.5")
            continue
        ratio, rate = way["times_plain"], way["samples_per_second"]["median"]
        ours, plain = way["name"].startswith("fedwave"), way["name"] == "plain"
        colour = _OURS if ours else _PLAIN if plain else _OTHERS
        axis.barh(place, ratio["median"], height=0.68, color=colour)
        below, above = ratio["median"] - ratio["least"], ratio["most"] - ratio["median"]
        if not plain:
            axis.errorbar(
                ratio["median"], place, xerr=[[below], [above]], color="black", lw=0.9, capsize=2.5
            )  # fmt: skip
        at = ratio["most"] + 0.015 * longest
        axis.text(at, place, f"{ratio['median']:.2f} x", va="center", fontsize=10, weight="bold")
        axis.annotate(
            f"{rate:,.0f} samples/s", (at, place), (42, 0), textcoords="offset points", va="center", fontsize=8.5,
            color="0.35",
        )  # fmt: skip
    axis.axvline(1, color="0.4", lw=0.8, ls=(0, (4, 3)), zorder=0)
    axis.set_yticks(range(len(ways)), [way["label"] for way in ways])
    axis.invert_yaxis()
    axis.set_xlim(0, 1.42 * longest)
    axis.set_title(title_of(content, section), loc="left", fontsize=10, weight="bold")
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0, labelsize=10)
    axis.grid(axis="x", alpha=0.3, lw=0.5)
    axis.set_axisbelow(True)
