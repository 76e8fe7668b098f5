"""Score and backlog by round: the paper's figure 2 with bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedwave.experiments.report.figures import common
from fedwave.experiments.report.score import score_bands
from fedwave.experiments.results.container import label_of, labels, series
from fedwave.experiments.results.statistics import Band, band, moving_mean

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The score of a single round is mostly luck, and round-robin's jumps with its turn of five rounds.
_WINDOW = 25


def score_figure(data: xr.Dataset, base: str, caption: str) -> Figure:
    """Score, its running mean, the paired difference of that from ``base``, and the backlog."""
    figure, axes = common.figure_with(2, 2, (10, 7.6))
    score, backlog = label_of(data, "score"), label_of(data, "backlog")
    common.label_panel(axes[0], f"(a) {score}; bold: mean of {_WINDOW} rounds", "Round", score)
    common.label_panel(axes[1], f"(b) running mean of the {score}", "Round", f"mean {score}")
    apart = f"difference from {common.name_of(base)}"
    common.label_panel(axes[2], "(c) paired difference of (b)", "Round", apart)
    common.label_panel(axes[3], f"(d) {backlog}", "Round", backlog)
    found = {label: score_bands(data, label, base) for label in labels(data)}
    for label, bands in found.items():
        recent = moving_mean(series(data, label, "score"), min(_WINDOW, data.sizes["round"]))
        mean = bands["score"][0]
        rounds = np.arange(1, len(mean) + 1)
        axes[0].plot(rounds, mean, lw=0.5, alpha=0.22, color=common.style_of(label)["color"])
        common.draw_band(axes[0], band(recent), label, first=1 + len(mean) - len(recent))
        for axis, name in zip(axes[1:], ("running", "difference", "backlog"), strict=True):
            common.draw_band(axis, bands[name], label)
    _frame(axes, found)
    return common.finish(figure, axes[1], caption)


def _frame(axes: Sequence[Axes], found: Mapping[str, Mapping[str, Band]]) -> None:
    """Frame (a) and (b) on the schedulers that stay stable: one that collapses would flatten the others.

    (c) and (d) span orders of magnitude and get axes that do too.
    """
    late = {s: float(bands["running"][0][-1]) for s, bands in found.items()}
    stable = [s for s in found if late[s] > max(late.values()) - 12]
    rounds = len(found[stable[0]]["score"][0])
    settled = np.concatenate([found[s]["running"][0][rounds // 5 :] for s in stable])
    low, high = float(settled.min()), float(settled.max())
    reach = max(high - low, 1e-6)
    axes[0].set_ylim(high - 40 * max(1.0, reach / 8), high + 40 * max(1.0, reach / 8))
    axes[1].set_ylim(low - 0.5 * reach, high + 0.3 * reach)
    fallen = [common.name_of(s) for s in found if s not in stable]
    if fallen:
        for axis in axes[:2]:
            _note(axis, f"far below: {', '.join(fallen)}")
    axes[2].set_yscale("symlog", linthresh=0.1)
    axes[2].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes[2].axhline(0, color="0.6", lw=0.6, zorder=0)
    waiting = np.concatenate([bands["backlog"][0][rounds // 5 :] for bands in found.values()])
    if (waiting > 0).any():
        axes[3].set_yscale("log")
        axes[3].yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes[3].set_ylim(0.5 * waiting[waiting > 0].min(), 1.5 * waiting.max())


def _note(axis: Axes, text: str) -> None:
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
    place = axis.transAxes
    axis.text(0.99, 0.02, text, transform=place, ha="right", fontsize=8, color="0.35", bbox=box)
