"""The mass index: against plain value iteration, and tables against exact solutions."""

import numpy as np
import pytest
from pairs import pair, priority
from value_iteration import mass_by_value_iteration

import fedwave as fw
from fedwave.aggregation import Constant, Lee
from fedwave.planning.channel_statistics import channel_statistics
from fedwave.planning.mass_objective import MassObjective, Reward, solve_mass
from fedwave.planning.mass_tables import mass_tables
from fedwave.planning.price_search import at_price, best_price


@pytest.mark.parametrize("rule", [Lee(0.3), Constant(0.9), Lee(0.7)], ids=str)
def test_it_is_the_mass_now_less_what_waiting_brings_at_the_price_of_the_bound(rule):
    net, d = pair(rate=[2.0, 5.0]), np.array([6, 2])
    price = fw.mass_bound(net, rule).price
    expected = []
    for rate, delay in zip(net.rates, d, strict=True):
        reward = rate / 7 * rate * Reward(rule).at(np.arange(1, 300))
        _, value, _ = mass_by_value_iteration(np.array([0.7]), price, reward)
        expected.append(0.7 * (reward[delay - 1] - value[delay]))
    got = priority(fw.scheduler("mass-index", aggregation=rule), net, success=0.7, delay=d)
    np.testing.assert_allclose(got, expected, rtol=5e-3)


@pytest.mark.parametrize("rule", [Lee(0.001), Constant(0.9), Constant(0.99)], ids=str)
@pytest.mark.parametrize(
    "network", [fw.paper_network(), fw.random_network(60, 8), pair(fw.success.Soft())], ids=["paper", "many", "soft"]
)
def test_tables_agree_with_exact_solutions(network, rule):
    statistics, rng, reward = channel_statistics(network.planning), np.random.default_rng(2), Reward(rule)
    made = mass_tables(statistics, reward)
    row = made.row[statistics.channel]
    theta = np.exp(rng.uniform(np.log(0.3), np.log(12), (1, network.size)))
    k = theta**2
    delay = rng.geometric(0.2, network.size)
    for price in (0.02, 0.2, 2.0, 20.0):
        got = made.worth_at(row, theta, np.array([price]), delay[None])[0] / k[0]
        exact = solve_mass(statistics.levels, statistics.channel, price / k[0], reward)
        errors = got - exact.worth_at(np.arange(delay.size), delay)
        scale = np.maximum(reward.at(delay), 1)
        assert np.sqrt(np.mean((errors / scale) ** 2)) < 0.01
        assert np.abs(errors / scale).max() < 0.05
    # The price that they find for known rates is about as good as the best one.
    classes = statistics.classes(network.rates)
    levels = statistics.levels_of(classes)
    best = best_price(MassObjective(reward), classes, network.slots, levels)
    price = made.price(row, network.rates[None], np.array([float(network.slots)]))[0]
    there = at_price(MassObjective(reward), classes, network.slots, levels, price / network.rates.sum())
    assert best.value * (1 + 5e-3) < there.value <= best.value * (1 - 2e-6)
