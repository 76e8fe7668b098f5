"""Shared by all figures, in this order: names and looks of schedulers, panels, marks, axes, captions, files.

A figure is ``figure_with`` or ``figure_of``, then for each panel ``label_panel`` and ``draw_line``, ``draw_band`` or
``draw_bars`` in the looks of ``styles``, then ``finish``. ``save_figure`` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from fedwave.experiments.analysis.statistics import Band
from fedwave.files.writing import write_whole
from fedwave.parts.registry import built_in
from fedwave.plain_text import visible
from fedwave.schedulers.base import PAPER_SCHEDULERS
from fedwave.types import Array, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Figure

Look = dict[str, Any]  # colour, dashes and marker
# Okabe and Ito's colours can be told apart by colour-blind readers; dashes and markers help in print.
_COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES: tuple[Any, ...] = ("-", "--", ":", (0, (6, 1.5, 1, 1.5)))
_MARKERS = "os^DvPX<>*phd"
_LOOKS = len(_COLOURS) * len(_DASHES) * len(_MARKERS)  # the numbers have no common factor: all differ
_NAMES = {
    "bench": "Bench",
    "alsa-pi": "ALSA-PI",
    "balsa": "BALSA",
    "balsa-po": "BALSA-PO",
    "round-robin": "RR",
    "w-max": "W-max",
}
# The formats of figures, each with the metadata that keeps the date out of the file.
ENDINGS: dict[str, dict[str, Any]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
_MARKS = 8  # on a line of many rounds
_IN_A_ROW = 6  # names in a row of a legend
_LONGEST_NAME = 60  # letters of a name in a legend or beside an axis
_DODGE = 0.7  # how much of the room of a category its points take


def name_of(scheduler: str) -> str:
    """A scheduler as the paper writes it, or as a legend has room for it."""
    name = _NAMES.get(scheduler, shortened(scheduler))
    return f" {name}" if name.startswith("_") else name  # matplotlib hides names that begin with _


def shortened(name: str) -> str:
    """A name that leaves room for a figure."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def naming(what: str, schedulers: Sequence[str]) -> str:
    """A sentence that names schedulers; nothing if there are none."""
    return f"{what}: {', '.join(map(name_of, schedulers))}." if schedulers else ""


def styles(schedulers: Sequence[str]) -> dict[str, Look]:
    """A look for every scheduler of a run: no two are alike.

    Those of the paper always have the same look. Any other one gets a look that is free, in a colour that few others
    have: it depends on the schedulers of the run alone, and is the same in all its figures.
    """
    known = [*PAPER_SCHEDULERS, *(n for n in built_in("scheduler") if n not in PAPER_SCHEDULERS)]
    taken = {label: known.index(label) for label in schedulers if label in PAPER_SCHEDULERS}
    for label in (label for label in schedulers if label not in taken):
        usual = known.index(label) if label in known else None
        used = [place % len(_COLOURS) for place in taken.values()]

        def cost(place: int, used: list[int] = used, usual: int | None = usual) -> tuple[Any, ...]:
            # Colours first, then the usual look, then the simplest dashes; black belongs to Bench.
            return used.count(place % len(_COLOURS)), place != usual, place == 0, place

        taken[label] = min(set(range(_LOOKS)) - set(taken.values()), key=cost)
    return {label: _look(taken[label]) for label in schedulers}


