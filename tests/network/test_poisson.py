"""Poisson counts by inversion: exactly the quantile of the uniform number, at table cells and between them."""

import numpy as np
import pytest
from scipy import stats

from fedwave.network.poisson import poisson_counts
from fedwave.rng import Block, stream

RATES = np.array([0.0, 1e-12, 0.3, 1.0, 3.0, 10.0, 64.0])


class Fixed:
    """A generator whose uniform numbers are given."""

    def __init__(self, u):
        self.u = u

    def random(self, shape):
        return np.broadcast_to(self.u, shape)


def counts_of(u, rates):
    u = np.asarray(u)[:, None]
    shape = (u.shape[0], len(rates))
    return poisson_counts(Block(1, *shape, np.arange(1), (Fixed(u),)), rates)[:, 0, :]


def test_every_count_is_the_quantile_of_its_uniform_number():
    u = np.random.default_rng(0).random(20_000)
    wanted = stats.poisson.ppf(u[:, None], RATES)
    wanted[:, RATES == 0] = 0  # not defined by scipy
    differ = counts_of(u, RATES) != wanted
    # A rounding of P[m <= k] in the last place can move a count only if u is that close to it.
    near = np.abs(stats.poisson.cdf(wanted, RATES) - u[:, None]) < 1e-14
    assert not (differ & ~near).any()


def test_the_ends_of_the_unit_interval():
    largest = 1 - 2.0**-53
    counts = counts_of([0.0, largest], RATES)
    assert counts[0].tolist() == [0] * len(RATES)
    tail = stats.poisson.sf(counts[1], RATES)  # P[m > k]
    assert (tail < 1e-15).all()
    before = stats.poisson.sf(counts[1] - 1, RATES)
    assert (before[2:] > 1e-18).all()  # no count that is out of all proportion
    assert counts[1, 0] == 0


def test_a_table_is_made_anew_for_other_rates():
    u = np.linspace(0, 1, 100, endpoint=False)
    for rates in ([1.0, 5.0], [5.0, 1.0], [5.0], [5.0, 1.0]):
        wanted = stats.poisson.ppf(u[:, None], rates)
        np.testing.assert_array_equal(counts_of(u, np.array(rates)), np.maximum(wanted, 0))


@pytest.mark.parametrize("rates", [np.full(2, 1e6), np.linspace(0.1, 9, 200)])
def test_many_or_large_rates_have_the_right_mean(rates, agree):
    generators = tuple(stream(3, "arrivals", i, 0) for i in range(50))
    counts = poisson_counts(Block(1, 64, len(rates), np.arange(50), generators), rates)
    agree((counts - rates) / np.sqrt(rates), 0.0)
