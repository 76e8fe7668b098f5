"""Theory against practice: greedy's gap to the optimum, what a decision costs in time, and the table of backlogs.

The optimum and the bound are computed in theory/; here they are set beside what is measured.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.experiments.results.comparison import Row, table
from fedwave.experiments.results.statistics import Estimate
from fedwave.experiments.run.runner import Point
from fedwave.network.network import random_network
from fedwave.rng import Draws
from fedwave.schedulers.base import Scheduler, scheduler
from fedwave.simulate import simulate
from fedwave.types import Decision, FloatArray, Observation, State

_TOLERANCE = 1e-5  # of a backlog in the map, which shows a tenth of a percent


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
        return np.maximum(
            self.greedy / self.optimal - 1, 0.0
        )  # 0 to rounding where both are the same


def gap_map(rates: Sequence[float], levels: Sequence[Sequence[float]]) -> GapMap:
    """Solve every combination exactly."""
    from fedwave.theory.exact_problem import SmallProblem
    from fedwave.theory.value_iteration import average_of, value_iteration

    found = np.empty((2, len(levels), len(rates)))
    for i, chances in enumerate(levels):
        for j, rate in enumerate(rates):
            problem = SmallProblem([1.0, rate], [list(chances)] * 2, slots=1)
            theta = np.array([1.0, rate])
            found[0, i, j] = value_iteration(problem, _TOLERANCE).backlog
            found[1, i, j] = average_of(problem, lambda p, n, t=theta: p * (n + t), _TOLERANCE)  # type: ignore[misc]
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
                simulate(
                    network,
                    _timed(scheduler(name), seconds),
                    rounds,
                    instances,
                    seed=0,
                    record="summary",
                )
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
    rows: list[Row] = table(point.outcomes, point.experiment.base, point.experiment.burn_in)
    lines = [_line(row, bound, total_rate, gamma) for row in rows]
    lines.sort(key=lambda line: -line.backlog.mean)
    exact = [Estimate(value, 0.0, 0.0) for value in (bound, total_rate - gamma * bound)]
    return [*lines, BacklogRow("the bound", exact[0], exact[1], None)]


def _line(row: Row, bound: float, total_rate: float, gamma: float) -> BacklogRow:
    backlog = row.values["backlog"]
    # The score of a finite run is mostly the luck of its arrivals; in the long run it is this.
    width, error = gamma * backlog.half_width, gamma * backlog.standard_error
    score = Estimate(total_rate - gamma * backlog.mean, width, error)
    return BacklogRow(row.label, backlog, score, backlog.mean / bound - 1)


def times_ratio(times: Sequence[DecisionTime], over: str, under: str, devices: int) -> float:
    """How many times as long a decision of one takes as one of the other, from the same run."""
    later = {(t.scheduler, t.devices): t.later for t in times}
    return later[over, devices] / later[under, devices]