def _look(place: int) -> Look:
    return {
        "color": _COLOURS[place % len(_COLOURS)],
        "linestyle": _DASHES[place // len(_COLOURS) % len(_DASHES)],
        "marker": _MARKERS[place % len(_MARKERS)],
    }


def figure_with(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, row by row. Names on it are drawn as they are."""
    from fedwave.experiments.report.figures.literal import LiteralFigure

    figure = LiteralFigure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def figure_of(
    count: int, most: int, panel: tuple[float, float], around: tuple[float, float]
) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` panels, at most ``most`` in a row; sizes in inches, ``around`` is that of all the rest."""
    columns = min(most, count)
    rows = -(-count // columns)
    figure, axes = figure_with(rows, columns, (columns * panel[0] + around[0], rows * panel[1] + around[1]))
    for axis in axes[count:]:
        axis.remove()
    return figure, axes[:count]


def label_panel(axis: Axes, title: str, x: str, y: str) -> None:
    """Title, labels and a light grid; rounds are whole numbers."""
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.grid(alpha=0.3, lw=0.5)
    axis.spines[["top", "right"]].set_visible(False)
    if x == "Round" and axis.get_xscale() == "linear":
        whole_numbers(axis.xaxis)


def draw_line(axis: Axes, values: FloatArray, look: Look, x: FloatArray | None = None, **more: Any) -> None:
    """A line by round, or against ``x``.

    It has a few markers, those of each scheduler at other places: they do not hide each other.
    """
    step = max(1, len(values) // _MARKS)
    shift = _MARKERS.index(look["marker"]) * step // len(_MARKERS)
    marks = {"markevery": (shift, step), "ms": 4, "mew": 0.6, "mfc": "white"}
    rounds = np.arange(1, len(values) + 1)
    axis.plot(rounds if x is None else x, values, **{"lw": 1.3, **marks, **look, **more})
    if x is None:
        axis.set_xlim(1, max(2, len(values)))


def draw_band(
    axis: Axes,
    band: Band,
    scheduler: str,
    look: Look,
    beside: int = 1,
    x: FloatArray | None = None,
    floor: float | None = None,
    **more: Any,
) -> None:
    """Mean and 95 % interval by round, or against ``x``; the interval ends at ``floor``.

    ``beside`` is the number of bands in the panel: of many, each is fainter, so that they do not hide the lines.
    """
    mean, half = band
    low = mean - half if floor is None else np.maximum(mean - half, floor)
    haze = max(0.04, min(0.15, 0.9 / beside))
    rounds = np.arange(1, len(mean) + 1)
    axis.fill_between(rounds if x is None else x, low, mean + half, color=look["color"], alpha=haze, lw=0)
    draw_line(axis, mean, look, x, **{"label": name_of(scheduler), **more})


def draw_bars(
    axis: Axes,
    places: FloatArray,
    band: Band,
    look: Look,
    floor: float | None = None,
    across: bool = False,
    **more: Any,
) -> None:
    """Means with the bars of their intervals, which end at ``floor``; ``across``: bars to the side, not upwards."""
    mean, half = band
    low = half if floor is None else np.minimum(half, np.maximum(mean - floor, 0))
    ends = np.nan_to_num(np.stack([low, half]))
    data = {"x": mean, "y": places, "xerr": ends} if across else {"x": places, "y": mean, "yerr": ends}
    axis.errorbar(**data, **{**look, "linestyle": "none", "ms": 4.5, "elinewidth": 1, "capsize": 2, **more})


def dodged(places: FloatArray, number: int, count: int) -> FloatArray:
    """The places of one of several schedulers whose points stand side by side in each category."""
    return places + _DODGE * ((number + 0.5) / count - 0.5)


def floor_of(values: Array) -> float | None:
    """0 for values that are never negative, such as counts and shares: no interval extends below it."""
    finite = values[np.isfinite(values)]
    return 0.0 if finite.size and finite.min() >= 0 else None


def name_ticks(axis: Axis, names: Sequence[str], turned: float = 0) -> None:
    """A name at each of the places 0, 1, ..., turned by ``turned`` degrees."""
    how: dict[str, Any] = {"rotation": turned, "ha": "right", "rotation_mode": "anchor"} if turned else {}
    axis.set_ticks(range(len(names)), [shortened(visible(name)) for name in names], **how)


def whole_numbers(axis: Axis) -> None:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def plain_numbers(axis: Axis) -> None:
    """Label a logarithmic axis whose limits are set: 1, 2, 5, 10, ..., or powers of ten if it spans many."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    if high < 6 * low:  # 1, 2, 5, 10 would be too few
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    else:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 2000 * low else (1,)))
    axis.set_major_formatter(lambda value, _: f"{value:,.12g}")
    axis.set_minor_formatter(NullFormatter())


def finish(figure: Figure, axis: Axes, title: str, caption: str, colour: str = "0.35") -> Figure:
    """Put title and legend of ``axis`` above the panels, where they hide nothing, and the caption below them."""
    handles, texts = axis.get_legend_handles_labels()
    longest, width = max(map(len, texts), default=1), figure.get_figwidth()
    room = int(width * 13 / (longest + 6))  # letters of this size on an inch
    legend = figure.legend(
        handles,
        texts,
        loc="outside upper center",
        ncols=max(1, min(_IN_A_ROW, room, len(texts))),
        frameon=False,
        fontsize=9,
        handlelength=3,
        title=wrapped(title, 0.75 * width),
        title_fontsize=10,
    )
    legend.get_title().set_fontweight("bold")
    # Constrained layout knows nothing of a caption's width: break long lines.
    figure.supxlabel(wrapped(caption, width), fontsize=8, color=colour)
    return figure


def wrapped(caption: str, width: float) -> str:
    """A caption in lines that fit under a figure of this width in inches."""
    from textwrap import wrap

    lines = (wrap(line, int(17 * width)) for line in caption.splitlines())
    return "\n".join("\n".join(line) for line in lines)


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG."""
    return [write_figure(figure, stem.with_suffix(ending)) for ending in (".png", ".svg")]


def write_figure(figure: Figure, path: Path) -> Path:
    """Write a figure; the ending of the path says how (``ENDINGS``). The same results give the same bytes."""
    from matplotlib import rc_context

    def save(file: IO[bytes]) -> None:
        with rc_context({"svg.hashsalt": "fedwave"}):  # or names inside it are drawn at random
            about = ENDINGS[path.suffix]
            figure.savefig(file, format=path.suffix[1:], dpi=160, metadata=about)

    return write_whole(path, save)
