"""Figures 3, 4 and 5: learning curves, a single instance, and targets reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedwave.experiments.report.figures.common import NAMES, style_of
from fedwave.experiments.report.learning import Learned
from fedwave.experiments.results.statistics import band
from fedwave.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_ENOUGH_FOR_A_BAND = 5


def curves_figure(learned: Learned) -> Figure:
    """Figure 3: training loss and test accuracy, mean and 95 % band over instances.

    The interval of two or three instances is many times as wide as their spread and would cover the figure:
    with so few, every instance is drawn instead.
    """
    few = learned.experiment.instances < _ENOUGH_FOR_A_BAND
    figure, (left, right) = _two_panels(learned)
    for label, curves in learned.curves.items():
        for axis, values in ((left, curves.loss), (right, curves.accuracy)):
            mean, half = band(values, skip_nan=True)
            rounds, style = np.arange(1, len(mean) + 1), style_of(label)
            axis.plot(rounds, mean, lw=1.3, label=_name(learned, label), **style)  # type: ignore[arg-type]
            if few:
                axis.plot(rounds, values, lw=0.5, alpha=0.5, color=style["color"])
            else:
                low, high = mean - half, mean + half
                axis.fill_between(rounds, low, high, color=style["color"], alpha=0.15, lw=0)
    _label(left, "(a) Training loss", "Round", "Cross-entropy")
    _label(right, "(b) Test accuracy", "Round", "Accuracy")
    left.set_ylim(
        bottom=0,
        top=1.05 * _largest([band(c.loss, skip_nan=True)[0] for c in learned.curves.values()]),
    )
    right.set_ylim(*_accuracy_limits(learned))
    _frame_rounds(learned, left, right)
    note = "Thin: single instances, too few for a band; bold: their mean."
    return _finish(figure, left, learned, note if few else "Bands: 95 % intervals over instances.")


def single_figure(learned: Learned) -> Figure:
    """Figure 4: one single instance; the legend counts spikes over all instances."""
    figure, (left, right) = _two_panels(learned)
    for label, curves in learned.curves.items():
        rounds, style = np.arange(1, len(curves.loss) + 1), style_of(label)
        name = f"{_name(learned, label)} ({curves.spikes().mean():.1f})"
        left.plot(rounds, curves.loss[:, 0], lw=1.1, label=name, **style)  # type: ignore[arg-type]
        right.plot(rounds, curves.accuracy[:, 0], lw=1.1, **style)  # type: ignore[arg-type]
    _label(left, "(a) Training loss", "Round", "Cross-entropy")
    _label(right, "(b) Test accuracy", "Round", "Accuracy")
    left.set_ylim(bottom=0)
    right.set_ylim(*_accuracy_limits(learned))
    _frame_rounds(learned, left, right)
    note = "One instance. In brackets: spikes per instance, over all (loss above 1.2 x median of 10 rounds)."
    return _finish(figure, left, learned, note)


def targets_figure(learned: Learned) -> Figure:
    """Figure 5: who reaches a target accuracy, and when."""
    figure, (left, right) = _two_panels(learned)
    targets = np.array(learned.experiment.targets)
    for label, curves in learned.curves.items():
        style = style_of(label)
        share = [float(curves.reaches(target).mean()) for target in targets]
        left.plot(targets, share, marker="o", ms=4, lw=1.2, label=_name(learned, label), **style)  # type: ignore[arg-type]
        needed = np.array([curves.rounds_to(target) for target in targets])  # [target, instance]
        arrived = np.isfinite(needed)
        mean = [
            float(row[ok].mean()) if ok.any() else np.nan
            for row, ok in zip(needed, arrived, strict=True)
        ]
        right.plot(targets, mean, marker="o", ms=4, lw=1.2, **style)  # type: ignore[arg-type]
        for target, value, ok in zip(targets, mean, arrived, strict=True):
            if ok.any() and not ok.all():
                right.annotate(
                    f"{np.count_nonzero(~ok)} never",
                    (target, value),
                    fontsize=7,
                    color=style["color"],
                )
    _label(left, "(a) Final accuracy beats the target", "Target accuracy", "Share of instances")
    _label(
        right,
        "(b) Rounds until three in a row beat it",
        "Target accuracy",
        "Mean rounds, of those that do",
    )
    left.set_ylim(-0.03, 1.03)
    right.set_ylim(bottom=0)
    right.set_xlim(left.get_xlim())
    note = "'never': instances that did not get there, left out of the mean; no point: none did."
    return _finish(figure, left, learned, note)


def _two_panels(learned: Learned) -> tuple[Figure, tuple[Axes, Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    return figure, (left, right)


def _finish(figure: Figure, axis: Axes, learned: Learned, note: str) -> Figure:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False, fontsize=9)
    colour = "#B00020" if learned.synthetic else "0.35"
    figure.supxlabel(f"{learned.caption}\n{note}", fontsize=8, color=colour)
    return figure


def _label(axis: Axes, title: str, x: str, y: str) -> None:
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.grid(alpha=0.3, lw=0.5)
    axis.spines[["top", "right"]].set_visible(False)


def _frame_rounds(learned: Learned, *axes: Axes) -> None:
    for axis in axes:
        axis.set_xlim(1, max(2, learned.experiment.rounds))


def _name(learned: Learned, label: str) -> str:
    lost = int(np.count_nonzero(learned.curves[label].diverged))
    return NAMES.get(label, label) + (f" ({lost} diverged)" if lost else "")


def _accuracy_limits(learned: Learned) -> tuple[float, float]:
    best = _largest([c.accuracy for c in learned.curves.values()])
    return 0.0, min(1.0, best * 1.05)


def _largest(arrays: list[FloatArray]) -> float:
    """The largest positive number in any of them; 1 if there is none: all diverged at once."""
    return float(max((a[a > 0].max() for a in arrays if (a > 0).any()), default=1.0))
