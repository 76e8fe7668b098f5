"""Score and backlog by round, with bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedwave.experiments.report.figures import common
from fedwave.experiments.report.labels import sentences, title
from fedwave.experiments.report.score import score_bands
from fedwave.experiments.results.chance import Chance
from fedwave.experiments.results.container import label_of, labels, series
from fedwave.experiments.results.statistics import Band, moving_mean

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The score of a single round is mostly luck, and round-robin's jumps with its turn of five rounds.
_WINDOW = 25


def score_figure(
    data: xr.Dataset, base: str, caption: str, shown: Sequence[str] | None = None
) -> Figure:
    """Score, its running mean, the paired difference of that from ``base``, and the backlog.

    ``shown`` are schedulers of ``data``, by default all; each looks as in the figure of all.
    """
    figure, axes = common.figure_with(2, 2, (10, 7.8))
    score, backlog = label_of(data, "score"), label_of(data, "backlog")
    window = max(1, min(_WINDOW, data.sizes["round"] // 5))
    bold = f"; bold: mean of {window} rounds" if window > 1 else ""
    common.label_panel(axes[0], f"(a) {score}{bold}", "Round", score)
    running = f"{score}, mean so far"
    common.label_panel(axes[1], f"(b) {running}", "Round", running)
    apart = f"Difference from {common.name_of(base)}"
    common.label_panel(axes[2], "(c) Paired difference of (b)", "Round", apart)
    common.label_panel(axes[3], f"(d) {backlog}", "Round", backlog)
    looks, chance = common.styles(labels(data)), Chance.of(data)
    chosen = labels(data) if shown is None else shown
    found = {label: score_bands(data, label, base) for label in chosen}
    for label, bands in found.items():
        recent = moving_mean(series(data, label, "score"), window)
        mean, look = bands["score"][0], looks[label]
        rounds = np.arange(1, len(mean) + 1)
        axes[0].plot(rounds, mean, lw=0.5, alpha=0.22, color=look["color"])
        smooth = chance.band(recent, "score", label)
        common.draw_band(
            axes[0], smooth, label, look, len(chosen), first=1 + len(mean) - len(recent)
        )
        for axis, name in zip(axes[1:], ("running", "running_difference", "backlog"), strict=True):
            floor = 0.0 if name == "backlog" else None
            common.draw_band(axis, bands[name], label, look, len(chosen), floor=floor)
    note = _frame(axes, found)
    return common.finish(figure, axes[1], title(data), sentences(caption, note))


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
    axes[2].set_yscale("symlog", linthresh=0.1)
    axes[2].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes[2].axhline(0, color="0.6", lw=0.6, zorder=0)
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
