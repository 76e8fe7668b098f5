"""The theorems beside measurements: the bound on the backlog, greedy's gap, decision times, regret, convergence.

``PARTS`` makes each part: the contents of its files, by their names. A name without an ending is a figure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import fedwave as fw
from fedwave.paper.array_types import Floats
from fedwave.paper.convergence import convergence, with_different_data
from fedwave.paper.convergence_figure import convergence_figure
from fedwave.paper.convergence_problem import ConvergenceSetting
from fedwave.paper.regret import Regret, RegretSetting, regret
from fedwave.paper.regret_figure import regret_figure

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_TOLERANCE = 1e-5  # of a backlog in the map, which shows a tenth of a percent
# Rates of the second device, and equally likely success probabilities.
_FEW = ((1.0, 3.0, 10.0), ((0.3,), (0.7,), (1.0,), (0.3, 0.9)))
_MANY = ((1.0, 2.0, 3.0, 5.0, 10.0, 20.0), ((0.3,), (0.5,), (0.7,), (1.0,), (0.3, 0.9), (0.0, 1.0)))
TIMED = ("dp", "alsa-pi", "balsa", "lagrangian", "whittle", "lagrangian-bayes", "whittle-bayes")

Table = tuple[list[str], list[list[Any]]]  # heading and rows
Files = dict[str, Any]  # Figure, Table, text or JSON by the name of the file


@dataclass(frozen=True)
class BacklogRow:
    """One line of the table of backlogs."""

    label: str
    backlog: fw.statistics.Estimate
    score: fw.statistics.Estimate
    gap: float | None  # to the bound, as a share


def backlog_table(found: fw.Comparison, bound: float, total_rate: float, gamma: float) -> list[BacklogRow]:
    """Schedulers by their backlog, and the bound as the last line."""
    Estimate = fw.statistics.Estimate
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


def backlog_lines(rows: Sequence[BacklogRow]) -> Table:
    """The table as text."""
    heading = ["scheduler", "mean backlog", "above the bound", "score in the long run"]
    text, lines = fw.tables.with_interval, []
    for row in rows:
        gap = "-" if row.gap is None else f"{100 * row.gap:+.2f} %"
        score = text(row.score.mean, row.score.half_width, most=4)
        lines.append([row.label, text(row.backlog.mean, row.backlog.half_width), gap, score])
    return heading, lines


def backlogs(data: xr.Dataset, network: fw.Network, base: str, burn_in: int) -> tuple[list[BacklogRow], Files]:
    """The table of backlogs on a network, from the results of a run on it."""
    bound = fw.backlog_bound(network)
    found = fw.Comparison.of(data, base, burn_in)
    rows = backlog_table(found, bound.value, float(network.rates.sum()), network.gamma)
    table, last = backlog_lines(rows), data.sizes["round"]
    caption = f"Mean backlog in rounds {burn_in + 1} to {last}, with 95 % intervals: {fw.figures.title(data)}."
    about: dict[str, Any] = {"value": bound.value, "error": bound.error, "price": bound.price}
    about |= {"service": bound.service.tolist(), "cost": bound.cost.tolist()}
    return rows, {
        "backlogs.md": f"**{caption}**\n\n{fw.tables.markdown(*table)}",
        "backlogs.tex": fw.tables.latex(*table, caption),
        "backlogs.json": {"bound": about, "schedulers": {row.label: plain_row(row) for row in rows}},
    }


def plain_row(row: BacklogRow) -> dict[str, Any]:
    """A line of the table of backlogs for JSON."""
    return {**vars(row.backlog), "gap": row.gap}


@dataclass(frozen=True)
class GapMap:
    """Two devices, W = 1: how much more backlog greedy has than the optimum, as a share."""

    rates: tuple[float, ...]  # of the second device; the first has rate 1
    levels: tuple[tuple[float, ...], ...]  # equally likely success probabilities, of both devices
    optimal: Floats  # [level, rate]
    greedy: Floats

    @property
    def gap(self) -> Floats:
        """``[level, rate]``."""
        return np.maximum(self.greedy / self.optimal - 1, 0.0)  # 0 to rounding where both are the same


def gap_map(rates: Sequence[float], levels: Sequence[Sequence[float]]) -> GapMap:
    """Solves every combination exactly."""
    found = np.empty((2, len(levels), len(rates)))
    for i, chances in enumerate(levels):
        for j, rate in enumerate(rates):
            problem = fw.theory.ExactProblem([1.0, rate], [list(chances)] * 2, slots=1)
            theta = np.array([1.0, rate])
            found[0, i, j] = fw.theory.value_iteration(problem, _TOLERANCE).backlog
            greedy: Any = lambda p, n, t=theta: p * (n + t)  # noqa: E731
            found[1, i, j] = fw.theory.mean_backlog(problem, greedy, _TOLERANCE)
    return GapMap(tuple(rates), tuple(tuple(c) for c in levels), found[0], found[1])


def gap_figure(found: GapMap) -> Figure:
    """A map: the rate of the second device to the right, the channel upwards, the gap as colour and number."""
    figure, (axes,) = fw.figures.figure_with(1, 1, (8.4, 5.0))
    percent = 100 * found.gap
    image = axes.imshow(percent, origin="lower", cmap="YlOrBr", vmin=0, aspect="auto")
    for (i, j), value in np.ndenumerate(percent):
        colour = "white" if value > 0.6 * percent.max() else "0.15"
        axes.text(j, i, f"{value:.1f}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(found.rates)), [f"{rate:g}" for rate in found.rates])
    names = [" or ".join(f"{p:g}" for p in sorted(set(levels))) for levels in found.levels]
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("Rate of the second device (the first has 1)")
    axes.set_ylabel("Success probability, equally likely")
    axes.set_title("Greedy's backlog above the optimum, %", loc="left", fontsize=10)
    figure.colorbar(image, ax=axes, label="%")
    note = "U = 2, W = 1, Poisson arrivals; both exact (relative value iteration)."
    figure.supxlabel(note, fontsize=8, color="0.35")
    return figure


def _gaps(quick: bool) -> Files:
    found = gap_map(*(_FEW if quick else _MANY))
    lines = [
        [rate, " or ".join(map(str, chances)), found.optimal[i, j], found.greedy[i, j], found.gap[i, j]]
        for i, chances in enumerate(found.levels)
        for j, rate in enumerate(found.rates)
    ]
    heading = ["rate_of_the_second", "success", "optimal_backlog", "greedy_backlog", "gap"]
    return {"gap": gap_figure(found), "gap.csv": (heading, lines)}


@dataclass(frozen=True)
class DecisionTime:
    """What one scheduler's decisions cost on networks of one size."""

    scheduler: str
    devices: int
    first: float  # seconds of the first decision, in which some solve or fill tables
    later: float  # seconds of a later one, per instance (the median)


