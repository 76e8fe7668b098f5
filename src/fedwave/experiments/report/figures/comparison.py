"""Any metrics: a comparison at a glance (a row per scheduler), and round by round (a band per scheduler)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.analysis.labels import sentences, title
from fedwave.experiments.analysis.randomness import Randomness, caption
from fedwave.experiments.report.figures import common
from fedwave.experiments.store.dataset import Point, metric_title, scheduler_labels, series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedwave.experiments.report.comparison import Comparison


def comparison_figure(comparison: Comparison, metrics: Sequence[str]) -> Figure:
    """Mean and 95 % interval over instances."""
    for metric in metrics:
        if metric not in comparison.values:
            raise FedwaveError(
                f"there is no metric {metric!r} in this comparison; {did_you_mean(metric, comparison.metrics)}"
            )
    schedulers, looks = comparison.schedulers, common.styles(comparison.schedulers)
    rows = math.ceil(len(metrics) / 3)
    size = (3.6 * min(3, len(metrics)) + 0.6, rows * (1.0 + 0.28 * len(schedulers)) + 0.4)
    figure, axes = common.figure_with(rows, min(3, len(metrics)), size)
    for axis in axes[len(metrics) :]:
        axis.remove()
    for axis, metric in zip(axes, metrics, strict=False):
        floor = common.floor_of(comparison.values[metric])
        for place, scheduler in enumerate(schedulers):
            found, look = comparison.estimate(scheduler, metric), looks[scheduler]
            ends = common.errors(np.array([found.mean]), np.array([found.half_width]), floor)
            mark = {"marker": look["marker"], "color": look["color"], "linestyle": "none"}
            axis.errorbar([found.mean], [place], xerr=ends, ms=5, capsize=2, **mark)
        axis.set_ylim(len(schedulers) - 0.5, -0.5)  # the first on top
        names = [common.name_of(s) + comparison.share(comparison.estimate(s, metric)) for s in schedulers]
        common.name_ticks(axis.yaxis, names)
        common.label_panel(axis, "", comparison.labels[metric], "")
    width = figure.get_figwidth()
    figure.suptitle(common.wrapped(comparison.title, 0.75 * width), fontsize=10, fontweight="bold")
    bars = "Bars: 95 % intervals over instances." if comparison.has_intervals else ""
    left_out = comparison.left_out(*metrics)
    note = common.wrapped(sentences(bars, left_out, comparison.note), width)
    figure.supxlabel(note, fontsize=8, color="0.35")
    return figure


def rounds_figure(point: Point, metrics: Sequence[str]) -> Figure:
    """Every metric against the round, a panel each: mean and 95 % band over instances."""
    columns = min(2, len(metrics))
    rows = math.ceil(len(metrics) / columns)
    figure, axes = common.figure_with(rows, columns, (5 * columns + 1, 3.4 * rows + 1.0))
    for axis in axes[len(metrics) :]:
        axis.remove()
    randomness, looks = Randomness.of(point.data), common.styles(scheduler_labels(point.data))
    floors = common.floors(point.data, metrics)
    for axis, metric in zip(axes, metrics, strict=False):
        common.label_panel(axis, "", "Round", metric_title(point.data, metric))
        for scheduler in scheduler_labels(point.data):
            values = randomness.band(series(point.data, scheduler, metric), metric, scheduler, skip_nan=True)
            common.draw_band(axis, values, scheduler, looks[scheduler], len(looks), floor=floors[metric])
    some_missing = any(not np.isfinite(point.data[metric].values).all() for metric in metrics)
    left_out = "Instances without a number in a round are left out of it." if some_missing else ""
    text = sentences(caption("Bands", point.data), left_out, randomness.note)
    return common.finish(figure, axes[0], title(point.data), text)
