"""`fedwave reproduce score`: the paper's figure 2 with bands, on common worlds, and its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedwave.experiments.results.comparison import Comparison
from fedwave.experiments.results.container import Point, labels, series
from fedwave.experiments.results.statistics import Band, band, running_mean
from fedwave.files import write_csv
from fedwave.schedulers.base import PAPER_SCHEDULERS

if TYPE_CHECKING:
    import xarray as xr


def score_bands(data: xr.Dataset, scheduler: str, base: str) -> dict[str, Band]:
    """Bands over instances, by round; the difference of running means is paired, instance by instance."""
    score = series(data, scheduler, "score")
    running = running_mean(score)
    return {
        "score": band(score),
        "running": band(running),
        "difference": band(running - running_mean(series(data, base, "score"))),
        "backlog": band(series(data, scheduler, "backlog")),
    }


def write_score(point: Point, out: Path) -> list[Path]:
    """Figures, and CSV files by round and by instance."""
    from fedwave.experiments.report.figures.common import save_figure
    from fedwave.experiments.report.figures.score import score_figure

    data, how, base = point.data, point.experiment, point.experiment.base
    caption = f"{how.instances} instances, {how.rounds} rounds, seed {how.seed}; bands: 95 % intervals over instances."
    bench = " Bench delivers everything at once: its score is the arrivals."
    paths = []
    # The paper's figure leaves Bench out, and its own schedulers deserve a figure of their own.
    of_paper = [n for n in labels(data) if n in PAPER_SCHEDULERS and n != "bench"]
    if base in of_paper:
        paper = score_figure(data.sel(scheduler=of_paper), base, caption)
        paths += save_figure(paper, out / "figure2")
    if len(of_paper) < len(labels(data)):
        text = caption + (bench if "bench" in labels(data) else "")
        paths += save_figure(score_figure(data, base, text), out / "figure2-all")
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