def _timed(inner: fw.Scheduler, seconds: list[float]) -> fw.Scheduler:
    """The same scheduler with a stopwatch at its decisions."""
    kind: Any = type(inner)

    class Timed(kind):  # type: ignore[misc]
        def decide(self, state: fw.State, seen: fw.Observation, draws: fw.Draws) -> tuple[fw.Decision, fw.State]:
            begin = time.perf_counter()
            out: tuple[fw.Decision, fw.State] = super().decide(state, seen, draws)
            seconds.append(time.perf_counter() - begin)
            return out

    timed: fw.Scheduler = copy(inner)
    object.__setattr__(timed, "__class__", Timed)
    return timed


def decision_times(
    names: Sequence[str], sizes: Sequence[int], rounds: int = 12, instances: int = 4
) -> list[DecisionTime]:
    """Measures decisions on random networks with W = a fifth of U; leaves out sizes that a scheduler refuses."""
    found = []
    for size in sizes:
        network = fw.random_network(size, max(1, size // 5), seed=size)
        for name in names:
            seconds: list[float] = []
            try:
                timed = _timed(fw.scheduler(name), seconds)
                fw.simulate(network, timed, rounds, instances, seed=0, record="summary")
            except fw.FedwaveError:
                continue  # too large for it: that is the result
            later = float(np.median(seconds[1:])) / instances
            found.append(DecisionTime(name, size, seconds[0], later))
    return found


def times_ratio(times: Sequence[DecisionTime], over: str, under: str, devices: int) -> float:
    """How many times as long a decision of one takes as one of the other, from the same run."""
    later = {(t.scheduler, t.devices): t.later for t in times}
    return later[over, devices] / later[under, devices]


def times_figure(times: Sequence[DecisionTime]) -> Figure:
    """The complexity table measured: seconds of a decision against U, first and later ones."""
    figure, (left, right) = fw.figures.figure_with(1, 2, (10, 4.6))
    names = list(dict.fromkeys(t.scheduler for t in times))
    looks = fw.figures.styles(names)
    for name in names:
        mine = [t for t in times if t.scheduler == name]
        sizes = [t.devices for t in mine]
        for axis, values in ((left, [t.later for t in mine]), (right, [t.first for t in mine])):
            look = {**looks[name], "label": fw.figures.name_of(name)}
            axis.plot(sizes, values, ms=3.5, lw=1.2, **look)
    titles = ("(a) A decision, per instance", "(b) The first one, with what is solved before")
    for axis, title in zip((left, right), titles, strict=True):
        axis.set_xscale("log")
        axis.set_yscale("log")
        fw.figures.label_panel(axis, title, "Devices U", "Seconds")
        fw.figures.plain_numbers(axis.xaxis)
    note = "One core. A line that ends: the scheduler refuses larger networks."
    return fw.figures.finish(figure, left, "Random networks, W = U / 5, γ = 0.01", note)


def _times(quick: bool) -> Files:
    times = decision_times(TIMED, (2, 3, 10, 100, 1000) if quick else (2, 3, 5, 10, 25, 100, 1000, 10_000))
    lines = [[t.scheduler, t.devices, f"{t.first:.6g}", f"{t.later:.6g}"] for t in times]
    ratio = times_ratio(times, "lagrangian-bayes", "balsa", 1000)
    return {
        "times": times_figure(times),
        "times.csv": (["scheduler", "devices", "first_seconds", "later_seconds"], lines),
        "times.json": {"lagrangian-bayes over balsa at 1000 devices": ratio},
    }


def _regret(quick: bool) -> Files:
    found = regret(RegretSetting.quick() if quick else RegretSetting())
    return {"regret": regret_figure(found), "regret.csv": found.table(), "regret.json": regret_slopes(found)}


def regret_slopes(found: Regret) -> dict[str, Any]:
    """Regret a round over the second half of the rounds, with its interval over instances."""
    lost = found.optimum - found.greedy
    slopes = {label: found.slope(label) for label in found.regret}
    slopes |= {"J* - J of greedy": lost, "balsa less J* - J of greedy": slopes["balsa"] - lost}
    return {
        "regret a round": {label: vars(fw.statistics.estimate(values)) for label, values in slopes.items()},
        "the printed bound exceeds T up to round": found.crossing(),
        "states that are told apart": found.counted_states,
    }


def _convergence(quick: bool) -> Files:
    setting = replace(ConvergenceSetting(), rounds=60, instances=5) if quick else ConvergenceSetting()
    tried = convergence(setting)
    figure = convergence_figure(tried, with_different_data(tried))
    return {"convergence": figure, "convergence.csv": tried.table()}


# Of each part that needs no run: what it makes, small or as large as the paper's.
PARTS: dict[str, Callable[[bool], Files]] = {
    "greedy's gap": _gaps,
    "decision times": _times,
    "regret": _regret,
    "convergence": _convergence,
}
FILES = frozenset(
    {
        *(f"{name}.{ending}" for name in ("gap", "times", "regret", "convergence") for ending in ("png", "svg", "csv")),
        *(f"backlogs.{ending}" for ending in ("md", "tex", "json")),
        "times.json",
        "regret.json",
    }
)
