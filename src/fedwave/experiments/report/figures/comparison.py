"""A comparison at a glance: a panel per metric, a row per scheduler."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.report.figures.common import figure_with, label_panel, name_of, style_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedwave.experiments.results.comparison import Comparison


def comparison_figure(comparison: Comparison, metrics: Sequence[str]) -> Figure:
    """Mean and 95 % interval over instances."""
    for metric in metrics:
        if metric not in comparison.values:
            raise FedwaveError(
                f"there is no metric {metric!r} in this comparison; {did_you_mean(metric, comparison.metrics)}"
            )
    schedulers = comparison.schedulers
    rows = math.ceil(len(metrics) / 3)
    size = (3.6 * min(3, len(metrics)) + 0.6, rows * (1.0 + 0.28 * len(schedulers)))
    figure, axes = figure_with(rows, min(3, len(metrics)), size)
    for axis in axes[len(metrics) :]:
        axis.remove()
    for axis, metric in zip(axes, metrics, strict=False):
        for place, scheduler in enumerate(schedulers):
            found, colour = comparison.estimate(scheduler, metric), style_of(scheduler)["color"]
            half = np.nan_to_num(found.half_width)
            axis.errorbar(found.mean, place, xerr=half, fmt="o", ms=4, capsize=2, color=colour)
        axis.set_yticks(range(len(schedulers)), [name_of(s) for s in schedulers])
        axis.set_ylim(len(schedulers) - 0.5, -0.5)  # the first on top
        label_panel(axis, "", comparison.labels[metric], "")
    return figure
