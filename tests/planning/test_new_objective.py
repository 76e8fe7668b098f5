"""An objective of one's own costs one file: here the age of information, with its price search and three schedulers."""

from dataclasses import dataclass

import numpy as np
import pytest

import fedwave as fw
from fedwave.planning.backlog_objective import MEDIUM_BACKLOG, BacklogObjective
from fedwave.planning.channel_statistics import channel_statistics
from fedwave.planning.price_search import Objective, best_price
from fedwave.planning.renewal_solver import Solutions, iterate_policy, joined
from fedwave.schedulers.priced import PricedIndex

DELAYS = 40


@dataclass(frozen=True)
class AgeObjective(Objective[Solutions]):
    """A device pays its delay in every round without a delivery."""

    def solve_classes(self, classes, levels, price):
        size, age = classes.row.size, np.arange(1.0, DELAYS + 1)[:, None]

        def evaluate(share, gain):
            keep = 1 - gain
            out = np.stack([keep * age, share, np.ones(share.shape)], axis=1)
            out[-1] /= gain[-1]  # the delay stays at its largest
            for d in range(DELAYS - 2, -1, -1):
                out[d] += keep[d] * out[d + 1]
            return out

        found = iterate_policy(
            levels,
            classes.row,
            np.full(size, price),
            np.full((DELAYS, size), np.inf),
            evaluate,
            worth_after=lambda value: age + np.concatenate([value[1:], value[-1:]]),
            saving=lambda worth: 1e-9 * worth,
        )
        service = found.sums[0, 1] / found.sums[0, 2]
        fields = {"service": service, "error": found.left, "worth": found.worth, "cost": found.cost}
        return Solutions(**joined([fields]))


class SavedAge(PricedIndex):
    objective = AgeObjective()

    def device_state(self, seen):
        return seen.delay


class AgeIndex(fw.rates.KnownRates):
    name, index = "age-index", SavedAge


class AgeIndexBayes(fw.rates.RatesFromBacklogs):
    name, index = "age-index-bayes", SavedAge


class AgeIndexPo(fw.rates.RatesFromDeliveries):
    name, index = "age-index-po", SavedAge


def bound(net):
    statistics = channel_statistics(net.planning)
    classes = statistics.classes(net.rates)
    levels = statistics.levels_of(classes)
    return best_price(AgeObjective(), classes, float(net.slots), levels).value


def mean_cost(net, scheduler, rounds=300):
    trace = fw.simulate(net, scheduler, rounds, 8, seed=1)
    return (trace.delay * ~trace.delivered)[50:].sum(axis=2).mean()


def test_the_price_search_finds_the_bound_of_a_closed_form():
    """Where uploads never fail, each of 6 devices sends in every third round and pays (0 + 1 + 2) / 3."""
    table = fw.DeviceTable(rate=np.ones(6), distance_m=np.full(6, 100.0))
    net = fw.Network(table, slots=2, success=fw.success.Threshold(1e-9))
    assert bound(net) == pytest.approx(6.0, rel=1e-6)


def test_a_toll_above_the_price_leaves_slots_unused():
    @dataclass(frozen=True)
    class WithToll(BacklogObjective):
        toll: float = 0.0

        def solve_classes(self, classes, levels, price):
            return super().solve_classes(classes, levels, price + self.toll)

    statistics = channel_statistics(fw.paper_network().planning)
    classes = statistics.classes(fw.paper_network().rates)
    levels = statistics.levels_of(classes)
    plain, some, high = (
        best_price(WithToll(False, MEDIUM_BACKLOG, toll), classes, 5, levels) for toll in (0.0, 12.0, 50.0)
    )
    assert some.price + 12 == pytest.approx(plain.price, rel=0.05)
    assert some.value == pytest.approx(plain.value + 5 * 12, rel=1e-4)
    assert high.price == 0
    assert classes.count @ high.solutions.service < 5


def test_its_index_lies_between_the_bound_and_greedy():
    net = fw.paper_network(success=fw.success.Soft())
    cost = mean_cost(net, AgeIndex())
    assert 0.99 * bound(net) < cost < 0.99 * mean_cost(net, "age")


def test_all_three_schedulers_decide_alike_since_the_rates_do_not_matter():
    net = fw.random_network(6, 2, seed=1)
    known, *learnt = (fw.simulate(net, kind(), 20, 2).scheduled for kind in (AgeIndex, AgeIndexBayes, AgeIndexPo))
    assert all(np.array_equal(known, one) for one in learnt)
