"""Score and backlog by round, with bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedwave.experiments.analysis.labels import sentences
from fedwave.experiments.analysis.statistics import Band
from fedwave.experiments.report.figures import common
from fedwave.experiments.report.score import Scores, window_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def score_figure(scores: Scores, caption: str, shown: Sequence[str] | None = None) -> Figure:
    """Score, its running mean, the paired difference of that from the base, and the backlog.

    ``shown`` are some of the schedulers, by default all; each looks as in the figure of all.
    """
    figure, axes = common.figure_with(2, 2, (10, 7.8))
    window = window_of(scores.rounds)
    bold = f"; bold: mean of {window} rounds" if window > 1 else ""
    common.label_panel(axes[0], f"(a) {scores.score}{bold}", "Round", scores.score)
    running = f"{scores.score}, mean so far"
    common.label_panel(axes[1], f"(b) {running}", "Round", running)
    apart = f"Difference from {common.name_of(scores.base)}"
    common.label_panel(axes[2], "(c) Paired difference of (b)", "Round", apart)
    common.label_panel(axes[3], f"(d) {scores.backlog}", "Round", scores.backlog)
    looks = common.styles(list(scores.bands))
    found = {label: scores.bands[label] for label in (scores.bands if shown is None else shown)}
    for label, bands in found.items():
        mean = bands["score"][0]
        rounds = np.arange(1, len(mean) + 1)
        axes[0].plot(rounds, mean, lw=0.5, alpha=0.22, color=looks[label]["color"])
    draw_recent(axes[0], found, looks)
    for axis, name in zip(axes[1:], ("running", "running_difference", "backlog"), strict=True):
        floor = 0.0 if name == "backlog" else None
        for label, bands in found.items():
            common.draw_band(axis, bands[name], label, looks[label], len(found), floor=floor)
    note = _frame(axes, found)
    return common.finish(figure, axes[1], scores.title, sentences(caption, note))


def draw_recent(axis: Axes, found: Mapping[str, Mapping[str, Band]], looks: Mapping[str, common.Look]) -> None:
    """The mean score of the last rounds, from the first round that has so many before it."""
    for label, bands in found.items():
        mean, half = bands["recent"]
        first = window_of(len(mean))
        common.draw_band(axis, (mean[first - 1 :], half[first - 1 :]), label, looks[label], len(found), first=first)


def scale_differences(axis: Axes) -> None:
    """Differences span orders of magnitude, and 0 is among them."""
    axis.set_yscale("symlog", linthresh=0.1)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.axhline(0, color="0.6", lw=0.6, zorder=0)


def _frame(axes: Sequence[Axes], found: Mapping[str, Mapping[str, Band]]) -> str:
    """Frame (a) and (b) on the schedulers that stay stable: one that collapses would flatten the others.

    (c) and (d) span orders of magnitude and get axes that do too. Returns what to say.
    """
    late = {s: float(bands["running"][0][-1]) for s, bands in found.items()}
    stable = [s for s in found if late[s] > max(late.values()) - 12]
    rounds = len(found[stable[0]]["score"][0])
    settled = np.concatenate([found[s]["running"][0][rounds // 5 :] for s in stable])
    low, high = float(settled.min()), float(settled.max())
    reach = max(high - low, 1e-6)
    axes[0].set_ylim(high - 40 * max(1.0, reach / 8), high + 40 * max(1.0, reach / 8))
    axes[1].set_ylim(low - 0.5 * reach, high + 0.3 * reach)
    scale_differences(axes[2])
    waiting = np.concatenate([bands["backlog"][0][rounds // 5 :] for bands in found.values()])
    empty: list[str] = []
    if (waiting > 0).any():
        axes[3].set_yscale("log")
        axes[3].set_ylim(0.5 * waiting[waiting > 0].min(), 1.5 * waiting.max())
        common.plain_numbers(axes[3].yaxis)
        empty = [s for s, bands in found.items() if not bands["backlog"][0].any()]
    return sentences(
        common.listed("Far below the frame of (a) and (b)", [s for s in found if s not in stable]),
        common.listed("Always 0 and so not in (d)", empty),
    )
