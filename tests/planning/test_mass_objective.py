"""The single-device problem of the mass, and the mass of a delivery: against plain sums and closed forms."""

from dataclasses import dataclass

import numpy as np
import pytest
from refusals import refused
from value_iteration import mass_by_value_iteration

from fedwave.aggregation import Aggregation, Constant, FedAsync, FedBuff, Lee, Sync
from fedwave.planning import mass_objective
from fedwave.planning.channel_levels import spread_levels
from fedwave.planning.mass_objective import COARSE_MASS, FINE_MASS, MEDIUM_MASS, MassEffort, Reward, solve_mass

TWO_LEVELS = np.array([[0.3, 0.9]])
CERTAIN = np.ones((1, 1))


def one(p, price, rule, effort=FINE_MASS):
    return solve_mass(spread_levels(p, 1000), np.array([0]), np.array([float(price)]), Reward(rule), effort)


@pytest.mark.parametrize("rule", [Lee(0.001), Lee(0.9), Constant(0.5), Constant(0.9)], ids=str)
@pytest.mark.parametrize("price", [0.0, 0.4, 0.88, 1.3])
@pytest.mark.parametrize("p", [[0.3, 0.9], [0.0, 0.5, 0.8, 1.0]], ids=str)
def test_the_solution_is_that_of_plain_value_iteration(p, price, rule):
    p = np.array(p)
    # Another truncation: the last delay of value iteration is no power of two, and time stands still there.
    reward = Reward(rule).at(np.arange(1, 701))
    mass, value, service = mass_by_value_iteration(p, price, reward)
    found = one(p[None], price, rule)
    assert -found.cost[0] == pytest.approx(mass, abs=5e-6)
    assert found.error[0] < 1e-6
    if mass < 1e-9:
        assert not found.served[0]
        return
    d = np.arange(1, 20)
    worth = reward[:19] - value[1:20]
    np.testing.assert_allclose(found.worth_at(np.zeros(19, int), d), worth, atol=3e-4)
    assert found.service[0] == pytest.approx(service, abs=2e-3)


@pytest.mark.parametrize("rule", [Constant(0.9), Lee(0.5), Lee(0.97)], ids=str)
@pytest.mark.parametrize("price", [0.0, 0.3, 1.0, 2.5])
def test_certain_uploads_have_a_closed_form(rule, price):
    """Sending every k rounds brings (rho(k) - price) / k."""
    k = np.arange(1, 4000)
    best = (Reward(rule).at(k) - price) / k
    found = one(CERTAIN, price, rule)
    assert -found.cost[0] == pytest.approx(best.max(), abs=1e-7)
    assert found.service[0] == pytest.approx(1 / k[np.argmax(best)], rel=1e-9)


@pytest.mark.parametrize("rule", [Lee(0.001), Lee(0.9), Lee(0.99), Constant(0.99)], ids=str)
def test_where_delays_are_cut_off_changes_nothing(rule):
    """Values at every first size agree within their errors, and where it is not too small to rounding."""
    prices = np.array([0.0, 0.05, 0.5, 0.9, 1.4, 2.0])
    levels, row = spread_levels(TWO_LEVELS, 300), np.zeros(6, int)
    found = [
        solve_mass(levels, row, prices, Reward(rule), MassEffort(size, size, np.inf, 1e-13))
        for size in (16, 256, 1024, 4096)
    ]
    exact = found[-1]
    for cut in found[:-1]:
        assert (-cut.cost >= -exact.cost - exact.error - 1e-10).all()
        assert (-cut.cost - cut.error <= -exact.cost + 1e-10).all()
        assert (cut.error >= 0).all()
    assert (found[0].error > 1e-9).any() or rule == Constant(0.99)
    np.testing.assert_allclose(-found[2].cost, -exact.cost, atol=1e-7)
    d = np.arange(1, 60)
    for b in np.flatnonzero(exact.served):
        got, all_ = (s.worth_at(np.full(59, b), d) for s in found[2:])
        np.testing.assert_allclose(got, all_, atol=1e-5)


def test_a_device_that_is_never_worth_the_price_brings_nothing_and_ranks_by_its_mass():
    for rule in (Constant(0.5), Lee(0.001)):
        found = one(TWO_LEVELS, 60.0, rule)
        assert not found.served[0]
        assert found.service[0] == 0
        assert 0 <= -found.cost[0] < 1e-9
        d = np.array([1, 5, 70, 10**7])
        np.testing.assert_allclose(found.worth_at(np.zeros(4, int), d), Reward(rule).at(d))


def test_a_device_that_is_served_after_thousands_of_rounds_is_bounded_from_both_sides():
    """max(1, ln d) exceeds the price at a delay beyond the last one that is looked at."""
    k = np.arange(1, 10**6)
    best = ((np.maximum(1, np.log(k)) - 11.0) / k).max()
    found = one(CERTAIN, 11.0, Lee(0.0))
    assert best * (1 - 1e-9) <= -found.cost[0] <= best + found.error[0]
    assert -found.cost[0] < 1.1 * best


