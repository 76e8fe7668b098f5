"""The theorems beside measurements: the bound on the backlog, greedy's gap, decision times, regret, convergence.

``PARTS`` makes each part: the contents of its files, by their names. A name without an ending is a figure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

import fedwave as fw
from fedwave.paper import Floats
from fedwave.paper.convergence import convergence, with_different_data
from fedwave.paper.convergence_problem import ConvergenceSetting
from fedwave.paper.regret import RegretSetting, greedy_priority, regret
from fedwave.paper.theory_figures import convergence_figure, gap_figure, regret_figure, times_figure

if TYPE_CHECKING:
    import xarray as xr

_TOLERANCE = 1e-5  # of a backlog in the map, which shows a tenth of a percent
# Rates of the second device, and equally likely success probabilities.
_FEW = ((1.0, 3.0, 10.0), ((0.3,), (0.7,), (1.0,), (0.3, 0.9)))
_MANY = ((1.0, 2.0, 3.0, 5.0, 10.0, 20.0), ((0.3,), (0.5,), (0.7,), (1.0,), (0.3, 0.9), (0.0, 1.0)))
TIMED = ("dp", "alsa-pi", "balsa", "lagrangian", "whittle", "lagrangian-bayes", "whittle-bayes")

Table = tuple[list[str], list[list[Any]]]  # heading and rows
Files = dict[str, Any]  # Figure, Table, text or JSON by the name of the file
Times = dict[tuple[str, int], tuple[float, float]]  # by scheduler and number of devices: seconds of a decision


def backlogs(data: xr.Dataset, network: fw.Network, base: str, burn_in: int) -> tuple[Table, Files]:
    """Schedulers by their backlog, from a run on a network, and the bound as the last row: the table, and its files."""
    bound = fw.backlog_bound(network)
    found = fw.Comparison.of(data, base, burn_in)
    means = {label: found.estimate(label, "backlog") for label in found.schedulers}
    means = dict(sorted(means.items(), key=lambda item: -item[1].mean))
    means["the bound"] = fw.statistics.Estimate(bound.value, 0.0, 0.0)
    rows, told, text = [], {}, fw.tables.with_interval
    for label, backlog in means.items():
        gap = None if label == "the bound" else backlog.mean / bound.value - 1
        # The score of a finite run is mostly the luck of its arrivals; in the long run it is this.
        score = float(network.rates.sum()) - network.gamma * backlog.mean
        shown = text(score, network.gamma * backlog.half_width, most=4)
        above = "-" if gap is None else f"{100 * gap:+.2f} %"
        rows.append([label, text(backlog.mean, backlog.half_width), above, shown])
        told[label] = {**vars(backlog), "gap": gap}
    table = ["scheduler", "mean backlog", "above the bound", "score in the long run"], rows
    last = data.sizes["round"]
    caption = f"Mean backlog in rounds {burn_in + 1} to {last}, with 95 % intervals: {fw.figures.title(data)}."
    about: dict[str, Any] = {"value": bound.value, "error": bound.error, "price": bound.price}
    about |= {"service": bound.service.tolist(), "cost": bound.cost.tolist()}
    return table, {
        "backlogs.md": f"**{caption}**\n\n{fw.tables.markdown(*table)}",
        "backlogs.tex": fw.tables.latex(*table, caption),
        "backlogs.json": {"bound": about, "schedulers": told},
    }


def two_devices(rates: Sequence[float], levels: Sequence[Sequence[float]]) -> tuple[Floats, Floats]:
    """The optimal backlog and greedy's with W = 1, ``[level, rate]`` each, solved exactly.

    The first device has the rate 1, the second one of ``rates``; both have one of ``levels``, equally likely success
    probabilities.
    """
    found = np.empty((2, len(levels), len(rates)))
    for (i, chances), (j, rate) in product(enumerate(levels), enumerate(rates)):
        theta = np.array([1.0, rate])
        problem = fw.theory.ExactProblem(theta, [list(chances)] * 2, slots=1)
        greedy = partial(greedy_priority, theta)
        found[:, i, j] = (
            fw.theory.value_iteration(problem, _TOLERANCE).backlog,
            fw.theory.mean_backlog(problem, greedy, _TOLERANCE),
        )
    return found[0], found[1]


def _gaps(quick: bool) -> Files:
    rates, levels = _FEW if quick else _MANY
    optimal, greedy = two_devices(rates, levels)
    gap = np.maximum(greedy / optimal - 1, 0.0)  # 0 to rounding where both are the same
    rows = [
        [rate, " or ".join(map(str, chances)), optimal[i, j], greedy[i, j], gap[i, j]]
        for i, chances in enumerate(levels)
        for j, rate in enumerate(rates)
    ]
    heading = ["rate_of_the_second", "success", "optimal_backlog", "greedy_backlog", "gap"]
    return {"gap": gap_figure(rates, levels, gap), "gap.csv": (heading, rows)}


def _timed(name: str, seconds: list[float]) -> fw.Scheduler:
    """A scheduler with a stopwatch at its decisions."""
    timed = copy(fw.scheduler(name))
    decide = timed.decide

    def measured(*seen: Any) -> tuple[fw.Decision, fw.State]:
        begin = time.perf_counter()
        out = decide(*seen)
        seconds.append(time.perf_counter() - begin)
        return out

    object.__setattr__(timed, "decide", measured)  # it is frozen
    return timed


def decision_times(names: Sequence[str], sizes: Sequence[int], rounds: int = 12, instances: int = 4) -> Times:
    """Seconds of the first decision, in which some solve or fill tables, and the median of later ones per instance.

    On random networks with W = a fifth of U. Leaves out sizes that a scheduler refuses.
    """
    found: Times = {}
    for size in sizes:
        network = fw.random_network(size, max(1, size // 5), seed=size)
        for name in names:
            seconds: list[float] = []
            try:
                fw.simulate(network, _timed(name, seconds), rounds, instances, seed=0, record="summary")
            except fw.FedwaveError:
                continue  # too large for it: that is the result
            found[name, size] = seconds[0], float(np.median(seconds[1:])) / instances
    return found


def _times(quick: bool) -> Files:
    times = decision_times(TIMED, (2, 3, 10, 100, 1000) if quick else (2, 3, 5, 10, 25, 100, 1000, 10_000))
    rows = [[name, size, f"{first:.6g}", f"{later:.6g}"] for (name, size), (first, later) in times.items()]
    return {
        "times": times_figure(times),
        "times.csv": (["scheduler", "devices", "first_seconds", "later_seconds"], rows),
    }


def _regret(quick: bool) -> Files:
    found = regret(RegretSetting(rounds=400, instances=8) if quick else RegretSetting())
    lost = found.optimum - found.greedy
    slopes = {label: found.slope(label) for label in found.regret}
    slopes |= {"J* - J of greedy": lost, "balsa less J* - J of greedy": slopes["balsa"] - lost}
    told = {
        "regret a round": {label: vars(fw.statistics.estimate(values)) for label, values in slopes.items()},
        "the printed bound exceeds T up to round": found.crossing(),
        "states that are told apart": found.counted_states,
    }
    return {"regret": regret_figure(found), "regret.csv": found.table(), "regret.json": told}


def _convergence(quick: bool) -> Files:
    tried = convergence(ConvergenceSetting(rounds=60, instances=5) if quick else ConvergenceSetting())
    figure = convergence_figure(tried, with_different_data(tried))
    return {"convergence": figure, "convergence.csv": tried.table()}


# Of each part that needs no run: what it makes, small or as large as the paper's.
PARTS: dict[str, Callable[[bool], Files]] = {
    "greedy's gap": _gaps,
    "decision times": _times,
    "regret": _regret,
    "convergence": _convergence,
}
_FIGURES = ("gap", "times", "regret", "convergence")
FILES = {*_FIGURES, *(f"{name}.csv" for name in _FIGURES), "regret.json"}
FILES |= {f"backlogs.{ending}" for ending in ("md", "tex", "json")}
