"""Theorem 3 and Lemma 4 beside what happens: regret to the Bellman optimum, to greedy, and the number of stages.

The theorem bounds R(T) = E[T J* - sum of r], J* being the optimum of the drawn rates. BALSA plays greedy, as if greedy
were optimal; where it is not, every round costs J* - J_greedy, and R(T) grows in proportion to T. The sums of gaps
that are drawn for R(T) are explained in regret_measures.py, the networks in regret_setting.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedwave.planning.exact_model import decisions
from fedwave.schedulers.base import Scheduler, scheduler
from fedwave.schedulers.stages import STAGE_RULES
from fedwave.simulate import simulate
from fedwave.theory.regret_measures import gaps, plain, rest, span, stages_begun
from fedwave.theory.regret_setting import InformedGreedy, RegretSetting
from fedwave.theory.value_iteration import average_of, value_iteration
from fedwave.trace import Trace
from fedwave.types import FloatArray, IntArray

_BACKLOG_BINS = 4  # that stages.py tells apart


@dataclass(frozen=True, eq=False)
class Regret:
    """Regret by scheduler, stages by rule; row t - 1 is what holds after t rounds."""

    setting: RegretSetting
    states: int  # S
    actions: int  # A
    span: float  # H: of v, the largest of all instances
    optimum: FloatArray  # [I] J*
    greedy: FloatArray  # [I] J of greedy with known rates
    error: float  # by how much truncation may have moved J*, at most
    regret: Mapping[str, FloatArray]  # [T, I] the sum of gaps
    plain: Mapping[str, FloatArray]  # [I] T J* - sum of r after the last round
    rest: Mapping[str, FloatArray]  # [I] v(s_{T+1}) - v(s_1): what `plain` has on top, on average
    stages: Mapping[str, IntArray]  # [T, I] stages of BALSA so far

    @property
    def rounds(self) -> FloatArray:
        """1, 2, ..., T."""
        return np.arange(1.0, self.setting.rounds + 1)

    def to_greedy(self, label: str) -> FloatArray:
        """Regret to greedy instead of the optimum, ``[T, I]``: below 0 where a scheduler does better."""
        return self.regret[label] - self.rounds[:, None] * (self.optimum - self.greedy)

    def slope(self, label: str) -> FloatArray:
        """Regret to the optimum a round, over the second half of the rounds, ``[I]``."""
        half = self.setting.rounds // 2
        rise: FloatArray = self.regret[label][-1] - self.regret[label][half - 1]
        return rise / (self.setting.rounds - half)

    def bound(self, rounds: FloatArray | float) -> FloatArray:
        """Theorem 3 as printed."""
        t = np.asarray(rounds, dtype=np.float64)
        count, wide = self.states * self.actions, 49 * self.span * self.states
        return (self.span + 1) * np.sqrt(2 * count * t * np.log(t)) + wide * np.sqrt(
            self.actions * t * np.log(self.actions * t)
        )

    def crossing(self, slope: float = 1.0) -> float:
        """The round from which slope * T exceeds the bound.

        Up to that of slope 1 the bound says nothing: no regret exceeds T. From that of a regret that does grow by
        ``slope`` a round, the theorem is wrong.
        """
        if slope <= 0:
            return np.inf
        low, high = 1.0, 2.0
        while self.bound(high) > slope * high:
            low, high = high, 2 * high
        while high - low > 1e-3 * low:
            middle = (low + high) / 2
            low, high = (middle, high) if self.bound(middle) > slope * middle else (low, middle)
        return high

    @property
    def counted_states(self) -> int:
        """The states that stages.py tells apart when it counts visits."""
        each = len(self.setting.gains) * _BACKLOG_BINS
        return int(each ** len(self.setting.distances))

    def lemma(self, rounds: FloatArray | float, states: int) -> FloatArray:
        """Lemma 4: the most stages, sqrt(2 S A T log T)."""
        t = np.asarray(rounds, dtype=np.float64)
        out: FloatArray = np.sqrt(2 * states * self.actions * t * np.log(t))
        return out

    def table(self) -> tuple[list[str], list[list[float]]]:
        """Heading and one line per round, means over instances."""
        columns = {"round": self.rounds}
        columns |= {f"regret {k}": v.mean(axis=1) for k, v in self.regret.items()}
        columns |= {f"to greedy {k}": self.to_greedy(k).mean(axis=1) for k in self.regret}
        columns |= {f"stages {k}": v.mean(axis=1) for k, v in self.stages.items()}
        columns["bound"] = self.bound(self.rounds)
        columns["lemma 4"] = self.lemma(self.rounds, self.states)
        columns["lemma 4, counted states"] = self.lemma(self.rounds, self.counted_states)
        return list(columns), np.stack(list(columns.values()), axis=1).tolist()


def regret(setting: RegretSetting | None = None) -> Regret:
    """Run greedy, the learning schedulers and every stage rule on the same worlds."""
    setting = setting or RegretSetting()
    problems = [setting.problem(i) for i in range(setting.instances)]
    best = [value_iteration(problem) for problem in problems]
    greedy = [average_of(problem, partial(_greedy, problem.theta)) for problem in problems]
    traces = {label: _run(setting, policy) for label, policy in policies(setting).items()}
    stages = {"literal": stages_begun(traces["balsa"])}
    for rule in STAGE_RULES:
        if rule not in stages:
            policy = scheduler("balsa", prior=setting.prior, stage_rule=rule)
            stages[rule] = stages_begun(_run(setting, policy))
    arrivals, g = setting.theta.sum(axis=1), np.array([one.backlog for one in best])
    return Regret(
        setting=setting, states=setting.states,
        actions=len(decisions(len(setting.distances), setting.slots)),
        span=max(span(setting, one) for one in best),
        optimum=(arrivals - setting.gamma * g) / setting.scale,
        greedy=(arrivals - setting.gamma * np.array(greedy)) / setting.scale,
        error=setting.gamma * max(one.error for one in best) / setting.scale,
        regret={k: np.cumsum(gaps(setting, trace, best), axis=0) for k, trace in traces.items()},
        plain={k: plain(setting, trace, best) for k, trace in traces.items()},
        rest={k: rest(setting, trace, best) for k, trace in traces.items()},
        stages=stages,
    )  # fmt: skip


def policies(setting: RegretSetting) -> dict[str, Scheduler]:
    """Greedy, which knows the rates, and the schedulers that learn them from the same prior."""
    prior = setting.prior
    # As many steps as backlogs: dp-ts plans with the same states as the optimum.
    exact = {"levels": len(setting.gains), "steps": setting.truncation}
    return {
        "alsa-pi": InformedGreedy(setting.theta),
        "balsa": scheduler("balsa", prior=prior),
        "lagrangian-bayes": scheduler("lagrangian-bayes", prior=prior),
        "dp-ts": scheduler("dp-ts", prior=prior, **exact),
    }


def _greedy(theta: FloatArray, p: FloatArray, waiting: IntArray) -> FloatArray:
    return p * (waiting + theta)


def _run(setting: RegretSetting, policy: Scheduler) -> Trace:
    ids = range(setting.instances)
    return simulate(setting.network, policy, setting.rounds, ids, setting.seed, beliefs=True)
