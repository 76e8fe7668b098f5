"""Trained runs: learning curves, a single instance, and targets reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import plural
from fedwave.experiments.analysis.captions import dataset_of, is_synthetic, sentences, title_at
from fedwave.experiments.analysis.randomness import Randomness
from fedwave.experiments.analysis.statistics import band
from fedwave.experiments.report.figures import common
from fedwave.experiments.store.dataset import Point, curves_of, long_name, scheduler_labels, series, task_metric
from fedwave.metrics import training_metrics
from fedwave.types import FloatArray

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedwave.learning.curves import Curves

_ENOUGH_FOR_A_BAND = 5
_SIZE = (10, 4.8)
_TARGETS = {"ms": 4.5, "mew": 1.0, "markevery": None}  # every target has its marker


@dataclass(frozen=True)
class Learning:
    """The content of the figures of a trained run, made from a point or from its tables."""

    data: xr.Dataset  # loss, accuracy, ... [scheduler, instance, round]; its attributes as those of results
    dataset: str  # the one that was asked for
    targets: tuple[float, ...] = ()
    synthetic: bool = False  # synthetic data replaced the dataset
    where: Mapping[str, Any] = field(default_factory=dict)  # of a sweep: the place on its axes

    @classmethod
    def of(cls, point: Point) -> Learning:
        """Makes the content from a point."""
        how = point.experiment
        return cls(point.data, dataset_of(how), tuple(how.targets), is_synthetic(how), point.where)

    @property
    def caption(self) -> str:
        """The dataset, and the images that the models were evaluated on."""
        test, loss = (f"{self.data.attrs[name]:,}" for name in ("test_images", "loss_images"))
        kind = "images" if self.metric == "accuracy" else "samples"
        text = f"{self.dataset}: {self.metric} on {test} test {kind}, loss on {loss} training {kind}."
        warning = f"SYNTHETIC DATA, not {self.dataset}: the real files are unavailable.\n"
        return (warning if self.synthetic else "") + text

    @property
    def metric(self) -> str:
        """What the models were tested by."""
        return task_metric(self.data)

    def curves(self) -> dict[str, Curves]:
        """The curves of every scheduler."""
        return {label: curves_of(self.data, label) for label in scheduler_labels(self.data)}


def learning_figures(learnt: Learning) -> dict[str, Figure]:
    """The figures of a trained run, by the names of their files."""
    found = {"learning-curves": curves_figure(learnt), "one-instance": single_figure(learnt)}
    return found | ({"targets": targets_figure(learnt)} if learnt.targets else {})


def curves_figure(learnt: Learning) -> Figure:
    """Loss and metric, mean and 95 % band over instances.

    The interval of two or three instances is many times as wide as their spread and would cover the figure:
    with so few, every instance is drawn instead.
    """
    figure, axes = _two_panels(learnt)
    for axis, metric in zip(axes, ("loss", learnt.metric), strict=True):
        draw_means(axis, learnt, metric)
    return _with_caption(figure, axes[0], learnt, how_drawn(learnt.data.sizes["instance"]))


def draw_means(axis: Axes, learnt: Learning, metric: str) -> None:
    """The loss or the metric of every scheduler in a panel."""
    looks = common.styles(scheduler_labels(learnt.data))
    means = [
        _draw(axis, curves.series[metric], looks[label], _name(label, curves), len(looks))
        for label, curves in learnt.curves().items()
    ]
    _frame(axis, learnt, metric, 1.05 * _largest(means))


def training_figure(curves: Curves) -> Figure:
    """The same of one scheduler."""
    figure, axes = common.figure_with(1, 2, _SIZE)
    rounds, instances = curves.loss.shape
    look = common.styles([curves.label])[curves.label]
    described = training_metrics(curves.metric_name)
    for axis, metric in zip(axes, ("loss", curves.metric_name), strict=True):
        text = described[metric].label
        common.label_panel(axis, text, "Round", text)
        _draw(axis, curves.series[metric], look, common.name_of(curves.label), 1)
    made = f"{plural(rounds, 'round')}, {plural(instances, 'instance')}"
    return common.finish(figure, axes[0], made, how_drawn(instances))


def _draw(axis: Axes, values: FloatArray, look: common.Look, name: str, beside: int) -> FloatArray:
    """The mean of the instances, which is returned, with their band or, of few, each of them."""
    mean, half = band(values, skip_nan=True)
    rounds, instances = values.shape
    if instances >= _ENOUGH_FOR_A_BAND:
        common.draw_band(axis, (mean, half), "", look, beside, floor=common.floor_of(mean), label=name)
        return mean
    if instances > 1:
        axis.plot(np.arange(1, rounds + 1), values, lw=0.5, alpha=0.5, color=look["color"])
    common.draw_line(axis, mean, look, label=name)
    return mean


def how_drawn(instances: int) -> str:
    """The caption sentence about the bands or thin lines of learning curves."""
    if instances >= _ENOUGH_FOR_A_BAND:
        return "Bands: 95 % intervals over instances."
    return "Thin: single instances, too few for a band; bold: their mean." if instances > 1 else ""


def single_figure(learnt: Learning) -> Figure:
    """One single instance; the legend counts spikes over all instances."""
    figure, axes = _two_panels(learnt)
    for axis, metric in zip(axes, ("loss", learnt.metric), strict=True):
        draw_single(axis, learnt, metric)
    note = (
        f"Instance {learnt.data['instance'].values[0]} alone. In brackets: spikes per instance, over all "
        "(loss above 1.2 x median of 10 rounds)."
    )
    return _with_caption(figure, axes[0], learnt, note)


def draw_single(axis: Axes, learnt: Learning, metric: str) -> None:
    """The curves of the first instance alone."""
    looks = common.styles(scheduler_labels(learnt.data))
    for label, curves in learnt.curves().items():
        spikes = _mean_of_finite(curves.spikes())
        name = f"{_name(label, curves)} ({'-' if np.isnan(spikes) else f'{spikes:.1f}'})"
        common.draw_line(axis, curves.series[metric][:, 0], looks[label], label=name)
    _frame(axis, learnt, metric, None)


def targets_figure(learnt: Learning) -> Figure:
    """The share of instances that reach a target accuracy, and when."""
    figure, (left, right) = common.figure_with(1, 2, _SIZE)
    x = "Target accuracy"
    common.label_panel(left, "(a) Final accuracy above the target", x, "Share of instances")
    common.label_panel(right, "(b) First of three rounds in a row above it", x, "Round (mean)")
    draw_shares(left, learnt)
    moved = "Points in (a) are shifted sideways to be seen." if len(scheduler_labels(learnt.data)) > 1 else ""
    note = sentences(draw_rounds_needed(right, learnt), moved)
    return _with_caption(figure, left, learnt, note)


def draw_shares(axis: Axes, learnt: Learning) -> None:
    """The share of instances whose final accuracy beats a target.

    Most schedulers share most points, so each is moved sideways by a part of the distance between targets.
    """
    targets, looks = np.array(learnt.targets), common.styles(scheduler_labels(learnt.data))
    step = np.ptp(targets) / max(1, len(targets) - 1) or 0.01
    for place, (label, curves) in enumerate(learnt.curves().items()):
        share = np.array([curves.reaches(target).mean() for target in targets])
        moved = targets + 0.06 * step * (place - (len(looks) - 1) / 2)
        common.draw_line(axis, share, looks[label], moved, **_TARGETS, mfc=None, label=_name(label, curves))
    axis.set_ylim(-0.03, 1.03)
    _name_targets(axis, targets)


def draw_rounds_needed(axis: Axes, learnt: Learning, letter: str = "(b)") -> str:
    """The mean round from which three in a row beat a target; hollow where some instances never do.

    Returns a sentence about those.
    """
    targets, looks = np.array(learnt.targets), common.styles(scheduler_labels(learnt.data))
    some = none = False
    for label, curves in learnt.curves().items():
        needed = np.stack([curves.rounds_to(target) for target in targets])  # [target, instance]
        missing = (~np.isfinite(needed)).mean(axis=1)
        mean = np.array([_mean_of_finite(row) for row in needed])
        common.draw_line(axis, mean, looks[label], targets, **_TARGETS, label=_name(label, curves))
        full = np.where(missing == 0, mean, np.nan)
        axis.plot(targets, full, ls="none", marker=looks[label]["marker"], ms=4.5, color=looks[label]["color"])
        some, none = some | bool(((missing > 0) & (missing < 1)).any()), none | bool((missing == 1).any())
    axis.set_ylim(0, 1.05 * learnt.data.sizes["round"])
    reach = 0.05 * np.ptp(targets)
    if reach > 0:  # all targets, also those that no scheduler reaches
        axis.set_xlim(targets.min() - reach, targets.max() + reach)
    _name_targets(axis, targets)
    return sentences(
        "Hollow: some instances never get there, and are left out of the mean." if some else "",
        f"No point in {letter}: no instance gets there." if none else "",
    )


def _name_targets(axis: Axes, targets: FloatArray) -> None:
    if len(targets) <= 10:
        axis.set_xticks(targets, [f"{target:g}" for target in targets])


def _two_panels(learnt: Learning) -> tuple[Figure, list[Axes]]:
    figure, axes = common.figure_with(1, 2, _SIZE)
    for axis, letter, metric in zip(axes, "ab", ("loss", learnt.metric), strict=True):
        text = long_name(learnt.data, metric)
        common.label_panel(axis, f"({letter}) {text}", "Round", text)
    return figure, axes


def _frame(axis: Axes, learnt: Learning, metric: str, top: float | None) -> None:
    if metric == "loss":
        axis.set_ylim(bottom=0, top=top)
        return
    best = _largest([series(learnt.data, label, metric) for label in scheduler_labels(learnt.data)])
    if metric == "accuracy":
        axis.set_ylim(0.0, min(1.0, best * 1.05))
    elif common.floor_of(learnt.data[metric].values) is not None:
        axis.set_ylim(0.0, best * 1.05)


def _with_caption(figure: Figure, axis: Axes, learnt: Learning, note: str) -> Figure:
    colour = "#B00020" if learnt.synthetic else "0.35"
    text = f"{learnt.caption}\n{sentences(note, Randomness.of(learnt.data).note)}".rstrip()
    return common.finish(figure, axis, title_at(learnt.where, learnt.data), text, colour)


def _name(label: str, curves: Curves) -> str:
    lost = int(np.count_nonzero(curves.diverged))
    return common.name_of(label) + (f" ({lost} diverged)" if lost else "")


def _mean_of_finite(values: FloatArray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else np.nan


def _largest(arrays: list[FloatArray]) -> float:
    """The largest positive number in any of them; 1 if there is none: all diverged at once."""
    return float(max((a[a > 0].max() for a in arrays if (a > 0).any()), default=1.0))
