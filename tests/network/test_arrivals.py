"""Arrival families: means and variances."""

import numpy as np
import pytest

import fedwave as fw

RATES = (0.3, 1.0, 5.0, 10.0)
SAMPLES = 400  # devices alike per rate


def silent_poisson_variance(theta, silence):
    return theta + theta**2 * silence / (1 - silence)


FAMILIES = {
    "poisson": (fw.arrivals.Poisson(), lambda theta: theta),
    "negative binomial": (fw.arrivals.NegativeBinomial(2.0), lambda theta: theta + theta**2 / 2.0),
    "bursty negative binomial": (fw.arrivals.NegativeBinomial(0.5), lambda theta: theta + theta**2 / 0.5),
    "zero-inflated": (fw.arrivals.ZeroInflatedPoisson(0.5), lambda t: silent_poisson_variance(t, 0.5)),
    "mostly silent": (fw.arrivals.ZeroInflatedPoisson(0.9), lambda t: silent_poisson_variance(t, 0.9)),
}


@pytest.fixture
def draw(play, crowd):
    def draw(arrivals, rate, rounds=64):
        return play(crowd(SAMPLES, rate=rate, arrivals=arrivals), rounds).arrivals

    return draw


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("family", FAMILIES)
def test_mean_and_variance(draw, agree, family, rate):
    arrivals, variance = FAMILIES[family]
    counts = draw(arrivals, rate)
    assert draw(arrivals, 0.0, rounds=5).max() == 0
    assert counts.dtype == np.int64
    assert counts.min() >= 0
    agree(counts, rate)
    agree((counts - rate) ** 2, variance(rate))
