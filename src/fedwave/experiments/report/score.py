"""Score and backlog of a simulated experiment, on common worlds: the figures and their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedwave.experiments.analysis.labels import sentences, title
from fedwave.experiments.analysis.randomness import Randomness, caption
from fedwave.experiments.analysis.statistics import Band, moving_mean, running_mean
from fedwave.experiments.report.comparison import Comparison
from fedwave.experiments.store.dataset import Point, metric_title, scheduler_labels, series
from fedwave.files.writing import write_csv
from fedwave.metrics import describe
from fedwave.schedulers.base import PAPER_SCHEDULERS

if TYPE_CHECKING:
    import xarray as xr

    from fedwave.experiments.report.figures.common import Figure

# The score of a single round is mostly luck, and round-robin's jumps with its turn of five rounds.
_WINDOW = 25
# Of every scheduler and round: the score, its mean so far, the paired difference of that from the base, the backlog,
# and the mean score of the last rounds (``window_of``), which the first rounds do not have.
BANDS = ("score", "running", "running_difference", "backlog", "recent")


@dataclass(frozen=True)
class Scores:
    """What the figures of scores show: of a run, or of the tables that it left."""

    bands: Mapping[str, Mapping[str, Band]]  # by scheduler and by name (``BANDS``)
    base: str  # differences are taken from it
    title: str  # what was run
    caption: str  # what the bands are
    score: str = describe("score").label  # what people call the two metrics
    backlog: str = describe("backlog").label

    @property
    def rounds(self) -> int:
        """How many were played."""
        return len(next(iter(self.bands.values()))["score"][0])


def scores_of(data: xr.Dataset, base: str) -> Scores:
    """The bands of every scheduler of a run."""
    bands = {label: score_bands(data, label, base) for label in scheduler_labels(data)}
    names = (metric_title(data, "score"), metric_title(data, "backlog"))
    return Scores(bands, base, title(data), bands_caption(data), *names)


def bands_caption(data: xr.Dataset) -> str:
    """What the bands are and cover, by the attributes of results."""
    return sentences(caption("Bands", data), Randomness.of(data).note)


def score_bands(data: xr.Dataset, scheduler: str, base: str) -> dict[str, Band]:
    """Bands over instances, by round; the difference of running means is paired, instance by instance."""
    score, randomness = series(data, scheduler, "score"), Randomness.of(data)
    running = running_mean(score)
    apart = running - running_mean(series(data, base, "score"))
    window = window_of(len(score))
    recent = np.full(score.shape, np.nan)
    recent[window - 1 :] = moving_mean(score, window)
    return {
        "score": randomness.band(score, "score", scheduler),
        "running": randomness.band(running, "score", scheduler),
        "running_difference": randomness.band(apart, "score", scheduler, base),
        "backlog": randomness.band(series(data, scheduler, "backlog"), "backlog", scheduler),
        "recent": randomness.band(recent, "score", scheduler),
    }


def window_of(rounds: int) -> int:
    """How many rounds "recent" is the mean of."""
    return max(1, min(_WINDOW, rounds // 5))


def score_figures(scores: Scores) -> dict[str, Figure]:
    """A figure of every scheduler, and one of the paper's own, by the names of their files."""
    from fedwave.experiments.report.figures.score import score_figure

    bench = "Bench delivers everything at once: its score is the arrivals."
    text = sentences(scores.caption, bench if "bench" in scores.bands else "")
    found = {"score": score_figure(scores, text)}
    # Where many run beside them, the paper's own schedulers get a figure too.
    of_paper = paper_schedulers(scores)
    if scores.base in of_paper and set(PAPER_SCHEDULERS) < scores.bands.keys():
        text = f"The schedulers of Fig. 2 of Lee & Lee. {scores.caption}"
        found["score-paper"] = score_figure(scores, text, shown=of_paper)
    return found


def paper_schedulers(scores: Scores) -> list[str]:
    """Those of the paper's figure of scores, which leaves Bench out."""
    return [name for name in scores.bands if name in PAPER_SCHEDULERS and name != "bench"]


def write_score(point: Point, out: Path) -> list[Path]:
    """The figures, and CSV files by round and by instance."""
    from fedwave.experiments.report.figures.common import save_figure

    scores = scores_of(point.data, point.experiment.base)
    paths = [path for stem, figure in score_figures(scores).items() for path in save_figure(figure, out / stem)]
    paths.append(_write_rounds(scores, out / "rounds.csv"))
    return [*paths, _write_instances(point.data, scores.base, out / "instances.csv")]


def _write_rounds(scores: Scores, path: Path) -> Path:
    columns_of_bands = [f"{name}_{part}" for name in BANDS for part in ("mean", "half_width")]
    rows = []
    for label, bands in scores.bands.items():
        columns = [values for name in BANDS for values in bands[name]]
        for number, line in enumerate(zip(*columns, strict=True), 1):
            rows.append([label, number, *("" if np.isnan(v) else f"{v:.6g}" for v in line)])
    return write_csv(path, ["scheduler", "round", *columns_of_bands], rows)


def _write_instances(data: xr.Dataset, base: str, path: Path) -> Path:
    """Every metric of the whole run, without a burn-in."""
    values = Comparison.of(data, base).values
    rows = [
        [label, number, *(f"{array[s, i]:.10g}" for array in values.values())]
        for s, label in enumerate(scheduler_labels(data))
        for i, number in enumerate(data["instance"].values)
    ]
    return write_csv(path, ["scheduler", "instance", *values], rows)
