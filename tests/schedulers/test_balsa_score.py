"""How well the learning schedulers do, and the printed posterior that starves devices."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy import stats

import fedwave as fw
from fedwave.schedulers.balsa import BalsaPo


@dataclass(frozen=True)
class PrintedFormula(BalsaPo):
    """The trap: the paper's posterior as printed, R = t - 1 also for rounds it has not heard of."""

    name = "balsa-po-as-printed"

    def evidence(self, state, seen):
        return seen.reported, 1, np.ones(seen.delivered.shape, np.bool_)


@cache
def mean_scores(scheduler):
    """Of 1000 rounds, one per instance; the same worlds for every scheduler."""
    trace = fw.simulate(fw.paper_network(), scheduler, rounds=1000, instances=50, seed=0, record="summary")
    return trace.score.mean(axis=0)


def interval(values, level=0.999):
    """Of the mean over instances, by Student's t."""
    return stats.t.interval(level, values.size - 1, values.mean(), stats.sem(values))


def keeps_every_device_served(scores):
    """The mean score over 1000 rounds is surely above 64, where all policies that serve everybody lie."""
    return interval(scores)[0] > 64


def test_balsa_po_is_not_starved_by_the_printed_formula():
    ours, trap = mean_scores("balsa-po"), mean_scores(PrintedFormula())
    assert keeps_every_device_served(ours)
    assert not keeps_every_device_served(trap)
    low, high = interval(trap)
    assert low < -42 < high  # the value of the specification
    assert interval(ours)[0] < 65.7 < interval(ours)[1]


def test_starved_devices_are_left_waiting_for_ever():
    """What goes wrong: unheard rounds count as rounds without data, so the rate falls and falls."""
    trace = fw.simulate(fw.paper_network(), PrintedFormula(), rounds=1000, instances=8, seed=0)
    ours = fw.simulate(fw.paper_network(), "balsa-po", rounds=1000, instances=8, seed=0)
    assert trace.final.delay.max() > 500
    assert ours.final.delay.max() < 100


@pytest.mark.parametrize("name", ["balsa", "balsa-po"])
def test_not_knowing_the_rates_costs_little_against_knowing_them(name):
    """Paired over the same worlds: .004 (balsa) and .089 (balsa-po) below alsa-pi."""
    difference = mean_scores("alsa-pi") - mean_scores(name)
    low, high = interval(difference)
    assert low < {"balsa": 0.004, "balsa-po": 0.089}[name] < high
