"""The index schedulers: their priorities against exact solutions, and how close they come to the bound."""

from functools import cache

import numpy as np
import pytest
from pairs import CONSTANT, pair, priority
from scipy import stats
from value_iteration import by_value_iteration

import fedwave as fw
from fedwave.planning.backlog_objective import MEDIUM_BACKLOG, BacklogObjective, solve_backlog
from fedwave.planning.backlog_tables import backlog_scale, backlog_tables
from fedwave.planning.channel_statistics import channel_statistics
from fedwave.planning.price_search import at_price, best_price
from fedwave.schedulers import priced
from fedwave.theory.bound import backlog_bound

PO = ("lagrangian-po", "lagrangian-po:average=0")


def interval(values, level=0.999):
    return stats.t.interval(level, values.size - 1, values.mean(), stats.sem(values))


@cache
def paper_backlogs(text, first, last, instances=60):
    trace = fw.simulate(fw.paper_network(), fw.scheduler(text), last, instances, 3, record="summary")
    return trace.backlog[first:].mean(axis=0)


@cache
def paper_bound(hidden=False):
    return backlog_bound(fw.paper_network(), hidden=hidden).value


def test_lagrangian_ranks_by_what_an_upload_saves_at_the_price_of_the_bound():
    net, n = pair(), np.array([4, 9])
    price = backlog_bound(net).price
    expected = []
    for rate, backlog in zip(net.rates, n, strict=True):
        arrivals = fw.arrivals.Poisson().chances(np.array([rate]), 60)[0]
        worth = by_value_iteration(np.array([0.7]), rate, price, arrivals)[2]
        expected.append(0.7 * worth[backlog])
    got = priority("lagrangian", net, success=0.7, waiting=n)
    np.testing.assert_allclose(got, expected, rtol=3e-3)


@pytest.mark.parametrize(
    "success", [fw.success.Turbo(), fw.success.Soft(), CONSTANT], ids=["turbo", "soft", "constant"]
)
def test_the_whittle_index_is_the_price_that_makes_sending_not_worth_while(success):
    net = pair(success)
    statistics = channel_statistics(net.planning)
    errors = []
    for p in (0.7,) if success is CONSTANT else (0.1, 0.45, 0.8, 1.0):
        for n in ([1, 3], [0, 2], [5, 40], [2, 11]):
            index = priority("whittle", net, success=p, waiting=np.array(n))
            solutions = solve_backlog(statistics.levels, statistics.channel, net.rates, index, statistics.chances)
            errors.append(p * solutions.worth_at(np.arange(2), np.array(n)) / index - 1)
    assert np.sqrt(np.mean(np.square(errors))) < 0.01
    assert np.abs(errors).max() < 0.03


@pytest.mark.parametrize(
    "network", [fw.paper_network(), fw.random_network(60, 8), pair(fw.success.Soft())], ids=["paper", "many", "soft"]
)
def test_tables_agree_with_exact_solutions(network):
    statistics = channel_statistics(network.planning)
    made, rng = backlog_tables(statistics), np.random.default_rng(2)
    row = made.row[statistics.channel]
    errors = []
    for price in (3.0, 30.0, 300.0):
        theta = np.exp(rng.uniform(np.log(0.05), np.log(40), (1, network.size)))
        n = np.floor(rng.exponential(np.sqrt(2 * theta * price)))
        got = made.worth_at(row, theta, np.array([price]), n / backlog_scale(theta))[0]
        exact = solve_backlog(
            statistics.levels, statistics.channel, theta[0], np.full(n.size, price), statistics.chances
        )
        errors.append(got / exact.worth_at(np.arange(n.size), n[0]) - 1)
    errors = np.concatenate(errors)
    assert np.sqrt(np.mean(errors**2)) < 0.02
    assert np.abs(errors).max() < 0.12
    # The price that they find for known rates is about as good as the best one.
    classes = statistics.classes(network.rates)
    levels = statistics.levels_of(classes)
    objective = BacklogObjective()
    best = best_price(objective, classes, network.slots, levels)
    price = made.price(row, network.rates[None], np.array([float(network.slots)]))[0]
    there = at_price(objective, classes, network.slots, levels, price)
    assert 0.99 * best.value < there.value <= (1 + 1e-5) * best.value


