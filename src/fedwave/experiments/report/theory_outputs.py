"""`fedwave reproduce theory`: every part of it, written into one folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedwave.experiments.config.build import network_of
from fedwave.experiments.report.figures.common import save_figure
from fedwave.experiments.report.tables import latex, markdown, with_interval
from fedwave.experiments.report.theory import (
    BacklogRow,
    backlog_table,
    decision_times,
    gap_map,
    times_ratio,
)
from fedwave.experiments.run.runner import Results
from fedwave.files import write_csv, write_json, write_text

Say = Callable[[str], None]  # told which part comes next
# Rates of the second device, and equally likely success probabilities.
_FEW = ((1.0, 3.0, 10.0), ((0.3,), (0.7,), (1.0,), (0.3, 0.9)))
_MANY = (
    (1.0, 2.0, 3.0, 5.0, 10.0, 20.0),
    ((0.3,), (0.5,), (0.7,), (1.0,), (0.3, 0.9), (0.0, 1.0)),
)
TIMED = ("dp", "alsa-pi", "balsa", "lagrangian", "whittle", "lagrangian-bayes", "whittle-bayes")


def write_theory(
    results: Results, folder: Path, quick: bool, say: Say
) -> tuple[list[BacklogRow], list[Path]]:
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
    return rows, paths


def _write_backlogs(results: Results, folder: Path) -> tuple[list[BacklogRow], list[Path]]:
    from fedwave.theory.bound import backlog_bound

    point = results.only
    network = network_of(point.experiment.network)
    bound = backlog_bound(network)
    rows = backlog_table(point, bound.value, float(network.rates.sum()), network.gamma)
    heading, lines = backlog_lines(rows)
    how = point.experiment
    caption = f"Mean backlog, {how.instances} instances, rounds {how.burn_in + 1} to {how.rounds}, 95 % intervals."
    paths = [write_text(folder / "backlogs.md", markdown(heading, lines))]
    paths.append(write_text(folder / "backlogs.tex", latex(heading, lines, caption)))
    told: dict[str, Any] = {"value": bound.value, "error": bound.error, "price": bound.price}
    told |= {"service": bound.service.tolist(), "cost": bound.cost.tolist()}
    by_label = {row.label: {**vars(row.backlog), "gap": row.gap} for row in rows}
    paths.append(write_json(folder / "backlogs.json", {"bound": told, "schedulers": by_label}))
    return rows, paths


def backlog_lines(rows: list[BacklogRow]) -> tuple[list[str], list[list[str]]]:
    """The table as text, for the terminal and for files."""
    heading = ["scheduler", "mean backlog", "above the bound", "score in the long run"]
    lines = []
    for row in rows:
        gap = "-" if row.gap is None else f"{100 * row.gap:+.2f} %"
        score = with_interval(row.score.mean, row.score.half_width, most=4)
        lines.append([row.label, with_interval(row.backlog.mean, row.backlog.half_width), gap, score])  # fmt: skip
    return heading, lines


def _write_gaps(folder: Path, quick: bool) -> list[Path]:
    from fedwave.experiments.report.figures.theory import gap_figure

    found = gap_map(*(_FEW if quick else _MANY))
    lines = [
        [rate, " or ".join(map(str, chances)), found.optimal[i, j], found.greedy[i, j], found.gap[i, j]]
        for i, chances in enumerate(found.levels)
        for j, rate in enumerate(found.rates)
    ]  # fmt: skip
    heading = ["rate_of_the_second", "success", "optimal_backlog", "greedy_backlog", "gap"]
    return [*save_figure(gap_figure(found), folder / "gap"), write_csv(folder / "gap.csv", heading, lines)]  # fmt: skip


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
    ]  # fmt: skip


def _write_regret(folder: Path, quick: bool) -> list[Path]:
    from fedwave.experiments.report.figures.regret import regret_figure
    from fedwave.theory.regret import RegretSetting, regret

    found = regret(RegretSetting.quick() if quick else RegretSetting())
    heading, lines = found.table()
    paths = save_figure(regret_figure(found), folder / "regret")
    return [*paths, write_csv(folder / "regret.csv", heading, lines)]


def _write_convergence(folder: Path, quick: bool) -> list[Path]:
    from fedwave.experiments.report.figures.convergence import convergence_figure
    from fedwave.theory.convergence import apart, convergence
    from fedwave.theory.convergence_setting import Setting

    setting = replace(Setting(), rounds=60, instances=5) if quick else Setting()
    tried = convergence(setting)
    heading, lines = tried.table()
    paths = save_figure(convergence_figure(tried, apart(tried)), folder / "convergence")
    return [*paths, write_csv(folder / "convergence.csv", heading, lines)]
