"""Theorem 3 and Lemma 4 compared with simulations: regret to the Bellman optimum, to greedy, and the number of stages.

The theorem bounds R(T) = E[T J* - sum of r], where J* is the optimum for the drawn rates. BALSA plays greedy as if
greedy were optimal. Where it is not, every round costs J* - J_greedy, and R(T) grows linearly in T.

Networks are so small that the Bellman optimum is known. Every instance has its own rates, drawn from the prior that
the learning schedulers use: the regret of the theorem is a mean over that prior. The gain of each device takes a few
equally likely levels, independent from round to round, so the optimum uses exactly the p that the simulation draws.
Backlogs are cut at ``truncation`` for planning and for counting states.

The regret is computed from gaps, without the randomness of arrivals. Let v be the bias of the optimum and

    gap(s, a) = J* + v(s) - r(s, a) - E[v(s') | s, a] >= 0

the loss of a decision. Over a run, E[T J* - sum of r] = E[sum of gap] + E v(s_{T+1}) - v(s_1). The last two terms
differ by at most H and do not grow. The sum of gaps never falls.

In every round F = arrivals - (B' - B) - gamma B'. Hence J* = sum of theta - gamma g with g the least mean backlog,
v = B - gamma h with h the bias of the backlog (policy_value.py), and a gap is gamma times the loss in backlog. Rewards
are scores scaled to [0, 1]: everything is divided by ``RegretSetting.scale``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
from numpy.random import Generator

import fedwave as fw
from fedwave.paper import Counts, Floats

STAGE_RULES = ("literal", "max1", "per-device")  # of BALSA; the first is its own
_BACKLOG_BINS = 4  # that BALSA tells apart at a device when it counts visits


@dataclass(frozen=True)
class LevelFading(fw.fading.Fading):
    """Gains that take the given levels, equally likely and independent."""

    levels: tuple[float, ...]

    name = "levels"

    def sample(self, block: Any, carry: Any) -> tuple[Floats, Any]:
        return block.draw(self.fresh), None

    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> Floats:
        return rng.choice(np.array(self.levels), shape)

    def quartiles(self) -> tuple[float, float, float]:
        return fw.fading.sample_quartiles(self.levels)

    def sum_quantiles(self, tries: int, probability: Floats) -> Floats:
        if tries > 1:
            return super().sum_quantiles(tries, probability)
        rising = np.sort(self.levels)
        at = (np.asarray(probability) * rising.size).astype(np.int64)
        out: Floats = rising[np.minimum(at, rising.size - 1)]
        return out


@dataclass(frozen=True, eq=False)
class DrawnPoisson(fw.arrivals.Poisson):
    """Poisson arrivals with different rates in each instance, ``[I, U]``; the rates of the device table are unused."""

    theta: Floats

    name = "drawn-poisson"

    def sample(self, block: Any, rates: Floats) -> Counts:
        shape = (block.rounds, block.devices)
        pairs = zip(block.generators, self.theta[block.ids], strict=True)
        return np.stack([rng.poisson(theta, shape) for rng, theta in pairs], axis=1)


@dataclass(frozen=True, eq=False)
class InformedGreedy(fw.Scheduler):
    """ALSA-PI with known rates that differ in each instance."""

    theta: Floats  # [I, U]

    name = "informed-greedy"
    needs = frozenset({"channel", "backlog"})

    def priority(self, state: fw.State, seen: fw.Observation, draws: fw.Draws) -> Floats:
        return seen.success * (seen.waiting + self.theta)


@dataclass(frozen=True)
class RegretSetting:
    """A small network, the prior of its rates, and the length of the simulation."""

    distances: tuple[float, ...] = (300.0, 400.0)
    gains: tuple[float, ...] = (0.15, 1.85)
    slots: int = 1
    gamma: float = 0.01
    prior: fw.priors.Truncated = field(default_factory=lambda: fw.priors.Truncated(0.1, 4.0))
    truncation: int = 40
    rounds: int = 2000
    instances: int = 20
    seed: int = 0

    @cached_property
    def theta(self) -> Floats:
        """The rates of every instance, drawn from the prior: ``[I, U]``."""
        rows = np.arange(self.instances)
        nothing = np.zeros((self.instances, len(self.distances)), dtype=np.int64)
        # Simulations start with round 1, so no other draws come from round 0.
        draws = fw.Draws(self.seed, rows).at(0)
        return fw.posterior.ConjugatePosterior(self.prior).sample({"counted": nothing, "covered": nothing}, rows, draws)

    @cached_property
    def network(self) -> fw.Network:
        """One network for all instances; only their arrivals differ."""
        middle = np.full(len(self.distances), (self.prior.low + self.prior.high) / 2)
        table = fw.DeviceTable(rate=middle, distance_m=np.array(self.distances))
        soft, arrivals = fw.success.Soft(), DrawnPoisson(self.theta)
        return fw.Network(table, self.slots, self.gamma, LevelFading(self.gains), soft, arrivals)

    def problem(self, instance: int) -> fw.theory.ExactProblem:
        """The exact problem of one instance with known rates."""
        planning = self.network.planning
        levels = planning.success_levels(planning.mean_snr, len(self.gains))
        return fw.theory.ExactProblem(self.theta[instance], levels, self.slots, truncation=self.truncation)

    @property
    def states(self) -> int:
        """S: channel levels and backlogs of all devices."""
        return int((len(self.gains) * (self.truncation + 1)) ** len(self.distances))

    @property
    def scale(self) -> float:
        """The difference between the largest and the least expected score; rewards are divided by it."""
        most = self.truncation + self.prior.high
        return (self.slots + self.gamma * len(self.distances)) * most


@dataclass(frozen=True, eq=False)
class Regret:
    """Regret by scheduler, stages by rule; row t - 1 holds the values after t rounds."""

    setting: RegretSetting
    states: int  # S
    actions: int  # A
    span: float  # H of v, the largest over instances
    optimum: Floats  # [I] J*
    greedy: Floats  # [I] J of greedy with known rates
    regret: Mapping[str, Floats]  # [T, I] sum of gaps
    stages: Mapping[str, Counts]  # [T, I] stages of BALSA so far

    @property
    def rounds(self) -> Floats:
        """1, 2, ..., T."""
        return np.arange(1.0, self.setting.rounds + 1)

    def to_greedy(self, label: str) -> Floats:
        """Regret to greedy instead of the optimum, ``[T, I]``; negative for a scheduler that beats greedy."""
        return self.regret[label] - self.rounds[:, None] * (self.optimum - self.greedy)

    def slope(self, label: str) -> Floats:
        """Regret to the optimum per round, over the second half of the rounds, ``[I]``."""
        half = self.setting.rounds // 2
        rise: Floats = self.regret[label][-1] - self.regret[label][half - 1]
        return rise / (self.setting.rounds - half)

    def bound(self, rounds: Floats | float) -> Floats:
        """Theorem 3 as printed."""
        t = np.asarray(rounds, dtype=np.float64)
        wide = 49 * self.span * self.states * np.sqrt(self.actions * t * np.log(self.actions * t))
        return (self.span + 1) * self.lemma(t, self.states) + wide

    def crossing(self, slope: float = 1.0) -> float:
        """The round from which on slope * T exceeds the bound.

        The bound is trivial up to the crossing of slope 1, because no regret exceeds T. A regret that grows by
        ``slope`` per round contradicts the theorem from its crossing on.
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
        """The number of states that BALSA distinguishes when it counts visits."""
        each = len(self.setting.gains) * _BACKLOG_BINS
        return int(each ** len(self.setting.distances))

    def lemma(self, rounds: Floats | float, states: int) -> Floats:
        """Lemma 4: the largest number of stages, sqrt(2 S A T log T)."""
        t = np.asarray(rounds, dtype=np.float64)
        out: Floats = np.sqrt(2 * states * self.actions * t * np.log(t))
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
    """Simulates greedy, the learning schedulers and every stage rule on the same worlds."""
    setting = setting or RegretSetting()
    problems = [setting.problem(i) for i in range(setting.instances)]
    best = [fw.theory.value_iteration(problem) for problem in problems]
    greedy = [fw.theory.mean_backlog(problem, partial(greedy_priority, problem.theta)) for problem in problems]
    prior = setting.prior
    policies = {
        "alsa-pi": InformedGreedy(setting.theta),
        "balsa": fw.scheduler("balsa", prior=prior),
        "lagrangian-bayes": fw.scheduler("lagrangian-bayes", prior=prior),
        # With as many steps as backlogs, dp-ts plans with the same states as the optimum.
        "dp-ts": fw.scheduler("dp-ts", prior=prior, levels=len(setting.gains), steps=setting.truncation),
    }
    traces = {label: _run(setting, policy) for label, policy in policies.items()}
    by_rule = {STAGE_RULES[0]: traces["balsa"]}
    by_rule |= {r: _run(setting, fw.scheduler("balsa", prior=prior, stage_rule=r)) for r in STAGE_RULES[1:]}
    arrivals, g = setting.theta.sum(axis=1), np.array([one.backlog for one in best])
    return Regret(
        setting=setting,
        states=setting.states,
        actions=len(best[0].decisions),
        span=max(bias_span(setting, one) for one in best),
        optimum=(arrivals - setting.gamma * g) / setting.scale,
        greedy=(arrivals - setting.gamma * np.array(greedy)) / setting.scale,
        regret={k: np.cumsum(gaps(setting, trace, best), axis=0) for k, trace in traces.items()},
        stages={rule: stages_begun(trace) for rule, trace in by_rule.items()},
    )


