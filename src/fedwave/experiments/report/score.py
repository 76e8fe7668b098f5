"""Score and backlog of a simulated experiment, on common worlds: the figure and its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedwave.experiments.report.labels import sentences
from fedwave.experiments.results.chance import Chance, caption
from fedwave.experiments.results.comparison import Comparison
from fedwave.experiments.results.container import Point, labels, series
from fedwave.experiments.results.statistics import Band, running_mean
from fedwave.files import write_csv
from fedwave.schedulers.base import PAPER_SCHEDULERS

if TYPE_CHECKING:
    import xarray as xr


def score_bands(data: xr.Dataset, scheduler: str, base: str) -> dict[str, Band]:
    """Bands over instances, by round; the difference of running means is paired, instance by instance."""
    score, chance = series(data, scheduler, "score"), Chance.of(data)
    running = running_mean(score)
    apart = running - running_mean(series(data, base, "score"))
    return {
        "score": chance.band(score, "score", scheduler),
        "running": chance.band(running, "score", scheduler),
        "running_difference": chance.band(apart, "score", scheduler, base),
        "backlog": chance.band(series(data, scheduler, "backlog"), "backlog", scheduler),
    }


def write_score(point: Point, out: Path) -> list[Path]:
    """A figure of every scheduler, and CSV files by round and by instance."""
    from fedwave.experiments.report.figures.common import save_figure
    from fedwave.experiments.report.figures.score import score_figure

    data, base = point.data, point.experiment.base
    bands = sentences(caption("Bands", data), Chance.of(data).note)
    bench = "Bench delivers everything at once: its score is the arrivals."
    text = sentences(bands, bench if "bench" in labels(data) else "")
    paths = save_figure(score_figure(data, base, text), out / "score")
    # Where many run beside them, the paper's own schedulers get a figure too; the paper leaves Bench out of it.
    of_paper = [n for n in labels(data) if n in PAPER_SCHEDULERS and n != "bench"]
    if base in of_paper and set(PAPER_SCHEDULERS) < set(labels(data)):
        text = f"The schedulers of Fig. 2 of Lee & Lee. {bands}"
        drawn = score_figure(data, base, text, shown=of_paper)
        paths += save_figure(drawn, out / "score-paper")
    paths.append(_write_rounds(data, base, out / "rounds.csv"))
    return [*paths, _write_instances(data, base, out / "instances.csv")]


def _write_rounds(data: xr.Dataset, base: str, path: Path) -> Path:
    rows = []
    for label in labels(data):
        bands = score_bands(data, label, base)
        columns = [values for band_ in bands.values() for values in band_]
        for number, line in enumerate(zip(*columns, strict=True), 1):
            rows.append([label, number, *(f"{value:.6g}" for value in line)])
    parts = [f"{name}_{part}" for name in bands for part in ("mean", "half_width")]
    return write_csv(path, ["scheduler", "round", *parts], rows)


def _write_instances(data: xr.Dataset, base: str, path: Path) -> Path:
    """Every metric of the whole run, without a burn-in."""
    values = Comparison.of(data, base).values
    rows = [
        [label, number, *(f"{array[s, i]:.10g}" for array in values.values())]
        for s, label in enumerate(labels(data))
        for i, number in enumerate(data["instance"].values)
    ]
    return write_csv(path, ["scheduler", "instance", *values], rows)
