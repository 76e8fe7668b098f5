"""`fedwave reproduce theory`: the bound and the table of backlogs, greedy's gap, decision times, regret, Theorem 1.

The optimum and the bounds are computed in theory/; here they are set beside what is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.experiments.analysis.labels import title
from fedwave.experiments.analysis.statistics import Estimate, estimate
from fedwave.experiments.analysis.tables import latex, markdown, with_interval
from fedwave.experiments.config.build import network_of
from fedwave.experiments.config.files import renamed
from fedwave.experiments.report.comparison import Comparison
from fedwave.experiments.report.figures.common import save_figure
from fedwave.experiments.store.checksums import SUMS, write_sums
from fedwave.experiments.store.dataset import Point, Results
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.output_names import with_endings
from fedwave.files.writing import write_csv, write_json, write_text
from fedwave.network.network import random_network
from fedwave.rng import Draws
from fedwave.schedulers.base import Scheduler, scheduler
from fedwave.simulation import simulate
from fedwave.theory.regret import Regret
from fedwave.types import Decision, FloatArray, Observation, State

_TOLERANCE = 1e-5  # of a backlog in the map, which shows a tenth of a percent
# Rates of the second device, and equally likely success probabilities.
_FEW = ((1.0, 3.0, 10.0), ((0.3,), (0.7,), (1.0,), (0.3, 0.9)))
_MANY = ((1.0, 2.0, 3.0, 5.0, 10.0, 20.0), ((0.3,), (0.5,), (0.7,), (1.0,), (0.3, 0.9), (0.0, 1.0)))
TIMED = ("dp", "alsa-pi", "balsa", "lagrangian", "whittle", "lagrangian-bayes", "whittle-bayes")
FILES = with_endings(("gap", "times", "regret", "convergence")) | {
    "backlogs.md",
    "backlogs.tex",
    "backlogs.json",
    "gap.csv",
    "times.csv",
    "times.json",
    "regret.csv",
    "regret.json",
    "convergence.csv",
    "backlogs/",
    SUMS,
}
Say = Callable[[str], None]  # gets the name of the part that comes next


@dataclass(frozen=True)
class GapMap:
    """Two devices, W = 1: how much more backlog greedy has than the optimum, as a share."""

    rates: tuple[float, ...]  # of the second device; the first has rate 1
    levels: tuple[tuple[float, ...], ...]  # equally likely success probabilities, of both devices
    optimal: FloatArray  # [level, rate]
    greedy: FloatArray

    @property
    def gap(self) -> FloatArray:
        """``[level, rate]``."""
        return np.maximum(self.greedy / self.optimal - 1, 0.0)  # 0 to rounding where both are the same


def gap_map(rates: Sequence[float], levels: Sequence[Sequence[float]]) -> GapMap:
    """Solve every combination exactly."""
    from fedwave.theory.exact_problem import ExactProblem
    from fedwave.theory.policy_value import mean_backlog, value_iteration

    found = np.empty((2, len(levels), len(rates)))
    for i, chances in enumerate(levels):
        for j, rate in enumerate(rates):
            problem = ExactProblem([1.0, rate], [list(chances)] * 2, slots=1)
            theta = np.array([1.0, rate])
            found[0, i, j] = value_iteration(problem, _TOLERANCE).backlog
            found[1, i, j] = mean_backlog(problem, lambda p, n, t=theta: p * (n + t), _TOLERANCE)  # type: ignore[misc]
    return GapMap(tuple(rates), tuple(tuple(c) for c in levels), found[0], found[1])


@dataclass(frozen=True)
class DecisionTime:
    """What one scheduler's decisions cost on networks of one size."""

    scheduler: str
    devices: int
    first: float  # seconds of the first decision, in which some solve or fill tables
    later: float  # seconds of a later one, per instance (the median)


