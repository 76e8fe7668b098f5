"""Simulated runs: score and backlog by round, with bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedwave.experiments.analysis.captions import sentences, title
from fedwave.experiments.analysis.randomness import Randomness, intervals_are
from fedwave.experiments.analysis.statistics import Band, moving_mean, running_mean
from fedwave.experiments.report.figures import common
from fedwave.experiments.store.dataset import scheduler_labels, series
from fedwave.metrics import describe
from fedwave.schedulers.base import PAPER_SCHEDULERS

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The score of a single round is mostly luck, and round-robin's jumps with its turn of five rounds.
_WINDOW = 25
# Of every scheduler and round: the score, its mean so far, the paired difference of that from the base, the backlog,
# and the mean score of the last rounds (``Scores.window``), which the first rounds do not have.
BANDS = ("score", "running", "running_difference", "backlog", "recent")


@dataclass(frozen=True)
class Scores:
    """The content of the figures of scores, made from a run or from its tables."""

    bands: Mapping[str, Mapping[str, Band]]  # by scheduler and by name (``BANDS``)
    base: str  # differences are taken from it
    title: str  # describes the run
    caption: str  # explains the bands

    @classmethod
    def of(cls, data: xr.Dataset, base: str) -> Scores:
        """The bands of every scheduler of a run."""
        bands = {label: score_bands(data, label, base) for label in scheduler_labels(data)}
        return cls(bands, base, title(data), bands_caption(data))

    @property
    def rounds(self) -> int:
        """How many were played."""
        return len(next(iter(self.bands.values()))["score"][0])

    @property
    def window(self) -> int:
        """How many rounds "recent" is the mean of."""
        return _window(self.rounds)

    @property
    def of_paper(self) -> list[str]:
        """The schedulers of the paper's figure of scores, which leaves Bench out."""
        return [name for name in self.bands if name in PAPER_SCHEDULERS and name != "bench"]


def bands_caption(data: xr.Dataset) -> str:
    """The caption sentences about the bands and what they cover."""
    return sentences(intervals_are("Bands", data), Randomness.of(data).note)


def score_bands(data: xr.Dataset, scheduler: str, base: str) -> dict[str, Band]:
    """Bands over instances, by round; the difference of running means is paired, instance by instance."""
    score, randomness = series(data, scheduler, "score"), Randomness.of(data)
    running = running_mean(score)
    apart = running - running_mean(series(data, base, "score"))
    window = _window(len(score))
    recent = np.full(score.shape, np.nan)
    recent[window - 1 :] = moving_mean(score, window)
    return {
        "score": randomness.band(score, "score", scheduler),
        "running": randomness.band(running, "score", scheduler),
        "running_difference": randomness.band(apart, "score", scheduler, base),
        "backlog": randomness.band(series(data, scheduler, "backlog"), "backlog", scheduler),
        "recent": randomness.band(recent, "score", scheduler),
    }


def _window(rounds: int) -> int:
    return max(1, min(_WINDOW, rounds // 5))


def score_figures(scores: Scores) -> dict[str, Figure]:
    """A figure of every scheduler, and one of the paper's own, by the names of their files."""
    bench = "Bench delivers everything at once: its score is the arrivals."
    found = {"score": score_figure(scores, sentences(scores.caption, bench if "bench" in scores.bands else ""))}
    # Where many run beside them, the paper's own schedulers get a figure too.
    if scores.base in scores.of_paper and set(PAPER_SCHEDULERS) < scores.bands.keys():
        text = f"The schedulers of Fig. 2 of Lee & Lee. {scores.caption}"
        found["score-paper"] = score_figure(scores, text, shown=scores.of_paper)
    return found


def score_figure(scores: Scores, caption: str, shown: Sequence[str] | None = None) -> Figure:
    """Score, its running mean, the paired difference of that from the base, and the backlog.

    ``shown`` are some of the schedulers, by default all; each looks as in the figure of all.
    """
    figure, axes = common.figure_with(2, 2, (10, 7.8))
    score, backlog = (describe(name).label for name in ("score", "backlog"))
    bold = f"; bold: mean of {scores.window} rounds" if scores.window > 1 else ""
    common.label_panel(axes[0], f"(a) {score}{bold}", "Round", score)
    running = f"{score}, mean so far"
    common.label_panel(axes[1], f"(b) {running}", "Round", running)
    apart = f"Difference from {common.name_of(scores.base)}"
    common.label_panel(axes[2], "(c) Paired difference of (b)", "Round", apart)
    common.label_panel(axes[3], f"(d) {backlog}", "Round", backlog)
    looks = common.styles(list(scores.bands))
    found = {label: scores.bands[label] for label in (scores.bands if shown is None else shown)}
    for label, bands in found.items():
        mean = bands["score"][0]
        rounds = np.arange(1, len(mean) + 1)
        axes[0].plot(rounds, mean, lw=0.5, alpha=0.22, color=looks[label]["color"])
    draw_recent(axes[0], found, looks)
    for axis, name in zip(axes[1:], ("running", "running_difference", "backlog"), strict=True):
        floor = 0.0 if name == "backlog" else None
        for label, bands in found.items():
            common.draw_band(axis, bands[name], label, looks[label], len(found), floor=floor)
    note = _frame(axes, found)
    return common.finish(figure, axes[1], scores.title, sentences(caption, note))


def draw_recent(axis: Axes, found: Mapping[str, Mapping[str, Band]], looks: Mapping[str, common.Look]) -> None:
    """The mean score of the last rounds, from the first round that has enough before it."""
    for label, bands in found.items():
        common.draw_band(axis, bands["recent"], label, looks[label], len(found))


def scale_differences(axis: Axes) -> None:
    """Differences span orders of magnitude, and 0 is among them."""
    axis.set_yscale("symlog", linthresh=0.1)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.axhline(0, color="0.6", lw=0.6, zorder=0)


def _frame(axes: Sequence[Axes], found: Mapping[str, Mapping[str, Band]]) -> str:
    """Frame (a) and (b) on the schedulers that stay stable: one that collapses would flatten the others.

    (c) and (d) span orders of magnitude and get axes that do too. Returns what to say.
    """
    late = {s: float(bands["running"][0][-1]) for s, bands in found.items()}
    stable = [s for s in found if late[s] > max(late.values()) - 12]
    rounds = len(found[stable[0]]["score"][0])
    settled = np.concatenate([found[s]["running"][0][rounds // 5 :] for s in stable])
    low, high = float(settled.min()), float(settled.max())
    reach = max(high - low, 1e-6)
    axes[0].set_ylim(high - 40 * max(1.0, reach / 8), high + 40 * max(1.0, reach / 8))
    axes[1].set_ylim(low - 0.5 * reach, high + 0.3 * reach)
    scale_differences(axes[2])
    waiting = np.concatenate([bands["backlog"][0][rounds // 5 :] for bands in found.values()])
    empty: list[str] = []
    if (waiting > 0).any():
        axes[3].set_yscale("log")
        axes[3].set_ylim(0.5 * waiting[waiting > 0].min(), 1.5 * waiting.max())
        common.plain_numbers(axes[3].yaxis)
        empty = [s for s, bands in found.items() if not bands["backlog"][0].any()]
    return sentences(
        common.naming("Far below the frame of (a) and (b)", [s for s in found if s not in stable]),
        common.naming("Always 0 and so not in (d)", empty),
    )
