"""The mass index: against plain value iteration, tables against exact solutions, and at the edges."""

import numpy as np
import pytest
from handmade import observation
from pairs import EDGES, pair, runs_at_the_edge
from value_iteration import mass_by_value_iteration

import fedwave as fw
from fedwave.aggregation import Constant, Lee
from fedwave.planning.channel_statistics import channel_statistics
from fedwave.planning.mass_objective import MassObjective, solve_mass
from fedwave.planning.mass_reward import Reward
from fedwave.planning.mass_tables import mass_tables
from fedwave.planning.price_search import at_price, best_price
from fedwave.rng import Draws
from fedwave.schedulers import priced

ALL = ("mass-index", "mass-index-bayes", "mass-index-po")


def priority(text, network, theta=None, **fields):
    """On a situation that is put together by hand; ``theta`` are sampled rates."""
    scheduler = text if isinstance(text, fw.Scheduler) else fw.scheduler(text)
    seen = observation(network.size, slots=network.slots, rates=network.rates, **fields)
    seen.planning = network.planning
    state = dict(scheduler.start(seen.problem))
    if theta is not None:
        state |= {"theta": np.array([theta]), "covered": np.ones((1, network.size), int)}
    return scheduler.priority(state, seen, Draws(0, [0]).at(seen.round))[0]


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
    classes, levels = statistics.classes_and_levels(statistics.devices(network.rates))
    best = best_price(MassObjective(reward), classes, network.slots, levels)
    price = made.price(row, network.rates[None], np.array([float(network.slots)]))[0]
    there = at_price(MassObjective(reward), classes, network.slots, levels, price / network.rates.sum())
    assert best.value * (1 + 5e-3) < there.value <= best.value * (1 - 2e-6)


def test_learning_forms_use_the_rates_they_sampled():
    net = fw.paper_network()
    d, p = 1 + np.arange(25) % 7, 0.2 + 0.8 * np.arange(25) / 24
    for rule in (Lee(0.5), Constant(0.9)):
        exact = priority(fw.scheduler("mass-index", aggregation=rule), net, success=p, delay=d)
        for name in ALL[1:]:
            scheduler = fw.scheduler(name, aggregation=rule)
            learnt = priority(scheduler, net, theta=net.rates, success=p, delay=d)
            learnt = learnt / net.rates.sum()  # tables have k = theta^2
            assert np.abs(learnt - exact).max() < 0.02 * np.abs(exact).max()
            other = priority(scheduler, net, theta=net.rates[::-1], success=p, delay=d)
            assert not np.allclose(other, learnt, rtol=0.3)


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("edge", EDGES)
def test_they_run_at_the_edges(text, edge):
    runs_at_the_edge(text, edge)


@pytest.mark.parametrize("text", ALL)
def test_longer_delays_rank_no_lower_also_far_beyond_the_tables(text):
    net, before = fw.paper_network(), np.full(25, -np.inf)
    scheduler = fw.scheduler(text, aggregation=Constant(0.9))
    for d in (1, 2, 5, 12, 40, 300, 5000, 10**6, 10**9):
        now = priority(scheduler, net, theta=net.rates, success=0.8, delay=d)
        assert np.isfinite(now).all()
        assert (now >= before - 1e-6).all()
        before = now


def test_many_kinds_of_devices_are_read_from_tables(monkeypatch):
    monkeypatch.setattr(priced, "MANY_CLASSES", 20)
    priced._at_best_price.cache_clear()
    net, rng = fw.random_network(60, 8, seed=1), np.random.default_rng(0)
    d, p = rng.integers(1, 40, net.size), rng.random(net.size)
    got = priority("mass-index", net, success=p, delay=d)
    learnt = priority("mass-index-bayes", net, theta=net.rates, success=p, delay=d)
    np.testing.assert_allclose(got, learnt, rtol=1e-12)
    priced._at_best_price.cache_clear()


def test_the_price_is_that_of_the_slots_there_are_on_average():
    net, fields = pair(rate=[4.0, 5.0]), {"success": 0.7, "delay": 3}
    scheduler = fw.scheduler("mass-index", aggregation=Constant(0.9))
    seen = observation(2, slots=2, rates=net.rates, **fields)
    seen.planning = net.planning
    half = {"slots_so_far": np.array([2]), "rounds_so_far": np.array([2])}
    got = scheduler.priority(half, seen, Draws(0, [0]).at(1))[0]
    np.testing.assert_array_equal(got, priority(scheduler, net, **fields))
    assert not np.allclose(got, priority(scheduler, net.replace(slots=2), **fields))


@pytest.mark.parametrize("network", [fw.paper_network(), fw.random_network(300, slots=40)], ids=["25", "300"])
def test_the_price_of_an_instance_does_not_depend_on_the_others(network):
    statistics, rng = channel_statistics(network.planning), np.random.default_rng(3)
    made = mass_tables(statistics, Reward(Lee(0.001)))
    row = made.row[statistics.channel]
    theta = rng.gamma(0.7, [[0.01], [0.1], [3.0], [60.0], [3.0]], (5, network.size))
    slots = np.array([network.size, 1.0, 0.25, 5.0, 20.0])
    price = made.price(row, theta, slots)
    assert price[0] == 0
    assert (price[1:] > 0).all()
    for i in range(5):
        assert made.price(row, theta[i : i + 1], slots[i : i + 1])[0] == price[i]
