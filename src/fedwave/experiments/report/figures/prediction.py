"""Accuracy against the useful mass so far: if the mass is what teaches, the curves of all schedulers are one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedwave.experiments.analysis.prediction_check import PredictionCheck
from fedwave.experiments.analysis.tables import with_interval
from fedwave.experiments.report.figures import common

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def prediction_figure(check: PredictionCheck) -> Figure:
    """A panel for every point; each line is the mean over instances of one scheduler."""
    figure, axes = common.figure_of(len(check.points), 3, (3.6, 2.9), (0.4, 1.4))
    looks = common.styles(check.points[0].schedulers)
    for axis, point in zip(axes, check.points, strict=True):
        for s, label in enumerate(point.schedulers):
            mass = point.useful[:, s].cumsum(axis=0).mean(axis=1)
            accuracy = point.accuracy[:, s].mean(axis=1)  # NaN, and so a gap, where an instance diverged
            common.draw_line(axis, accuracy, looks[label], mass, label=common.name_of(label))
        found = point.correlation("useful mass")
        text = f"rank correlation {with_interval(found.mean, found.half_width, most=2)}"
        axis.text(0.97, 0.04, text, transform=axis.transAxes, ha="right", fontsize=8.5, color="0.25")
        where = ", ".join(str(value) for value in point.where.values())  # titles have little room
        common.label_panel(axis, common.shortened(where), "Useful mass so far", "Test accuracy")
    caption = (
        "Lines: means over instances. Rank correlation: of the useful mass with the accuracy of the last 5 rounds, "
        "over schedulers."
    )
    return common.finish(figure, axes[0], check.name, caption)
