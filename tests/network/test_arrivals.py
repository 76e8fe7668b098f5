"""Arrival families: the variance by which they differ, and draws that follow it."""

import numpy as np
import pytest

import fedwave as fw


@pytest.mark.parametrize(
    "arrivals, variance",
    [
        (fw.arrivals.Poisson(), 3.0),
        (fw.arrivals.NegativeBinomial(2.0), 3 + 9 / 2),
        (fw.arrivals.NegativeBinomial(0.5), 3 + 9 / 0.5),
        (fw.arrivals.ZeroInflatedPoisson(0.5), 3 + 9 * 0.5 / 0.5),
        (fw.arrivals.ZeroInflatedPoisson(0.9), 3 + 9 * 0.9 / 0.1),
    ],
    ids=repr,
)
def test_the_variance_tells_them_apart_and_draws_follow_the_chances(arrivals, variance):
    chances, m = arrivals.chances(np.array([3.0]), 1000)[0], np.arange(1001)
    assert chances @ m == pytest.approx(3)
    assert chances @ (m - 3) ** 2 == pytest.approx(variance)
    assert {"frequencies", "means"} <= set(fw.check(arrivals).passed)
