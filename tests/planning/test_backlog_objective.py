"""The single-device problem against plain value iteration, simulation and closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from value_iteration import by_value_iteration

import fedwave as fw
from fedwave.planning.backlog_objective import (
    COARSE_BACKLOG,
    FINE_BACKLOG,
    MEDIUM_BACKLOG,
    _arrival_steps,
    _on_lattice,
    arrivals_at_most,
    solve_backlog,
)
from fedwave.planning.channel_levels import Levels, lower_success, merge_levels, spread_levels, upper_success

POISSON = fw.arrivals.Poisson().chances
TWO_LEVELS = np.array([[0.3, 0.9]])


def one(levels: Levels, theta, price, chances=POISSON, effort=FINE_BACKLOG):
    return solve_backlog(levels, np.array([0]), np.array([theta]), np.array([price]), chances, effort)


@pytest.mark.parametrize(
    "p, theta, price, family",
    [
        ([0.3, 0.9], 1.0, 4.0, fw.arrivals.Poisson()),
        ([0.3, 0.9], 0.2, 9.0, fw.arrivals.Poisson()),
        ([0.0, 0.2, 0.5, 1.0], 2.5, 20.0, fw.arrivals.NegativeBinomial(1.0)),
        ([1.0], 1.5, 6.0, fw.arrivals.ZeroInflatedPoisson(0.7)),
        ([0.0, 1.0], 1.0, 0.0, fw.arrivals.Poisson()),
    ],
)
def test_the_solution_is_that_of_plain_value_iteration(p, theta, price, family):
    p = np.array(p)
    arrivals = family.chances(np.array([theta]), 60)[0]
    cost, _, worth = by_value_iteration(p, theta, price, arrivals)
    near = [by_value_iteration(p, theta, max(0.0, price + h), arrivals)[0] for h in (-0.01, 0.01)]
    # 1,000 cells, with all these p on edges: spreading p changes nothing worth speaking of.
    found = one(spread_levels(p[None], 1000), theta, price, family.chances)
    assert found.cost[0] == pytest.approx(cost, rel=2e-6)
    if price:
        assert found.service[0] == pytest.approx((near[1] - near[0]) / 0.02, rel=0.02)
    few = np.arange(20)
    np.testing.assert_allclose(found.worth_at(np.zeros(20, int), few), worth[:20], rtol=2e-5)


@pytest.mark.parametrize("theta, price", [(1.0, 10.0), (3.0, 100.0), (0.4, 2.0)])
def test_certain_uploads_and_steady_arrivals_have_a_closed_form(theta, price):
    """Sending every k rounds leaves 0, theta, ..., (k - 1) theta behind: theta (k - 1) / 2 + price / k."""
    k = np.arange(1, 200)
    costs = theta * (k - 1) / 2 + price / k
    found = one(spread_levels(np.ones((1, 1)), 64), theta, price, chances=None)
    assert found.cost[0] == pytest.approx(costs.min(), rel=1e-12)
    assert found.service[0] == pytest.approx(1 / k[np.argmin(costs)], rel=1e-12)


def test_what_costs_nothing_is_sent_whenever_it_can_arrive():
    levels = spread_levels(np.array([[0.0, 0.4, 0.8]]), 500)
    found = one(levels, 2.0, 0.0)
    assert found.cost[0] == pytest.approx(2.0 * (1 - 0.4) / 0.4, rel=1e-9)
    assert found.service[0] == pytest.approx(2 / 3, abs=1e-3)
    # C(n) = (n + theta) / p: the waiting of every shard, until it gets through.
    worth = found.worth_at(np.zeros(3, int), np.array([0, 7, 10**6]))
    np.testing.assert_allclose(worth - worth[0], np.array([0, 7, 10**6]) / 0.4, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [14, 20, 30, 60])
def test_a_lattice_cut_short_gives_a_lower_cost_and_says_by_how_much_at_most(size):
    levels, theta, price = spread_levels(TWO_LEVELS, 200), np.array([1.0]), np.array([30.0])
    moves = _arrival_steps(POISSON, theta, np.ones(1), arrivals_at_most(POISSON, theta, 1e-12))
    exact = one(levels, 1.0, 30.0).cost[0]
    cut = _on_lattice(levels, np.array([0]), theta, price, moves, np.ones(1), size, FINE_BACKLOG.saving)
    assert cut["cost"][0] <= exact + 1e-9 <= cut["cost"][0] + cut["error"][0] + 2e-9
    assert size < 60 or cut["error"][0] < 1e-6


def test_every_approximation_of_the_channel_errs_on_its_side():
    planning = fw.paper_network(success=fw.success.Soft()).planning
    snr = np.array([1.7])
    exact = one(spread_levels(planning.success_levels(snr, 1 << 16), 4000), 3.0, 25.0).cost[0]
    before = None
    for count, cells in ((64, 16), (512, 64), (4096, 512)):
        p = planning.success_levels(snr, count)
        up, down = upper_success(p), lower_success(p)
        below = one(spread_levels(up[0], cells, up[1]), 3.0, 25.0).cost[0]
        above = one(merge_levels(down[0], cells, down[1]), 3.0, 25.0).cost[0]
        assert below < exact < above
        assert before is None or above - below < before / 4
        before = above - below
    assert before < 1e-3 * exact


def test_larger_units_of_the_backlog_cost_less_and_little():
    levels = spread_levels(TWO_LEVELS, 200)
    exact = one(levels, 40.0, 3000.0).cost[0]
    units = []
    for effort in (
        replace(FINE_BACKLOG, points=400),
        replace(FINE_BACKLOG, points=100),
        MEDIUM_BACKLOG,
        COARSE_BACKLOG,
    ):
        coarse = one(levels, 40.0, 3000.0, effort=effort)
        units.append(coarse.unit[0])
        assert 0.995 * exact < coarse.cost[0] <= exact + 1e-9
    assert len(set(units)) > 2


def test_many_problems_at_once_are_solved_as_one_by_one():
    levels = spread_levels(np.array([[0.3, 0.9], [0.0, 1.0], [0.05, 0.1]]), 100)
    rng = np.random.default_rng(1)
    row = rng.integers(0, 3, 40)
    theta, price = rng.uniform(0.01, 20, 40), rng.uniform(0, 200, 40)
    together = solve_backlog(levels, row, theta, price, POISSON, MEDIUM_BACKLOG)
    for b in range(40):
        alone = solve_backlog(levels, row[b : b + 1], theta[b : b + 1], price[b : b + 1], POISSON, MEDIUM_BACKLOG)
        assert together.cost[b] == pytest.approx(alone.cost[0], rel=1e-4)
        # Far beyond the lattice C is continued in a straight line, from a place that may differ.
        for backlog, close in ((0, 1e-4), (1, 1e-4), (30, 2e-3), (500, 0.1)):
            n = np.array([backlog])
            both = together.worth_at(np.array([b]), n), alone.worth_at(np.array([0]), n)
            np.testing.assert_allclose(*both, rtol=close)


def test_a_device_that_almost_never_gets_data_or_through_is_solved_too():
    levels = spread_levels(np.array([[0.0] * 999 + [1.0]]), 100)
    rare = one(levels, 1.0, 50.0, effort=MEDIUM_BACKLOG)
    assert np.isfinite(rare.worth).all()
    assert rare.cost[0] > 999 * 0.999
    quiet = one(spread_levels(TWO_LEVELS, 100), 1e-9, 50.0)
    assert 0 <= quiet.cost[0] < 1e-6
    assert quiet.worth_at(np.array([0]), np.array([1]))[0] > 50
