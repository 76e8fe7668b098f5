"""Figures. matplotlib is imported here and nowhere else, and only when a figure is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from fedwave.experiments.report.score import WINDOW, Band, ScoreCurves
from fedwave.files import write_whole
from fedwave.schedulers.base import PAPER_SCHEDULERS
from fedwave.schedulers.base import scheduler_names as names
from fedwave.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours can be told apart by colour-blind readers; a dash pattern helps in print.
_COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES = ("-", "--", "-.", ":")

NAMES = {
    "bench": "Bench",
    "alsa-pi": "ALSA-PI",
    "balsa": "BALSA",
    "balsa-po": "BALSA-PO",
    "round-robin": "RR",
    "w-max": "W-max",
}


def style_of(scheduler: str) -> dict[str, str]:
    """Colour and dash of a scheduler, the same in every figure; the first 28 registered differ."""
    known = [*PAPER_SCHEDULERS, *(n for n in names() if n not in PAPER_SCHEDULERS)]
    position = known.index(scheduler) if scheduler in known else len(known)
    dash = _DASHES[(position // len(_COLOURS)) % len(_DASHES)]
    return {"color": _COLOURS[position % len(_COLOURS)], "linestyle": dash}


def score_figure(curves: Mapping[str, ScoreCurves], base: str, caption: str) -> Figure:
    """Figure 2: score, its running mean, its paired difference from ``base``, and the backlog."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7.6), layout="constrained")
    axes = figure.subplots(2, 2)
    panels = (
        (
            "score",
            "Score of the round",
            f"(a) Effectivity score; bold: mean of the last {WINDOW} rounds",
        ),
        ("running", "Mean score of rounds 1 to t", "(b) Running mean of the score"),
        ("difference", f"Difference from {NAMES.get(base, base)}", "(c) Paired difference of (b)"),
        ("backlog", "Shards waiting", "(d) Backlog"),
    )
    for axis, (name, label, title) in zip(axes.flat, panels, strict=True):
        for scheduler, curve in curves.items():
            if name == "score":
                rounds = np.arange(1, len(curve.score[0]) + 1)
                axis.plot(
                    rounds, curve.score[0], lw=0.5, alpha=0.22, color=style_of(scheduler)["color"]
                )
                _draw(axis, curve.recent, scheduler, first=1 + len(rounds) - len(curve.recent[0]))
            else:
                _draw(axis, getattr(curve, name), scheduler)
        axis.set_xlabel("Round")
        axis.set_ylabel(label)
        axis.set_title(title, loc="left", fontsize=10)
        axis.grid(alpha=0.3, lw=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    _frame(axes, curves)
    handles, labels = axes.flat[1].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=min(6, len(labels)),
        frameon=False,
        fontsize=9,
    )
    figure.supxlabel(caption, fontsize=8, color="0.35")
    return figure


def _draw(axis: Axes, band: Band, scheduler: str, first: int = 1) -> None:
    style, (mean, half) = style_of(scheduler), band
    rounds = np.arange(first, first + len(mean))
    axis.set_xlim(1, max(2, rounds[-1]))
    axis.fill_between(rounds, mean - half, mean + half, color=style["color"], alpha=0.15, lw=0)
    axis.plot(rounds, mean, lw=1.3, label=NAMES.get(scheduler, scheduler), **style)  # type: ignore[arg-type]


def _frame(axes: Array, curves: Mapping[str, ScoreCurves]) -> None:
    """Frame (a) and (b) on the schedulers that stay stable: one that collapses would flatten the others.

    (c) and (d) span orders of magnitude and get axes that do too.
    """
    late = {s: float(c.running[0][-1]) for s, c in curves.items()}
    best = max(late.values())
    stable = [s for s in curves if late[s] > best - 12]
    fallen = [NAMES.get(s, s) for s in curves if s not in stable]
    rounds = len(next(iter(curves.values())).score[0])
    settled = np.concatenate([curves[s].running[0][rounds // 5 :] for s in stable])
    low, high = float(settled.min()), float(settled.max())
    reach = max(high - low, 1e-6)
    axes.flat[0].set_ylim(high - 40 * max(1.0, reach / 8), high + 40 * max(1.0, reach / 8))
    axes.flat[1].set_ylim(low - 0.5 * reach, high + 0.3 * reach)
    if fallen:
        for axis in axes.flat[:2]:
            _note(axis, f"far below: {', '.join(fallen)}")
    axes.flat[2].set_yscale("symlog", linthresh=0.1)
    axes.flat[2].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.flat[2].axhline(0, color="0.6", lw=0.6, zorder=0)
    waiting = np.concatenate([c.backlog[0][rounds // 5 :] for c in curves.values()])
    if (waiting > 0).any():
        axes.flat[3].set_yscale("log")
        axes.flat[3].yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.flat[3].set_ylim(0.5 * waiting[waiting > 0].min(), 1.5 * waiting.max())


def _note(axis: Axes, text: str) -> None:
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
    place = axis.transAxes
    axis.text(0.99, 0.02, text, transform=place, ha="right", fontsize=8, color="0.35", bbox=box)


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
