"""The figure of Theorem 1: measured loss, corrected and printed bounds, and where the assumptions fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import fedwave as fw
from fedwave.paper.convergence import Convergence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MEASURED, _CORRECTED, _PRINTED = "#000000", "#0072B2", "#D55E00"
_DECADES = 4  # how far above the first loss the frame reaches: what never falls leaves it


def convergence_figure(tried: Convergence, apart: Convergence) -> Figure:
    """The loss with all bounds; eps and V by round, with and without a common minimiser."""
    figure, (left, right) = fw.figures.figure_with(1, 2, (10, 4.9))
    _draw_bounds(left, tried)
    rounds = np.arange(apart.setting.rounds + 1)
    words = "measured, data of each device's own"
    left.plot(rounds, apart.gap.mean(axis=1), color="0.55", lw=1.3, ls=":", label=words)
    left.legend(frameon=False, fontsize=8, loc="upper right")
    _draw_assumptions(right, tried, apart)
    for axis in (left, right):
        axis.set_xlim(0, tried.setting.rounds)
    s = tried.setting
    title = f"U = {s.devices}, W = {s.slots}, {s.rounds:,} rounds, {s.instances:,} instances, seed {s.seed}"
    figure.suptitle(title, fontsize=10, fontweight="bold")
    figure.supxlabel(caption(tried, apart), fontsize=8, color="0.35")
    return figure


def caption(tried: Convergence, apart: Convergence) -> str:
    """What was tried, and the constants."""
    s, k = tried.setting, tried.constants
    return (
        f"Logistic regression, {s.features} features, l2 = {s.l2:g}; {s.devices} devices x {s.samples} samples, "
        f"W = {s.slots}, beta = {s.beta:g}; {s.instances:,} instances, seed {s.seed}. Thin: single instances.\n"
        f"L = {k.smoothness:.3f}, xi = {k.convexity:g}, eps = {k.alignment:.3f}, V = {k.dissimilarity:.3f}, "
        f"zeta = {k.uploads:.2f}; eta = {k.eta:.3f} (limit: corrected {k.limit:.2f}, printed {k.printed_limit:.2f}); "
        f"printed eps' = {k.printed_rate:.2f}, never positive.\n"
        f"Data of each device's own: no common minimiser, eps falls to {apart.constants.alignment:.0f}, "
        f"V rises to {apart.constants.dissimilarity:.0f}, the loss stops {apart.gap[-1].mean():.1g} above its minimum."
    )


def _draw_bounds(axis: Axes, tried: Convergence) -> None:
    rounds = np.arange(tried.setting.rounds + 1)
    # The lines from the top of the frame to its bottom: the legend reads like the figure.
    lines = (
        ("printed, second bound", tried.printed_power, _PRINTED, "-"),
        ("corrected, for the mean", tried.power, _CORRECTED, "--"),
        ("corrected, for every path", tried.product, _CORRECTED, "-"),
        ("measured", tried.gap, _MEASURED, "-"),
        ("printed, first bound", tried.printed_product, _PRINTED, "--"),
    )
    for label, values, colour, dash in lines:
        mean = values.mean(axis=1) if values.ndim == 2 else values
        if values.ndim == 2:
            axis.plot(rounds, values, color=colour, lw=0.4, alpha=0.25)
        axis.plot(rounds, mean, color=colour, linestyle=dash, lw=1.5, label=label)
    axis.set_yscale("log")
    first, last = float(tried.gap[0, 0]), float(tried.gap[-1].mean())
    axis.set_ylim(last / 30, first * 10**_DECADES)
    fw.figures.label_panel(axis, "(a) Loss above its minimum, and its bounds", "Round", "l(w) - l*")


def _draw_assumptions(axis: Axes, tried: Convergence, apart: Convergence) -> None:
    rounds = np.arange(1, tried.setting.rounds + 1)
    for result, colour, words in (
        (apart, _PRINTED, "data of each device's own"),
        (tried, _CORRECTED, "common minimiser"),
    ):
        axis.plot(rounds, result.dissimilarity, color=colour, lw=1.3, label=f"V, {words}")
        axis.plot(rounds, result.alignment, color=colour, ls="--", lw=1.3, label=f"eps, {words}")
    axis.axhline(0, color="0.6", lw=0.6, zorder=0)
    axis.set_yscale("symlog", linthresh=1)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    words = "eps must stay above 0, V finite"
    fw.figures.label_panel(axis, "(b) The eps and V that each round would need", "Round", words)
    axis.legend(frameon=False, fontsize=8, loc="upper right", bbox_to_anchor=(1, 0.47))
