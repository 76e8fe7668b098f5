"""`fedwave reproduce score`: the paper's figure 2 with bands, on common worlds, and its table."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from fedwave.experiments.results.comparison import Row, metrics, table
from fedwave.experiments.results.outcome import Outcome, Outcomes
from fedwave.experiments.results.statistics import band, moving_mean, running_mean
from fedwave.experiments.run.runner import Point
from fedwave.files import write_csv, write_json
from fedwave.schedulers.base import PAPER_SCHEDULERS
from fedwave.types import FloatArray
from fedwave.version import __version__

# The score of a single round is mostly luck, and round-robin's jumps with its turn of five rounds.
WINDOW = 25
Band = tuple[FloatArray, FloatArray]  # mean and half-width of its 95 % interval, [T] each


@dataclass(frozen=True)
class ScoreCurves:
    """What figure 2 shows of one scheduler."""

    score: Band
    recent: Band  # mean of the last WINDOW rounds, one row for each round from WINDOW on
    running: Band
    difference: Band
    backlog: Band


def score_curves(outcome: Outcome, base: Outcome) -> ScoreCurves:
    """Bands over instances; the difference is paired, instance by instance."""
    running = running_mean(outcome.score)
    return ScoreCurves(
        score=band(outcome.score),
        recent=band(moving_mean(outcome.score, min(WINDOW, outcome.rounds))),
        running=band(running),
        difference=band(running - running_mean(base.score)),
        backlog=band(outcome.backlog),
    )


def write_score(point: Point, out: Path) -> tuple[list[Row], list[Path]]:
    """Figures, CSV and JSON of a finished comparison; returns the table's rows and the files."""
    from fedwave.experiments.report.figures.common import save_figure, score_figure

    outcomes, base, how = point.outcomes, point.experiment.base, point.experiment
    curves = {name: score_curves(outcome, outcomes[base]) for name, outcome in outcomes.items()}
    rows = table(outcomes, base, how.burn_in)
    caption = f"{how.instances} instances, {how.rounds} rounds, seed {how.seed}; bands: 95 % intervals over instances."
    bench = " Bench delivers everything at once: its score is the arrivals."
    paths = []
    # The paper's figure leaves Bench out, and its own schedulers deserve a figure of their own.
    of_paper = {n: c for n, c in curves.items() if n in PAPER_SCHEDULERS and n != "bench"}
    if base in of_paper:
        paths += save_figure(score_figure(of_paper, base, caption), out / "figure2")
    if len(of_paper) < len(curves):
        text = caption + (bench if "bench" in curves else "")
        paths += save_figure(score_figure(curves, base, text), out / "figure2-all")
    paths.append(_write_rounds(curves, out / "rounds.csv"))
    paths.append(_write_instances(outcomes, out / "instances.csv"))
    settings = {"rounds": how.rounds, "instances": how.instances, "seed": how.seed, "fedwave": __version__}  # fmt: skip
    paths.append(write_json(out / "summary.json", {**settings, "schedulers": as_json(rows)}))
    return rows, paths


def as_json(rows: list[Row]) -> dict[str, dict[str, dict[str, float]]]:
    """The table for machines: scheduler, quantity, estimate."""
    out = {}
    for row in rows:
        values = {
            **row.values,
            "score_difference": row.score_difference,
            "backlog_difference": row.backlog_difference,
        }
        told: dict[str, dict[str, float]] = {name: vars(value) for name, value in values.items()}
        if row.backlog_ratio is not None:
            told["backlog_ratio"] = vars(row.backlog_ratio)
        out[row.label] = told
    return out


def _write_rounds(curves: dict[str, ScoreCurves], path: Path) -> Path:
    quantities = [f.name for f in fields(ScoreCurves) if f.name != "recent"]
    heading = ["scheduler", "round"]
    heading += [f"{q}_{part}" for q in quantities for part in ("mean", "half_width")]
    rows = (
        [name, t + 1, *(f"{value[t]:.6g}" for q in quantities for value in getattr(curve, q))]
        for name, curve in curves.items()
        for t in range(len(curve.score[0]))
    )
    return write_csv(path, heading, rows)


def _write_instances(outcomes: Outcomes, path: Path) -> Path:
    rows = []
    for name, outcome in outcomes.items():
        values = metrics(outcome)
        for i, number in enumerate(outcome.instances):
            rows.append([name, number, *(f"{v[i]:.10g}" for v in values.values())])
    return write_csv(path, ["scheduler", "instance", *values], rows)
