"""What a run gave away, and how wide the optimum's values spread.

R(T) = E[T J* - sum of r] is counted without luck. Let v be the bias of the optimum and

    gap(s, a) = J* + v(s) - r(s, a) - E[v(s') | s, a] >= 0

what a decision gives away. Added up over a run, E[T J* - sum of r] = E[sum of gap] + E v(s_{T+1}) - v(s_1). The last
two differ by no more than H and do not grow; the sum of gaps never falls and has no luck of arrivals in it.

Scores and backlogs: F = arrivals - (B' - B) - gamma B' in every round. So J* = sum of theta - gamma g with g the least
mean backlog, v = B - gamma h with h the bias of the backlog (value_iteration.py), and a gap is gamma times what the
decision costs in backlog. Rewards are scores brought to [0, 1]: everything is divided by RegretSetting.scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from fedwave.planning.exact_model import decisions
from fedwave.theory.regret_setting import RegretSetting
from fedwave.theory.value_iteration import Optimum
from fedwave.trace import Trace
from fedwave.types import FloatArray, IntArray


def stages_begun(trace: Trace) -> IntArray:
    """Stages that have begun by every round, ``[T, I]``."""
    begun = trace.beliefs["stage_start"] == np.arange(1, trace.rounds + 1)[:, None]
    return np.cumsum(begun, axis=0)


def gaps(setting: RegretSetting, trace: Trace, best: Sequence[Optimum]) -> FloatArray:
    """What every decision gave away, ``[T, I]``."""
    network = setting.network
    p = network.success.probability(network.mean_snr * trace.gain)
    sets = decisions(network.size, setting.slots)
    taken = (trace.scheduled[:, :, None, :] == sets).all(axis=3)  # [T, I, A]
    gains = [one.table.decision_gains(p[:, i], trace.waiting[:, i]) for i, one in enumerate(best)]
    value = np.stack(gains, axis=1)
    lost: FloatArray = value.max(axis=2) - (value * taken).sum(axis=2)
    return lost * setting.gamma / setting.scale


def plain(setting: RegretSetting, trace: Trace, best: Sequence[Optimum]) -> FloatArray:
    """T J* - sum of r by the scores themselves, ``[I]``; arrivals count as their mean, which changes no mean."""
    left = trace.final.waiting.sum(axis=1)
    least = np.array([one.backlog for one in best])
    out: FloatArray = left + setting.gamma * (trace.backlog - least).sum(axis=0)
    return out / setting.scale


def rest(setting: RegretSetting, trace: Trace, best: Sequence[Optimum]) -> FloatArray:
    """v after the last round, on average over the channels to come; it is 0 where nothing waits."""
    left = np.minimum(trace.final.waiting, setting.truncation)
    bias = np.array([one.bias[tuple(n)] for one, n in zip(best, left, strict=True)])
    out: FloatArray = trace.final.waiting.sum(axis=1) - setting.gamma * bias
    return out / setting.scale


def span(setting: RegretSetting, optimum: Optimum) -> float:
    """The largest less the least v over all channels and backlogs."""
    waiting = np.indices(optimum.bias.shape).reshape(optimum.bias.ndim, -1).T
    channels = product(*optimum.problem.levels)
    repeated = (np.tile(p, (len(waiting), 1)) for p in channels)
    best = np.stack([optimum.table.decision_gains(p, waiting).max(axis=1) for p in repeated])
    # The bias is a mean over channels; meeting a good one costs less than that.
    cost = optimum.bias.reshape(-1) + best.mean(axis=0) - best
    value = waiting.sum(axis=1) - setting.gamma * cost
    return float(np.ptp(value)) / setting.scale
