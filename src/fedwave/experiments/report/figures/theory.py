"""Figures of theory against practice: the map of greedy's gap, and decision times against the number of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedwave.experiments.report.figures import common
from fedwave.experiments.report.theory import DecisionTime, GapMap

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def gap_figure(found: GapMap) -> Figure:
    """A map: the rate of the second device to the right, the channel upwards, the gap as colour and number."""
    figure, (axes,) = common.figure_with(1, 1, (8.4, 5.0))
    percent = 100 * found.gap
    image = axes.imshow(percent, origin="lower", cmap="YlOrBr", vmin=0, aspect="auto")
    for (i, j), value in np.ndenumerate(percent):
        colour = "white" if value > 0.6 * percent.max() else "0.15"
        axes.text(j, i, f"{value:.1f}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(found.rates)), [f"{rate:g}" for rate in found.rates])
    names = [" or ".join(f"{p:g}" for p in sorted(set(levels))) for levels in found.levels]
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("Rate of the second device (the first has 1)")
    axes.set_ylabel("Success probability, equally likely")
    axes.set_title("Greedy's backlog above the optimum, %", loc="left", fontsize=10)
    figure.colorbar(image, ax=axes, label="%")
    note = "U = 2, W = 1, Poisson arrivals; both exact (relative value iteration)."
    figure.supxlabel(note, fontsize=8, color="0.35")
    return figure


def times_figure(times: Sequence[DecisionTime]) -> Figure:
    """The complexity table made real: seconds of a decision against U, first and later ones."""
    figure, (left, right) = common.figure_with(1, 2, (10, 4.6))
    names = list(dict.fromkeys(t.scheduler for t in times))
    looks = common.styles(names)
    for name in names:
        mine = [t for t in times if t.scheduler == name]
        sizes = [t.devices for t in mine]
        for axis, values in ((left, [t.later for t in mine]), (right, [t.first for t in mine])):
            look = {**looks[name], "label": common.name_of(name)}
            axis.plot(sizes, values, ms=3.5, lw=1.2, **look)
    for axis, title in (
        (left, "(a) A decision, per instance"),
        (right, "(b) The first one, with what is solved before"),
    ):
        axis.set_xscale("log")
        axis.set_yscale("log")
        common.label_panel(axis, title, "Devices U", "Seconds")
        common.plain_numbers(axis.xaxis)
    note = "One core. A line that ends: the scheduler refuses larger networks."
    return common.finish(figure, left, "Random networks, W = U / 5, γ = 0.01", note)
