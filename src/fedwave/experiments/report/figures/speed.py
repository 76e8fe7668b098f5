"""How fast ways to play the same rounds are: a bar for each, plain PyTorch is 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.experiments.report.figures.common import figure_with, wrapped, write_figure
from fedwave.plain_text import ratio_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDE = 50  # times as fast: from here on the axis is logarithmic
Ways = Sequence[Mapping[str, Any]]  # as in the JSON of `fedwave bench`
_OURS, _PLAIN, _OTHERS = "#0072B2", "#555555", "#B8B8B8"
_WIDTH, _BAR, _AROUND = (8.0, 0.42, 0.75)  # inches: of the figure, for a bar, and around the bars of a panel


def write_speeds(panels: Mapping[str, Ways], caption: str, path: Path) -> Path:
    """Draw the ways of every panel, by its title; the ending of the path says how."""
    bars = sum(len(ways) for ways in panels.values())
    size = (_WIDTH, _BAR * bars + _AROUND * len(panels) + 0.8)
    figure, axes = figure_with(len(panels), 1, size)
    most = [_most(ways) for ways in panels.values()]
    # One scale, so that bars of different panels can be compared by eye; not where one would dwarf the others.
    common = max((value for value in most if value < _WIDE), default=0.0)
    for axis, (title, ways), mine in zip(axes, panels.items(), most, strict=True):
        _panel(axis, title, ways, max(mine, common))
    axes[-1].set_xlabel("Speed on the same rounds, plain PyTorch = 1")
    figure.supxlabel(wrapped(caption, _WIDTH), fontsize=7.5, color="0.35")
    return write_figure(figure, path)


def _most(ways: Ways) -> float:
    return max(float(way["times_plain"]["most"]) for way in ways if way["available"])


def _panel(axis: Axes, title: str, ways: Ways, longest: float) -> None:
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


def _bar(axis: Axes, place: int, way: Mapping[str, Any], longest: float) -> None:
    """The median with whiskers from the smallest to the largest repeat, and its numbers behind them."""
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
    # Behind the number, however long it is.
    axis.annotate(f"  {rate:,.0f} samples/s", (1, 0.5), xycoords=number, va="center", fontsize=8.5, color="0.35")