def test_a_hidden_backlog_is_averaged_over_or_taken_at_its_mean():
    net = fw.paper_network()
    d = 1 + np.arange(25) % 6
    fields = {"theta": net.rates, "success": 1.0, "delay": d}
    averaged = priority("lagrangian-po", net, **fields)
    statistics, made = channel_statistics(net.planning), backlog_tables(channel_statistics(net.planning))
    row = made.row[statistics.channel]
    price = made.price(row, net.rates[None], np.array([5.0]))
    rng, scale = np.random.default_rng(0), backlog_scale(net.rates)
    n = rng.poisson((d - 1) * net.rates, (4000, 25))
    rates = np.broadcast_to(net.rates, n.shape)
    sampled = made.worth_at(row, rates, np.repeat(price, 4000), n / scale).mean(axis=0)
    np.testing.assert_allclose(averaged, sampled, rtol=0.04)
    at_mean = priority("lagrangian-po:average=0", net, **fields)
    assert 0.01 < np.abs(at_mean / averaged - 1).max() < 0.5


@pytest.mark.parametrize("text", ["lagrangian", "whittle"])
def test_with_known_rates_they_come_within_two_per_cent_of_the_bound(text):
    _, high = interval(paper_backlogs(text, 200, 900))
    assert paper_bound() < high
    assert high < 1.02 * paper_bound()
    better = paper_backlogs("alsa-pi", 200, 900) - paper_backlogs(text, 200, 900)
    assert interval(better)[0] > 0.1 * paper_bound()
    better = paper_backlogs("sqrt-rule", 200, 900) - paper_backlogs(text, 200, 900)
    assert interval(better, 0.95)[0] > 0


@pytest.mark.parametrize("text", ["lagrangian-bayes", "whittle-bayes"])
def test_learning_the_rates_costs_little(text):
    assert interval(paper_backlogs(text, 400, 800, 24))[1] < 1.025 * paper_bound()


@pytest.mark.parametrize("text", PO)
def test_where_backlogs_are_hidden_they_beat_balsa_po_but_not_its_bound(text):
    ours, balsa = paper_backlogs(text, 400, 800, 24), paper_backlogs("balsa-po", 400, 800, 24)
    assert interval(balsa - ours)[0] > 0.08 * paper_bound()
    _, high = interval(ours)
    assert paper_bound(hidden=True) < high < 1.025 * paper_bound(hidden=True)


def test_what_was_solved_is_found_again_by_content():
    one, again, other = (
        channel_statistics(fw.paper_network(success=p).planning)
        for p in (fw.success.Threshold(0.685), fw.success.Threshold(0.685), fw.success.Threshold(0.7))
    )
    assert one is not again
    assert backlog_tables(one) is backlog_tables(again)
    assert backlog_tables(one) is not backlog_tables(other)
    bursty = channel_statistics(fw.paper_network(arrivals=fw.arrivals.NegativeBinomial(1.9)).planning)
    assert bursty != channel_statistics(fw.paper_network(arrivals=fw.arrivals.NegativeBinomial(2.0)).planning)


@pytest.mark.parametrize("slots", [500, 1], ids=["", "a price beyond the tables"])
def test_indices_from_tables_are_close_to_those_solved_for_each_device(slots):
    net, rng = fw.random_network(2500, slots, seed=1), np.random.default_rng(0)
    statistics = channel_statistics(net.planning)
    classes = statistics.classes(net.rates)
    levels = statistics.levels_of(classes)
    best = best_price(BacklogObjective(effort=MEDIUM_BACKLOG), classes, slots, levels)
    n = np.ceil(rng.uniform(0.1, 3, net.size) * np.sqrt(2 * net.rates * best.price)).astype(int)
    got = priority("lagrangian", net, success=1.0, waiting=n)
    ratio = got / best.solutions.worth_at(classes.of_device, n)
    np.testing.assert_allclose(ratio / np.median(ratio), 1, atol=0.03)


def test_many_kinds_beyond_the_rates_of_the_tables_are_solved_for(monkeypatch):
    monkeypatch.setattr(priced, "MANY_CLASSES", 20)
    net = fw.random_network(60, 8, seed=1)
    net = net.replace(rate=np.asarray(net.table.rate) * 100)
    statistics = channel_statistics(net.planning)
    classes = statistics.classes(net.rates)
    levels = statistics.levels_of(classes)
    solved = best_price(BacklogObjective(effort=MEDIUM_BACKLOG), classes, net.slots, levels).solutions
    got = priority("lagrangian", net, success=1.0, waiting=500)
    np.testing.assert_array_equal(got, solved.worth_at(classes.of_device, np.full(net.size, 500)))
