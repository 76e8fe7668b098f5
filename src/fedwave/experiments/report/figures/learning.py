"""Learning curves, a single instance, and targets reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import plural
from fedwave.experiments.analysis.labels import sentences, title_at
from fedwave.experiments.analysis.randomness import Randomness
from fedwave.experiments.analysis.statistics import band
from fedwave.experiments.report.figures import common
from fedwave.experiments.store.dataset import label_of, labels, series
from fedwave.metrics import training_metrics
from fedwave.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedwave.experiments.report.learning import Learning
    from fedwave.learning.curves import Curves

_ENOUGH_FOR_A_BAND = 5
_SIZE = (10, 4.8)
_LINE = 0.085  # of the height of a panel: a line of small text


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
    looks = common.styles(labels(learnt.data))
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
    rounds, instances = np.arange(1, len(mean) + 1), values.shape[1]
    if instances >= _ENOUGH_FOR_A_BAND:
        low, high = np.where(mean < 0, mean - half, np.maximum(mean - half, 0)), mean + half
        axis.fill_between(rounds, low, high, color=look["color"], alpha=common.haze(beside), lw=0)
    elif instances > 1:
        axis.plot(rounds, values, lw=0.5, alpha=0.5, color=look["color"])
    common.draw_line(axis, mean, look, label=name)
    return mean


def how_drawn(instances: int) -> str:
    """What the bands or thin lines of learning curves are."""
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
    """The same of the first instance alone."""
    looks = common.styles(labels(learnt.data))
    for label, curves in learnt.curves().items():
        name = f"{_name(label, curves)} ({_spikes(curves)})"
        common.draw_line(axis, curves.series[metric][:, 0], looks[label], label=name)
    _frame(axis, learnt, metric, None)


def targets_figure(learnt: Learning) -> Figure:
    """Who reaches a target accuracy, and when."""
    figure, (left, right) = common.figure_with(1, 2, _SIZE)
    x = "Target accuracy"
    common.label_panel(left, "(a) Final accuracy above the target", x, "Share of instances")
    common.label_panel(right, "(b) First of three rounds in a row above it", x, "Round (mean)")
    draw_shares(left, learnt)
    moved = "Points in (a) are shifted sideways to be seen." if len(labels(learnt.data)) > 1 else ""
    note = sentences(draw_rounds_needed(right, learnt), moved)
    return _with_caption(figure, left, learnt, note)


def draw_shares(axis: Axes, learnt: Learning) -> None:
    """The share of instances whose final accuracy beats a target.

    Most schedulers share most points, so each is moved sideways by a part of the distance between targets.
    """
    targets, looks = _targets(learnt), common.styles(labels(learnt.data))
    step = np.ptp(targets) / max(1, len(targets) - 1) or 0.01
    for place, (label, curves) in enumerate(learnt.curves().items()):
        share = [float(curves.reaches(target).mean()) for target in targets]
        look = {**looks[label], "ms": 4, "lw": 1.2}
        moved = 0.06 * step * (place - (len(looks) - 1) / 2)
        axis.plot(targets + moved, share, label=_name(label, curves), **look)
    axis.set_ylim(-0.03, 1.03)
    _name_targets(axis, targets)


def draw_rounds_needed(axis: Axes, learnt: Learning, letter: str = "(b)") -> str:
    """The mean round from which three in a row beat a target. Returns what to say of those that never do."""
    from matplotlib.patheffects import withStroke

    targets, looks = _targets(learnt), common.styles(labels(learnt.data))
    some_missing, means = False, []
    never: dict[float, list[tuple[float, str, Any]]] = {}  # by target: the mean, a text, a colour
    for label, curves in learnt.curves().items():
        look = {**looks[label], "ms": 4, "lw": 1.2}
        needed = [curves.rounds_to(target) for target in targets]  # [target][instance]
        mean = [_mean_of_finite(row) for row in needed]
        means.append(mean)
        axis.plot(targets, mean, label=_name(label, curves), **look)
        for target, value, row in zip(targets.tolist(), mean, needed, strict=True):
            count = np.count_nonzero(~np.isfinite(row))
            some_missing |= count == row.size
            if 0 < count < row.size:
                never.setdefault(target, []).append((value, f"{count} never", look["color"]))
    top = learnt.data.sizes["round"]
    line, drawn = _LINE * top, np.array(means)
    for target, notes in never.items():
        notes.sort(key=lambda note: note[0])
        places = _apart([value for value, _, _ in notes], line, top)
        met = _meets_a_curve(places, targets, drawn, target, line)
        # To the right; to the left where curves come by, unless that is outside the frame.
        to, side = (-6, "right") if met and target > targets.min() else (6, "left")
        for (_, text, colour), place in zip(notes, places, strict=True):
            how: dict[str, Any] = {"textcoords": "offset points", "va": "center", "ha": side}
            note = axis.annotate(text, (target, place), (to, 0), fontsize=7, color=colour, **how)
            note.set_path_effects([withStroke(linewidth=2, foreground="white")])  # also on a curve
    axis.set_ylim(0, 1.05 * top)
    reach = np.ptp(targets)
    if reach > 0:  # all targets, also those that nobody reaches, and room for "k never"
        axis.set_xlim(targets.min() - 0.05 * reach, targets.max() + 0.15 * reach)
    _name_targets(axis, targets)
    counts = "'k never': instances that never get there, left out of the mean." if never else ""
    missing = f"No point in {letter}: no instance gets there." if some_missing else ""
    return sentences(counts, missing)


def _meets_a_curve(places: list[float], targets: FloatArray, means: FloatArray, target: float, gap: float) -> bool:
    """Does a curve, of ``means[curve, target]``, pass one of the places on its way to the next target?"""
    later = targets[targets > target]
    if not later.size:
        return False
    ends = means[:, [np.flatnonzero(targets == at)[0] for at in (target, later.min())]]
    ends = ends[np.isfinite(ends).all(axis=1)]
    low, high = ends.min(axis=1, initial=np.inf) - gap, ends.max(axis=1, initial=-np.inf) + gap
    return any(bool(((low <= place) & (place <= high)).any()) for place in places)


def _apart(values: list[float], gap: float, top: float) -> list[float]:
    """As near as can be to the values, which rise, but ``gap`` apart and from 0 to ``top``; nearer if they are many.

    >>> _apart([10, 40, 42, 99], 6, 100)
    [10.0, 38.0, 44.0, 99.0]
    >>> _apart([97, 98, 99], 5, 100)
    [90.0, 95.0, 100.0]
    >>> _apart([1, 1, 1], 80, 100)
    [0.0, 50.0, 100.0]
    """
    from scipy.optimize import isotonic_regression

    gap = min(gap, top / max(1, len(values) - 1))
    steps = gap * np.arange(len(values))
    lowest = np.clip(isotonic_regression(values - steps).x, 0, top - steps[-1])
    return list((lowest + steps).tolist())


def _targets(learnt: Learning) -> FloatArray:
    return np.array(learnt.targets)


def _name_targets(axis: Axes, targets: FloatArray) -> None:
    if len(targets) <= 10:
        axis.set_xticks(targets, [f"{target:g}" for target in targets])


def _two_panels(learnt: Learning) -> tuple[Figure, list[Axes]]:
    figure, axes = common.figure_with(1, 2, _SIZE)
    for axis, letter, metric in zip(axes, "ab", ("loss", learnt.metric), strict=True):
        label = label_of(learnt.data, metric)
        common.label_panel(axis, f"({letter}) {label}", "Round", label)
    return figure, axes


def _frame(axis: Axes, learnt: Learning, metric: str, top: float | None) -> None:
    if metric == "loss":
        axis.set_ylim(bottom=0, top=top)
        return
    best = _largest([series(learnt.data, label, metric) for label in labels(learnt.data)])
    if metric == "accuracy":
        axis.set_ylim(0.0, min(1.0, best * 1.05))
    elif not (learnt.data[metric].values < 0).any():
        axis.set_ylim(0.0, best * 1.05)


def _with_caption(figure: Figure, axis: Axes, learnt: Learning, note: str) -> Figure:
    colour = "#B00020" if learnt.synthetic else "0.35"
    text = f"{learnt.caption}\n{sentences(note, Randomness.of(learnt.data).note)}".rstrip()
    return common.finish(figure, axis, title_at(learnt.where, learnt.data), text, colour=colour)


def _name(label: str, curves: Curves) -> str:
    lost = int(np.count_nonzero(curves.diverged))
    return common.name_of(label) + (f" ({lost} diverged)" if lost else "")


def _spikes(curves: Curves) -> str:
    mean = _mean_of_finite(curves.spikes())
    return "-" if np.isnan(mean) else f"{mean:.1f}"


def _mean_of_finite(values: FloatArray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else np.nan


def _largest(arrays: list[FloatArray]) -> float:
    """The largest positive number in any of them; 1 if there is none: all diverged at once."""
    return float(max((a[a > 0].max() for a in arrays if (a > 0).any()), default=1.0))
