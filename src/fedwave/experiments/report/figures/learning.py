"""Learning curves, a single instance, and targets reached: the paper's figures 3, 4 and 5."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedwave.experiments.report.figures import common
from fedwave.experiments.report.learning import caption_of, is_synthetic
from fedwave.experiments.results.container import Point, curves_of, label_of, labels, series
from fedwave.experiments.results.statistics import band
from fedwave.metrics import describe
from fedwave.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedwave.learning.curves import Curves

_ENOUGH_FOR_A_BAND = 5
_SIZE = (10, 4.6)


def curves_figure(point: Point) -> Figure:
    """Training loss and test accuracy, mean and 95 % band over instances.

    The interval of two or three instances is many times as wide as their spread and would cover the figure:
    with so few, every instance is drawn instead.
    """
    few = point.experiment.instances < _ENOUGH_FOR_A_BAND
    figure, axes = _two_panels(point)
    means: list[FloatArray] = []
    for label, curves in _all_curves(point).items():
        for axis, values in zip(axes, (curves.loss, curves.accuracy), strict=True):
            mean, half = band(values, skip_nan=True)
            rounds, style = np.arange(1, len(mean) + 1), common.style_of(label)
            axis.plot(rounds, mean, lw=1.3, label=_name(label, curves), **style)
            if few:
                axis.plot(rounds, values, lw=0.5, alpha=0.5, color=style["color"])
            else:
                low, high = mean - half, mean + half
                axis.fill_between(rounds, low, high, color=style["color"], alpha=0.15, lw=0)
            means += [mean] if axis is axes[0] else []
    axes[0].set_ylim(bottom=0, top=1.05 * _largest(means))
    note = "Thin: single instances, too few for a band; bold: their mean."
    return _finish(figure, axes, point, note if few else "Bands: 95 % intervals over instances.")


def training_figure(curves: Curves) -> Figure:
    """Training loss and test accuracy of one scheduler, mean and 95 % band over instances."""
    figure, axes = common.figure_with(1, 2, _SIZE)
    rounds, instances = curves.loss.shape
    for axis, metric in zip(axes, ("loss", "accuracy"), strict=True):
        text = describe(metric).label
        common.label_panel(axis, text, "Round", text)
        common.draw_band(axis, band(curves.series[metric], skip_nan=True), curves.label)
    caption = f"{instances} instances, {rounds} rounds; bands: 95 % intervals over instances."
    return common.finish(figure, axes[0], caption)


def single_figure(point: Point) -> Figure:
    """One single instance; the legend counts spikes over all instances."""
    figure, axes = _two_panels(point)
    for label, curves in _all_curves(point).items():
        rounds, style = np.arange(1, len(curves.loss) + 1), common.style_of(label)
        name = f"{_name(label, curves)} ({curves.spikes().mean():.1f})"
        axes[0].plot(rounds, curves.loss[:, 0], lw=1.1, label=name, **style)
        axes[1].plot(rounds, curves.accuracy[:, 0], lw=1.1, **style)
    axes[0].set_ylim(bottom=0)
    note = "One instance. In brackets: spikes per instance, over all (loss above 1.2 x median of 10 rounds)."
    return _finish(figure, axes, point, note)


def targets_figure(point: Point) -> Figure:
    """Who reaches a target accuracy, and when."""
    figure, (left, right) = common.figure_with(1, 2, _SIZE)
    targets = np.array(point.experiment.targets)
    for label, curves in _all_curves(point).items():
        style = common.style_of(label)
        share = [float(curves.reaches(target).mean()) for target in targets]
        left.plot(targets, share, marker="o", ms=4, lw=1.2, label=_name(label, curves), **style)
        needed = [curves.rounds_to(target) for target in targets]  # [target][instance]
        mean = [_mean_of_finite(row) for row in needed]
        right.plot(targets, mean, marker="o", ms=4, lw=1.2, **style)
        for target, value, row in zip(targets, mean, needed, strict=True):
            never = np.count_nonzero(~np.isfinite(row))
            if 0 < never < row.size:
                right.annotate(f"{never} never", (target, value), fontsize=7, color=style["color"])
    x, y = "Target accuracy", "Mean rounds, of those that do"
    common.label_panel(left, "(a) Final accuracy beats the target", x, "Share of instances")
    common.label_panel(right, "(b) Rounds until three in a row beat it", x, y)
    left.set_ylim(-0.03, 1.03)
    right.set_ylim(bottom=0)
    right.set_xlim(left.get_xlim())
    note = "'never': instances that did not get there, left out of the mean; no point: none did."
    return _with_caption(figure, left, point, note)


def _two_panels(point: Point) -> tuple[Figure, list[Axes]]:
    figure, axes = common.figure_with(1, 2, _SIZE)
    for axis, letter, metric in zip(axes, "ab", ("loss", "accuracy"), strict=True):
        label = label_of(point.data, metric)
        common.label_panel(axis, f"({letter}) {label}", "Round", label)
    return figure, axes


def _finish(figure: Figure, axes: list[Axes], point: Point, note: str) -> Figure:
    best = _largest([series(point.data, label, "accuracy") for label in labels(point.data)])
    axes[1].set_ylim(0.0, min(1.0, best * 1.05))
    for axis in axes:
        axis.set_xlim(1, max(2, point.experiment.rounds))
    return _with_caption(figure, axes[0], point, note)


def _with_caption(figure: Figure, axis: Axes, point: Point, note: str) -> Figure:
    colour = "#B00020" if is_synthetic(point.experiment) else "0.35"
    return common.finish(figure, axis, f"{caption_of(point.experiment)}\n{note}", colour=colour)


def _all_curves(point: Point) -> dict[str, Curves]:
    return {label: curves_of(point.data, label) for label in labels(point.data)}


def _name(label: str, curves: Curves) -> str:
    lost = int(np.count_nonzero(curves.diverged))
    return common.name_of(label) + (f" ({lost} diverged)" if lost else "")


def _mean_of_finite(values: FloatArray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else np.nan


def _largest(arrays: list[FloatArray]) -> float:
    """The largest positive number in any of them; 1 if there is none: all diverged at once."""
    return float(max((a[a > 0].max() for a in arrays if (a > 0).any()), default=1.0))
