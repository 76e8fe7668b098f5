"""Any metrics: a comparison at a glance (a row per scheduler), and round by round (a band per scheduler)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.report.figures.common import (
    draw_band,
    figure_with,
    finish,
    label_panel,
    name_of,
    style_of,
)
from fedwave.experiments.results.container import Point, label_of, labels, series
from fedwave.experiments.results.statistics import band

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


def rounds_figure(point: Point, metrics: Sequence[str]) -> Figure:
    """Every metric against the round, a panel each: mean and 95 % band over instances."""
    columns = min(2, len(metrics))
    rows = math.ceil(len(metrics) / columns)
    figure, axes = figure_with(rows, columns, (5 * columns, 3.4 * rows + 0.8))
    for axis in axes[len(metrics) :]:
        axis.remove()
    for axis, metric in zip(axes, metrics, strict=False):
        label_panel(axis, "", "Round", label_of(point.data, metric))
        for scheduler in labels(point.data):
            values = band(series(point.data, scheduler, metric), skip_nan=True)
            draw_band(axis, values, scheduler)
    how = point.experiment
    caption = f"{how.instances} instances, seed {how.seed}; bands: 95 % intervals over instances."
    return finish(figure, axes[0], caption, columns=2 * columns)
