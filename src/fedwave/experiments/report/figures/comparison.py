"""Any metrics: a comparison at a glance (a row per scheduler), and round by round (a band per scheduler)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedwave.experiments.analysis.captions import sentences, title
from fedwave.experiments.analysis.randomness import Randomness, intervals_are
from fedwave.experiments.report.figures import common
from fedwave.experiments.store.dataset import Point, long_name, scheduler_labels, series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedwave.experiments.report.comparison import Comparison


def comparison_figure(comparison: Comparison, metrics: Sequence[str]) -> Figure:
    """Mean and 95 % interval over instances."""
    schedulers, looks = comparison.schedulers, common.styles(comparison.schedulers)
    found = {(s, m): comparison.estimate(s, m) for m in metrics for s in schedulers}
    figure, axes = common.figure_of(len(metrics), 3, (3.6, 1.0 + 0.28 * len(schedulers)), (0.6, 0.4))
    for axis, metric in zip(axes, metrics, strict=True):
        floor = common.floor_of(comparison.values[metric])
        for place, scheduler in enumerate(schedulers):
            one = found[scheduler, metric]
            bar = np.array([one.mean]), np.array([one.half_width])
            common.draw_bars(axis, np.array([place]), bar, looks[scheduler], floor, across=True)
        axis.set_ylim(len(schedulers) - 0.5, -0.5)  # the first on top
        common.name_ticks(axis.yaxis, [common.name_of(s) + comparison.share(found[s, metric]) for s in schedulers])
        common.label_panel(axis, "", comparison.long_names[metric], "")
    bars = "Bars: 95 % intervals over instances." if comparison.has_intervals else ""
    note = sentences(bars, comparison.left_out(*metrics), comparison.note)
    return common.finish(figure, axes[0], comparison.title, note)


def rounds_figure(point: Point, metrics: Sequence[str]) -> Figure:
    """Every metric against the round, a panel each: mean and 95 % band over instances."""
    data = point.data
    figure, axes = common.figure_of(len(metrics), 2, (5, 3.4), (1, 1))
    randomness, looks = Randomness.of(data), common.styles(scheduler_labels(data))
    for axis, metric in zip(axes, metrics, strict=True):
        common.label_panel(axis, "", "Round", long_name(data, metric))
        floor = common.floor_of(data[metric].values)
        for scheduler in scheduler_labels(data):
            values = randomness.band(series(data, scheduler, metric), metric, scheduler, skip_nan=True)
            common.draw_band(axis, values, scheduler, looks[scheduler], len(looks), floor=floor)
    some_missing = any(not np.isfinite(data[metric].values).all() for metric in metrics)
    left_out = "Instances without a number in a round are left out of it." if some_missing else ""
    return common.finish(
        figure, axes[0], title(data), sentences(intervals_are("Bands", data), left_out, randomness.note)
    )