def greedy_priority(theta: Floats, p: Floats, waiting: Counts) -> Floats:
    """Of ALSA-PI: the expected number of shards that arrive."""
    return p * (waiting + theta)


def _run(setting: RegretSetting, policy: fw.Scheduler) -> fw.Trace:
    ids = range(setting.instances)
    return fw.simulate(setting.network, policy, setting.rounds, ids, setting.seed, beliefs=True)


def stages_begun(trace: fw.Trace) -> Counts:
    """The number of stages that have begun by every round, ``[T, I]``."""
    begun = trace.beliefs["stage_start"] == np.arange(1, trace.rounds + 1)[:, None]
    return np.cumsum(begun, axis=0)


def gaps(setting: RegretSetting, trace: fw.Trace, best: Sequence[fw.theory.Optimum]) -> Floats:
    """The gap of every decision, ``[T, I]``."""
    network = setting.network
    p = network.success.probability(network.mean_snr * trace.gain)
    taken = (trace.scheduled[:, :, None, :] == best[0].decisions).all(axis=3)  # [T, I, A]
    gains = [one.table.decision_gains(p[:, i], trace.waiting[:, i]) for i, one in enumerate(best)]
    value = np.stack(gains, axis=1)
    lost: Floats = value.max(axis=2) - (value * taken).sum(axis=2)
    return lost * setting.gamma / setting.scale


def bias_span(setting: RegretSetting, optimum: fw.theory.Optimum) -> float:
    """H: the difference between the largest and the least v over all channels and backlogs."""
    waiting = np.indices(optimum.bias.shape).reshape(optimum.bias.ndim, -1).T
    channels = product(*optimum.problem.levels)
    repeated = (np.tile(p, (len(waiting), 1)) for p in channels)
    best = np.stack([optimum.table.decision_gains(p, waiting).max(axis=1) for p in repeated])
    # The bias is a mean over channels; in a good channel the cost is lower.
    cost = optimum.bias.reshape(-1) + best.mean(axis=0) - best
    value = waiting.sum(axis=1) - setting.gamma * cost
    return float(np.ptp(value)) / setting.scale
