"""`fedwave reproduce score`: the paper's figure 2 with bands, on common worlds, and its table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from fedwave.experiments.comparison import Row, Traces, compare, metrics, table
from fedwave.experiments.statistics import band, moving_mean, running_mean
from fedwave.files import write_csv, write_json
from fedwave.network.network import paper_network
from fedwave.schedulers.registry import PAPER_SCHEDULERS, names, scheduler
from fedwave.trace import Trace
from fedwave.types import FloatArray
from fedwave.version import __version__

BASE = "alsa-pi"
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


def score_curves(trace: Trace, base: Trace) -> ScoreCurves:
    """Bands over instances; the difference is paired, instance by instance."""
    running = running_mean(trace.score)
    return ScoreCurves(
        score=band(trace.score),
        recent=band(moving_mean(trace.score, min(WINDOW, trace.rounds))),
        running=band(running),
        difference=band(running - running_mean(base.score)),
        backlog=band(trace.backlog),
    )


def run_score(
    rounds: int, instances: int, seed: int, meter: Callable[[str, int], None] | None = None
) -> dict[str, Trace]:
    """All registered schedulers on the paper's network, those of the paper first."""
    ordered = [*PAPER_SCHEDULERS, *(n for n in names(learner=False) if n not in PAPER_SCHEDULERS)]
    chosen = {name: scheduler(name) for name in ordered}
    return compare(paper_network(), chosen, rounds, instances, seed, meter=meter)


def write_score(traces: Traces, out: Path, seed: int) -> tuple[list[Row], list[Path]]:
    """Figures, CSV and JSON of a score run; returns the table's rows and the files."""
    from fedwave.experiments.figures import save_figure, score_figure

    curves = {name: score_curves(trace, traces[BASE]) for name, trace in traces.items()}
    rows = table(traces, BASE)
    first = traces[BASE]
    caption = (
        f"{first.instances} instances, {first.rounds} rounds, seed {seed}; bands: 95 % intervals over instances. "
        "Bench delivers everything at once: its score is the arrivals."
    )
    # The paper's figure leaves Bench out, and its own schedulers deserve a figure of their own.
    of_paper = {n: c for n, c in curves.items() if n in PAPER_SCHEDULERS and n != "bench"}
    paths = save_figure(score_figure(of_paper, BASE, caption.split(" Bench")[0]), out / "figure2")
    paths += save_figure(score_figure(curves, BASE, caption), out / "figure2-all")
    paths.append(_write_rounds(curves, out / "rounds.csv"))
    paths.append(_write_instances(traces, out / "instances.csv"))
    settings = {
        "rounds": first.rounds,
        "instances": first.instances,
        "seed": seed,
        "fedwave": __version__,
    }
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
        out[row.label] = {name: vars(value) for name, value in values.items()}
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


def _write_instances(traces: Traces, path: Path) -> Path:
    rows = []
    for name, trace in traces.items():
        values = metrics(trace)
        for i, number in enumerate(trace.provenance["instances"]):
            rows.append([name, number, *(f"{v[i]:.10g}" for v in values.values())])
    return write_csv(path, ["scheduler", "instance", *values], rows)