def test_many_problems_at_once_are_solved_as_one_by_one(monkeypatch):
    levels = spread_levels(np.array([[0.3, 0.9], [0.0, 1.0], [0.05, 0.1]]), 100)
    rng = np.random.default_rng(1)
    row, price = rng.integers(0, 3, 14), rng.uniform(0, 3, 14)
    monkeypatch.setattr(mass_objective, "_AT_ONCE", 512)  # several batches
    reward = Reward(Lee(0.5))
    together = solve_mass(levels, row, price, reward, MEDIUM_MASS)
    d = np.array([1, 2, 9, 80, 5000])
    for b in range(14):
        alone = solve_mass(levels, row[b : b + 1], price[b : b + 1], reward, MEDIUM_MASS)
        assert -together.cost[b] == pytest.approx(-alone.cost[0], rel=1e-9, abs=1e-12)
        both = together.worth_at(np.full(5, b), d), alone.worth_at(np.zeros(5, int), d)
        np.testing.assert_allclose(*both, rtol=1e-9)


def test_a_device_that_never_gets_through_is_solved_too():
    found = one(np.zeros((1, 4)), 0.5, Lee(0.001))
    assert np.isfinite(found.worth).all()
    assert not found.served[0]
    rare = one(np.array([[0.0] * 999 + [1.0]]), 0.5, Constant(0.9), COARSE_MASS)
    assert 0 < -rare.cost[0] < 1e-2


# --- the mass of a delivery ----------------------------------------------------------------------

DELAYS = np.arange(1, 400)


@dataclass(frozen=True)
class Root(Aggregation):
    """A rule of a user's: a = c / sqrt(d), nothing ages."""

    name = "root"

    def weights(self, uploads):
        return uploads.shares / np.sqrt(uploads.delay)


@pytest.mark.parametrize("beta", [0, 0.001, 0.5, 0.99, 1 - 1e-9, 1])
def test_it_is_the_rate_times_the_sum_of_what_is_left_of_every_round(beta):
    sums = np.array([sum(beta**j for j in range(d)) for d in DELAYS])
    np.testing.assert_allclose(Reward(Constant(beta)).at(DELAYS), sums, rtol=1e-12)
    expected = sums * np.maximum(1, np.log(DELAYS))
    np.testing.assert_allclose(Reward(Lee(beta)).at(DELAYS), expected, rtol=1e-12)


def test_data_that_wait_are_not_lost():
    np.testing.assert_array_equal(Reward(Sync()).at(DELAYS), DELAYS)


@pytest.mark.parametrize("rule", [Lee(0.001), Lee(0.9), Lee(0.9999), Constant(0.5), Constant(0.999), Root()], ids=str)
def test_bounds_on_its_growth_hold_and_are_close(rule):
    reward = Reward(rule)
    far = np.arange(1, 300_001)
    rho = reward.at(far)
    for delay in (1, 7, 64, 3000, 20_000):
        steepest = np.diff(rho)[delay - 1 :].max(initial=0.0)
        found = reward.steepest_after(delay)
        assert steepest - 1e-11 <= found <= 1.15 * steepest + 1e-6
    cost = np.array([0.0, 0.5, 1.5, 4.0, 9.0, 1e6])
    best = ((rho - cost[:, None]) / far).max(axis=1)
    found = reward.most_per_round(cost)
    assert (found >= best - 1e-12).all()
    assert (found[best > 0] <= 1.02 * best[best > 0]).all()


def test_two_rules_with_the_same_values_are_the_same():
    assert Reward(Lee(0.5)) == Reward(Lee(0.5, cap=8))
    assert hash(Reward(Lee(0.5))) == hash(Reward(Lee(0.5, cap=8)))
    assert Reward(Sync()) == Reward(Constant(1))
    assert Reward(Lee(0.5)) != Reward(Constant(0.5))
    assert Reward(Lee(0.5)) != Reward(Lee(0.5001))


def test_where_no_plan_exists():
    assert Reward(Constant(1)).nothing_is_lost
    assert Reward(Sync()).nothing_is_lost
    assert Reward(Lee(1)).has_no_bound
    for rule in (Lee(0.9999), Constant(0.9999), Root()):
        assert not Reward(rule).nothing_is_lost
        assert not Reward(rule).has_no_bound


@pytest.mark.parametrize("rule", [FedAsync(), FedBuff(), FedAsync(staleness="constant")], ids=str)
def test_rules_that_do_not_weigh_by_the_share_are_refused(rule):
    with refused("aggregation", repr(rule.name)):
        Reward(rule)
