"""The single-device problem of the mass: against plain value iteration, a played policy and closed forms."""

import numpy as np
import pytest
from value_iteration import mass_by_value_iteration

from fedwave.aggregation import Constant, Lee
from fedwave.planning import mass_objective
from fedwave.planning.channel_levels import spread_levels
from fedwave.planning.mass_objective import MassEffort, solve_mass
from fedwave.planning.mass_reward import Reward

FINE, MEDIUM, COARSE = MassEffort.FINE, MassEffort.MEDIUM, MassEffort.COARSE
TWO_LEVELS = np.array([[0.3, 0.9]])
CERTAIN = np.ones((1, 1))


def one(p, price, rule, effort=FINE):
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
    assert found.mass[0] == pytest.approx(mass, abs=5e-6)
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
    assert found.mass[0] == pytest.approx(best.max(), abs=1e-7)
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
        assert (cut.mass >= exact.mass - exact.error - 1e-10).all()
        assert (cut.mass - cut.error <= exact.mass + 1e-10).all()
        assert (cut.error >= 0).all()
    assert (found[0].error > 1e-9).any() or rule == Constant(0.99)
    np.testing.assert_allclose(found[2].mass, exact.mass, atol=1e-7)
    d = np.arange(1, 60)
    for b in np.flatnonzero(exact.served):
        got, all_ = (s.worth_at(np.full(59, b), d) for s in found[2:])
        np.testing.assert_allclose(got, all_, atol=1e-5)


def test_a_device_that_is_never_worth_the_price_brings_nothing_and_ranks_by_its_mass():
    for rule in (Constant(0.5), Lee(0.001)):
        found = one(TWO_LEVELS, 60.0, rule)
        assert not found.served[0]
        assert found.service[0] == 0
        assert 0 <= found.mass[0] < 1e-9
        d = np.array([1, 5, 70, 10**7])
        np.testing.assert_allclose(found.worth_at(np.zeros(4, int), d), Reward(rule).at(d))


def test_a_device_that_is_served_after_thousands_of_rounds_is_bounded_from_both_sides():
    """max(1, ln d) exceeds the price at a delay beyond the last one that is looked at."""
    k = np.arange(1, 10**6)
    best = ((np.maximum(1, np.log(k)) - 11.0) / k).max()
    found = one(CERTAIN, 11.0, Lee(0.0))
    assert best * (1 - 1e-9) <= found.mass[0] <= best + found.error[0]
    assert found.mass[0] < 1.1 * best


def test_many_problems_at_once_are_solved_as_one_by_one(monkeypatch):
    levels = spread_levels(np.array([[0.3, 0.9], [0.0, 1.0], [0.05, 0.1]]), 100)
    rng = np.random.default_rng(1)
    row, price = rng.integers(0, 3, 14), rng.uniform(0, 3, 14)
    monkeypatch.setattr(mass_objective, "_AT_ONCE", 512)  # several batches
    reward = Reward(Lee(0.5))
    together = solve_mass(levels, row, price, reward, MEDIUM)
    d = np.array([1, 2, 9, 80, 5000])
    for b in range(14):
        alone = solve_mass(levels, row[b : b + 1], price[b : b + 1], reward, MEDIUM)
        assert together.mass[b] == pytest.approx(alone.mass[0], rel=1e-9, abs=1e-12)
        both = together.worth_at(np.full(5, b), d), alone.worth_at(np.zeros(5, int), d)
        np.testing.assert_allclose(*both, rtol=1e-9)


def test_a_device_that_never_gets_through_is_solved_too():
    found = one(np.zeros((1, 4)), 0.5, Lee(0.001))
    assert np.isfinite(found.worth).all()
    assert not found.served[0]
    rare = one(np.array([[0.0] * 999 + [1.0]]), 0.5, Constant(0.9), COARSE)
    assert 0 < rare.mass[0] < 1e-2
