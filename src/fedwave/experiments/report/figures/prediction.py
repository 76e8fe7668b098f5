"""Accuracy against the useful mass so far: if the mass is what teaches, the curves of all schedulers are one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedwave.experiments.analysis.prediction_check import PredictionCheck
from fedwave.experiments.analysis.tables import with_interval
from fedwave.experiments.report.figures import common

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS, _PANEL = 3, (3.6, 2.9)  # inches


def prediction_figure(check: PredictionCheck) -> Figure:
    """A panel for every point; each line is the mean over instances of one scheduler."""
    columns = min(_COLUMNS, len(check.points))
    rows = -(-len(check.points) // columns)
    width = max(columns, 2) * _PANEL[0]
    figure, axes = common.figure_with(rows, columns, (width, rows * _PANEL[1] + 1.4))
    looks = common.styles(check.points[0].schedulers)
    for axis, point in zip(axes, check.points, strict=False):
        for s, label in enumerate(point.schedulers):
            mass = point.useful[:, s].cumsum(axis=0).mean(axis=1)
            finite = np.isfinite(point.accuracy[:, s]).all(axis=1)
            accuracy = np.where(finite, point.accuracy[:, s].mean(axis=1), np.nan)
            look = looks[label] | {"markevery": max(1, len(mass) // 6), "ms": 4, "mfc": "white"}
            axis.plot(mass, accuracy, lw=1.2, label=common.name_of(label), **look)
        found = point.correlation("useful mass")
        text = f"rank correlation {with_interval(found.mean, found.half_width, most=2)}"
        axis.text(0.97, 0.04, text, transform=axis.transAxes, ha="right", fontsize=8.5, color="0.25")
        where = ", ".join(str(value) for value in point.where.values())  # titles have little room
        common.label_panel(axis, common.shortened(where), "Useful mass so far", "Test accuracy")
    for axis in axes[len(check.points) :]:
        axis.set_visible(False)
    caption = (
        "Lines: means over instances. Rank correlation: of the useful mass with the accuracy of the last 5 rounds, "
        "over schedulers."
    )
    return common.finish(figure, axes[0], check.name, caption)
