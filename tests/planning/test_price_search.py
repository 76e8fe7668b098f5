"""The price search works with any objective: here backlog with a toll on every transmission."""

from dataclasses import dataclass

import pytest

import fedwave as fw
from fedwave.planning.backlog_objective import BacklogEffort, BacklogObjective
from fedwave.planning.channel_statistics import channel_statistics
from fedwave.planning.price_search import best_price


@dataclass(frozen=True)
class WithToll(BacklogObjective):
    toll: float = 0.0

    def solve_classes(self, classes, levels, price):
        return super().solve_classes(classes, levels, price + self.toll)


def test_a_toll_takes_the_place_of_the_price_of_a_slot():
    net = fw.paper_network()
    statistics = channel_statistics(net.planning)
    classes, levels = statistics.classes_and_levels(statistics.devices(net.rates))
    plain = best_price(BacklogObjective(effort=BacklogEffort.MEDIUM), classes, 5, levels)
    some = best_price(WithToll(False, BacklogEffort.MEDIUM, plain.price / 2), classes, 5, levels)
    assert some.price + plain.price / 2 == pytest.approx(plain.price, rel=0.05)
    assert some.value == pytest.approx(plain.value + 5 * plain.price / 2, rel=1e-4)
    # A toll above the price of a slot leaves slots unused.
    high = best_price(WithToll(False, BacklogEffort.MEDIUM, 2 * plain.price), classes, 5, levels)
    assert high.price == 0
    assert classes.count @ high.solutions.service < 5
