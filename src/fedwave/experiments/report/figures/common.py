"""What all figures share: styles of schedulers, panels, legends, files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from fedwave.experiments.results.statistics import Band
from fedwave.files import write_whole
from fedwave.schedulers.base import PAPER_SCHEDULERS
from fedwave.schedulers.base import scheduler_names as names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Figure

# Okabe and Ito's colours can be told apart by colour-blind readers; a dash pattern helps in print.
_COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES = ("-", "--", "-.", ":")
_NAMES = {
    "bench": "Bench", "alsa-pi": "ALSA-PI", "balsa": "BALSA", "balsa-po": "BALSA-PO", "round-robin": "RR",
    "w-max": "W-max",
}  # fmt: skip


def name_of(scheduler: str) -> str:
    """A scheduler as the paper writes it."""
    return _NAMES.get(scheduler, scheduler)


def style_of(scheduler: str) -> dict[str, Any]:
    """Colour and dash of a scheduler, the same in every figure; the first 28 registered differ."""
    known = [*PAPER_SCHEDULERS, *(n for n in names() if n not in PAPER_SCHEDULERS)]
    position = known.index(scheduler) if scheduler in known else len(known)
    dash = _DASHES[(position // len(_COLOURS)) % len(_DASHES)]
    return {"color": _COLOURS[position % len(_COLOURS)], "linestyle": dash}


def figure_with(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def draw_band(axis: Axes, band: Band, scheduler: str, first: int = 1) -> None:
    """Mean and 95 % interval by round, from round ``first`` on."""
    style, (mean, half) = style_of(scheduler), band
    rounds = np.arange(first, first + len(mean))
    axis.set_xlim(1, max(2, rounds[-1]))
    axis.fill_between(rounds, mean - half, mean + half, color=style["color"], alpha=0.15, lw=0)
    axis.plot(rounds, mean, lw=1.3, label=name_of(scheduler), **style)


def label_panel(axis: Axes, title: str, x: str, y: str) -> None:
    """Title, labels and a light grid."""
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.grid(alpha=0.3, lw=0.5)
    axis.spines[["top", "right"]].set_visible(False)


def finish(
    figure: Figure, axis: Axes, caption: str, columns: int = 6, colour: str = "0.35"
) -> Figure:
    """Put the legend of ``axis`` above the panels and the caption below them."""
    handles, texts = axis.get_legend_handles_labels()
    figure.legend(
        handles, texts, loc="outside upper center", ncols=min(columns, len(texts) or 1), frameon=False, fontsize=9
    )  # fmt: skip
    figure.supxlabel(caption, fontsize=8, color=colour)
    return figure


def listed(what: str, schedulers: Sequence[str]) -> str:
    """A sentence that names schedulers; nothing if there are none."""
    return f"{what}: {', '.join(name_of(k) for k in schedulers)}." if schedulers else ""


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG: the same results give the same bytes."""
    from matplotlib import rc_context

    def save(file: IO[bytes], ending: str) -> None:
        about: dict[str, Any] = {"Date": None} if ending == "svg" else {}
        with rc_context({"svg.hashsalt": "fedwave"}):  # or names inside it are drawn at random
            figure.savefig(file, format=ending, dpi=160, metadata=about)

    return [
        write_whole(stem.with_suffix(f".{ending}"), partial(save, ending=ending))
        for ending in ("png", "svg")
    ]