def _timed(inner: Scheduler, seconds: list[float]) -> Scheduler:
    """The same scheduler with a stopwatch at its decisions."""
    kind: Any = type(inner)

    class Timed(kind):  # type: ignore[misc]
        def decide(self, state: State, seen: Observation, draws: Draws) -> tuple[Decision, State]:
            begin = time.perf_counter()
            out: tuple[Decision, State] = super().decide(state, seen, draws)
            seconds.append(time.perf_counter() - begin)
            return out

    timed: Scheduler = copy(inner)
    object.__setattr__(timed, "__class__", Timed)
    return timed


def decision_times(
    names: Sequence[str], sizes: Sequence[int], rounds: int = 12, instances: int = 4
) -> list[DecisionTime]:
    """Measure decisions on random networks with W = a fifth of U; sizes that a scheduler refuses are left out."""
    found = []
    for size in sizes:
        network = random_network(size, max(1, size // 5), seed=size)
        for name in names:
            seconds: list[float] = []
            try:
                simulate(network, _timed(scheduler(name), seconds), rounds, instances, seed=0, record="summary")
            except FedwaveError:
                continue  # too large for it: that is the result
            later = float(np.median(seconds[1:])) / instances
            found.append(DecisionTime(name, size, seconds[0], later))
    return found


@dataclass(frozen=True)
class BacklogRow:
    """One line of the table of backlogs."""

    label: str
    backlog: Estimate
    score: Estimate
    gap: float | None  # to the bound, as a share


def backlog_table(point: Point, bound: float, total_rate: float, gamma: float) -> list[BacklogRow]:
    """Schedulers by their backlog, and the bound as the last line."""
    found = Comparison.of(point.data, point.experiment.base, point.experiment.burn_in)
    lines = []
    for label in found.schedulers:
        backlog = found.estimate(label, "backlog")
        # The score of a finite run is mostly the luck of its arrivals; in the long run it is this.
        width, error = gamma * backlog.half_width, gamma * backlog.standard_error
        score = Estimate(total_rate - gamma * backlog.mean, width, error, backlog.instances)
        lines.append(BacklogRow(label, backlog, score, backlog.mean / bound - 1))
    lines.sort(key=lambda line: -line.backlog.mean)
    exact = [Estimate(value, 0.0, 0.0) for value in (bound, total_rate - gamma * bound)]
    return [*lines, BacklogRow("the bound", exact[0], exact[1], None)]


def times_ratio(times: Sequence[DecisionTime], over: str, under: str, devices: int) -> float:
    """How many times as long a decision of one takes as one of the other, from the same run."""
    later = {(t.scheduler, t.devices): t.later for t in times}
    return later[over, devices] / later[under, devices]


def write_theory(results: Results, folder: Path, quick: bool, say: Say) -> tuple[list[BacklogRow], list[Path]]:
    """The five parts; ``results`` are those of the preset paper-backlogs."""
    say("the bound")
    rows, paths = _write_backlogs(results, folder)
    say("greedy's gap")
    paths += _write_gaps(folder, quick)
    say("decision times")
    paths += _write_times(folder, quick)
    say("regret")
    paths += _write_regret(folder, quick)
    say("convergence")
    paths += _write_convergence(folder, quick)
    write_sums(folder, [path.name for path in paths])
    return rows, paths


def _write_backlogs(results: Results, folder: Path) -> tuple[list[BacklogRow], list[Path]]:
    from fedwave.theory.bound import backlog_bound

    point = results.only
    places = RunFolder(folder / "backlogs").data_places()  # of its run folder, which names files by their copies
    network = network_of(renamed(point.experiment, places).network)
    bound = backlog_bound(network)
    rows = backlog_table(point, bound.value, float(network.rates.sum()), network.gamma)
    heading, lines = backlog_lines(rows)
    how = point.experiment
    caption = f"Mean backlog in rounds {how.burn_in + 1} to {how.rounds}, with 95 % intervals: {title(point.data)}."
    paths = [write_text(folder / "backlogs.md", f"**{caption}**\n\n{markdown(heading, lines)}")]
    paths.append(write_text(folder / "backlogs.tex", latex(heading, lines, caption)))
    about: dict[str, Any] = {"value": bound.value, "error": bound.error, "price": bound.price}
    about |= {"service": bound.service.tolist(), "cost": bound.cost.tolist()}
    by_label = {row.label: {**vars(row.backlog), "gap": row.gap} for row in rows}
    paths.append(write_json(folder / "backlogs.json", {"bound": about, "schedulers": by_label}))
    return rows, paths


def backlog_lines(rows: list[BacklogRow]) -> tuple[list[str], list[list[str]]]:
    """The table as text, for the terminal and for files."""
    heading = ["scheduler", "mean backlog", "above the bound", "score in the long run"]
    lines = []
    for row in rows:
        gap = "-" if row.gap is None else f"{100 * row.gap:+.2f} %"
        score = with_interval(row.score.mean, row.score.half_width, most=4)
        lines.append([row.label, with_interval(row.backlog.mean, row.backlog.half_width), gap, score])
    return heading, lines


def _write_gaps(folder: Path, quick: bool) -> list[Path]:
    from fedwave.experiments.report.figures.theory import gap_figure

    found = gap_map(*(_FEW if quick else _MANY))
    lines = [
        [rate, " or ".join(map(str, chances)), found.optimal[i, j], found.greedy[i, j], found.gap[i, j]]
        for i, chances in enumerate(found.levels)
        for j, rate in enumerate(found.rates)
    ]
    heading = ["rate_of_the_second", "success", "optimal_backlog", "greedy_backlog", "gap"]
    return [*save_figure(gap_figure(found), folder / "gap"), write_csv(folder / "gap.csv", heading, lines)]


def _write_times(folder: Path, quick: bool) -> list[Path]:
    from fedwave.experiments.report.figures.theory import times_figure

    sizes = (2, 3, 10, 100, 1000) if quick else (2, 3, 5, 10, 25, 100, 1000, 10_000)
    times = decision_times(TIMED, sizes)
    lines = [[t.scheduler, t.devices, f"{t.first:.6g}", f"{t.later:.6g}"] for t in times]
    ratio = times_ratio(times, "lagrangian-bayes", "balsa", 1000)
    about = {"lagrangian-bayes over balsa at 1000 devices": ratio}
    return [
        *save_figure(times_figure(times), folder / "times"),
        write_csv(folder / "times.csv", ["scheduler", "devices", "first_seconds", "later_seconds"], lines),
        write_json(folder / "times.json", about),
    ]


def _write_regret(folder: Path, quick: bool) -> list[Path]:
    from fedwave.experiments.report.figures.regret import regret_figure
    from fedwave.theory.regret import RegretSetting, regret

    found = regret(RegretSetting.quick() if quick else RegretSetting())
    heading, lines = found.table()
    paths = save_figure(regret_figure(found), folder / "regret")
    paths.append(write_csv(folder / "regret.csv", heading, lines))
    return [*paths, write_json(folder / "regret.json", regret_slopes(found))]


def regret_slopes(found: Regret) -> dict[str, Any]:
    """Regret a round over the second half of the rounds, with its interval over instances."""
    lost = found.optimum - found.greedy
    slopes = {label: found.slope(label) for label in found.regret}
    slopes |= {"J* - J of greedy": lost, "balsa less J* - J of greedy": slopes["balsa"] - lost}
    return {
        "regret a round": {label: vars(estimate(values)) for label, values in slopes.items()},
        "the printed bound exceeds T up to round": found.crossing(),
        "states that are told apart": found.counted_states,
    }


def _write_convergence(folder: Path, quick: bool) -> list[Path]:
    from fedwave.experiments.report.figures.convergence import convergence_figure
    from fedwave.theory.convergence import convergence, with_different_data
    from fedwave.theory.convergence_setting import ConvergenceSetting

    setting = replace(ConvergenceSetting(), rounds=60, instances=5) if quick else ConvergenceSetting()
    tried = convergence(setting)
    heading, lines = tried.table()
    paths = save_figure(convergence_figure(tried, with_different_data(tried)), folder / "convergence")
    return [*paths, write_csv(folder / "convergence.csv", heading, lines)]
