"""Figs. 2 to 5 of the paper's section V on one page of paper (A4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import fedwave as fw
from fedwave.paper.compact import Compact

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_A4 = (8.27, 11.69)  # inches
_SMALL, _MIDDLE, _LARGE = 7.0, 7.5, 9.0  # points: nothing on the page is smaller
_DATASETS = {"mnist": "MNIST", "cifar10": "CIFAR-10"}  # one column each
# In print without colour dashes and markers tell lines apart: more kinds than the other figures have.
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))


def section_figure(found: Sequence[Compact]) -> Figure:
    """Scores above, then a column for MNIST and one for CIFAR-10; what is not there leaves its place empty."""
    figure, axes = fw.figures.figure_with(7, 2, _A4)
    shown = {kind: several[0] for kind, several in on_page(found).items()}
    notes, drawn = [], dict[str, None]()  # what was run, and once what its bands are
    if "score" in shown and (scores := shown["score"].scores) is not None:
        _draw_scores(axes[0], axes[1], scores)
        notes.append(f"Fig. 2: {scores.title}.")
        drawn[scores.caption] = None
    for column, (dataset, name) in enumerate(_DATASETS.items()):
        if dataset in shown and (learnt := shown[dataset].learnt) is not None:
            _draw_learning(axes[2 + column :: 2], learnt, name)
            text = learnt.caption.replace("\n", " ").replace(f"{learnt.dataset}: ", "")
            notes.append(f"{name}: {fw.figures.title(learnt.data)}; {text}")
            drawn[fw.figures.how_drawn(learnt.data.sizes["instance"])] = None
    for axis in axes:
        if not axis.has_data():
            axis.set_axis_off()
            axis.text(0.5, 0.5, "no results here", transform=axis.transAxes, ha="center", va="center", color="0.4")
    notes.append(fw.figures.sentences(*drawn))
    if any(one.learnt is not None for one in shown.values()):
        notes.append(
            "Fig. 5, rounds required: hollow where some instances never reach a target, and are left out of the mean; "
            "no point: none does. Points of the shares are shifted sideways to be seen."
        )
    _restyle(axes)
    _add_legend(figure, axes)
    text = "\n".join(fw.figures.wrapped(note, 1.12 * _A4[0]) for note in notes)
    colour = "#B00020" if any(one.learnt is not None and one.learnt.synthetic for one in shown.values()) else "0.25"
    figure.supxlabel(text, fontsize=_SMALL, color=colour, x=0.02, ha="left")
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(h_pad=0.02, w_pad=0.05, hspace=0.01, wspace=0.02)  # type: ignore[call-arg]
    return figure


def on_page(found: Sequence[Compact]) -> dict[str, list[Compact]]:
    """The results that there are panels for: scores, MNIST, CIFAR-10. Of several of a kind the first is shown."""
    kinds: dict[str, list[Compact]] = {}
    for one in found:
        if one.kind in ("score", *_DATASETS):
            kinds.setdefault(one.kind, []).append(one)
    return kinds


def _draw_scores(left: Axes, right: Axes, scores: fw.figures.Scores) -> None:
    looks = fw.figures.styles(list(scores.bands))
    found = {label: scores.bands[label] for label in scores.of_paper or scores.bands}
    fw.figures.label_panel(left, f"Fig. 2  Score, mean of {scores.window} rounds", "Round", "Score")
    fw.figures.draw_recent(left, found, looks)
    base = fw.figures.name_of(scores.base)
    heading = f"Fig. 2  Mean score so far, less that of {base} (paired)"
    fw.figures.label_panel(right, heading, "Round", "Difference")
    for label, bands in found.items():
        fw.figures.draw_band(right, bands["running_difference"], label, looks[label], len(found))
    fw.figures.scale_differences(right)


def _draw_learning(axes: Sequence[Axes], learnt: fw.figures.Learning, name: str) -> None:
    """Six panels below each other."""
    alone = f"{name}, instance {learnt.data['instance'].values[0]} alone"
    for (loss, accuracy), what, draw in (
        (axes[:2], f"Fig. 3  {name}", fw.figures.draw_means),
        (axes[2:4], f"Fig. 4  {alone}", fw.figures.draw_single),
    ):
        fw.figures.label_panel(loss, f"{what}: training loss", "Round", "Loss")
        draw(loss, learnt, "loss")
        _frame_loss(loss, learnt)
        fw.figures.label_panel(accuracy, f"{what}: test accuracy", "Round", "Accuracy")
        draw(accuracy, learnt, "accuracy")
        _frame_accuracy(accuracy, learnt)
    share, needed = axes[4:]
    if not learnt.targets:
        return
    x = "Target accuracy"
    fw.figures.label_panel(share, f"Fig. 5  {name}: final accuracy above the target", x, "Share")
    fw.figures.draw_shares(share, learnt)
    fw.figures.label_panel(needed, f"Fig. 5  {name}: rounds required", x, "Round (mean)")
    fw.figures.draw_rounds_needed(needed, learnt)


def _frame_loss(axis: Axes, learnt: fw.figures.Learning) -> None:
    """Logarithmic: late in a run, where losses are small, is where schedulers differ."""
    found = learnt.data["loss"].values.ravel()
    found = found[np.isfinite(found) & (found > 0)]
    if not found.size:
        return
    axis.set_yscale("log")
    axis.set_ylim(0.8 * found.min(), 1.2 * np.quantile(found, 0.999))
    fw.figures.plain_numbers(axis.yaxis)


def _frame_accuracy(axis: Axes, learnt: fw.figures.Learning) -> None:
    """From a little below the worst scheduler's end: the climb to there is seen in the losses."""
    ends = [np.nanmean(values) for values in learnt.data["accuracy"].values[..., -1]]
    if np.isfinite(ends).any():
        axis.set_ylim(bottom=max(0.0, float(np.nanmin(ends)) - 0.15))


def _named_lines(axes: Sequence[Axes]) -> list[tuple[str, Line2D]]:
    """Lines that have a name, by it and without what is in brackets: spikes or instances that diverged; Bench first."""
    found = [(str(line.get_label()).split(" (")[0], line) for axis in axes for line in axis.get_lines()]
    # As matplotlib calls those without a name.
    return sorted((one for one in found if not one[0].startswith("_")), key=lambda one: one[0] != "Bench")


def _restyle(axes: Sequence[Axes]) -> None:
    """Letters and lines for a page of fourteen panels, and dashes by scheduler: the plain line is Bench's."""
    named = _named_lines(axes)
    order = list(dict(named))
    for name, line in named:
        line.set_linestyle(_DASHES[order.index(name) % len(_DASHES)])
        line.set_markerfacecolor("white")
    for axis in axes:
        axis.set_title(axis.get_title(loc="left"), loc="left", fontsize=_MIDDLE, pad=3)
        axis.tick_params(labelsize=_SMALL, length=2, pad=1.5)
        for text in (axis.xaxis.label, axis.yaxis.label, *axis.texts):
            text.set_fontsize(_SMALL)
        axis.xaxis.labelpad = axis.yaxis.labelpad = 1
        for line in axis.get_lines():
            line.set_markersize(3.5)
            line.set_linewidth(min(float(line.get_linewidth()), 1.1))


def _add_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One for the page: a scheduler looks the same in all panels."""
    found = dict(_named_lines(axes))
    legend = figure.legend(
        list(found.values()),
        list(found),
        loc="outside upper center",
        ncols=6,
        frameon=False,
        fontsize=_MIDDLE,
        handlelength=4.5,
        title="Section V of Lee & Lee, made again",
        title_fontsize=_LARGE,
    )
    legend.get_title().set_fontweight("bold")
