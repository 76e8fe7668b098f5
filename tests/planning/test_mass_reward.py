"""The mass that a delivery brings: against plain sums, and the bounds on its growth."""

from dataclasses import dataclass

import numpy as np
import pytest

import fedwave as fw
from fedwave.aggregation import Aggregation, Constant, FedAsync, FedBuff, Lee, Sync
from fedwave.planning.mass_reward import Reward

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
    with pytest.raises(fw.FedwaveError, match=f"'{rule.name}' does not weigh an upload by c r.d. alone"):
        Reward(rule)
