from __future__ import annotations

import numpy as np
import pytest

from fedwave.experiments.analysis.statistics import band, estimate, moving_mean, paired_difference, running_mean
from fedwave.metrics import jain


def test_interval_by_hand() -> None:
    """1, 2, 3: standard deviation 1, error 1/sqrt(3), t with 2 degrees of freedom 4.302653."""
    e = estimate(np.array([1.0, 2.0, 3.0]))
    assert e.mean == 2
    assert e.standard_error == pytest.approx(3**-0.5)
    assert e.half_width == pytest.approx(4.302653 * 3**-0.5)


def test_intervals_cover_as_often_as_they_say() -> None:
    draws = np.random.default_rng(1).exponential(size=(4000, 30))
    mean, half = band(draws, level=0.9)
    covered = np.mean(np.abs(mean - 1) < half)
    # Exponential values are skewed, which costs a 30-value interval about two points; 4 s.e. are 0.019.
    assert 0.9 - 0.03 - 0.019 < covered < 0.9 + 0.019


def test_one_instance_has_no_interval() -> None:
    e = estimate(np.array([5.0]))
    assert e.mean == 5
    assert np.isnan(e.half_width)


def test_pairing_cancels_common_luck() -> None:
    rng = np.random.default_rng(2)
    luck = rng.normal(scale=100, size=50)
    a, b = luck + rng.normal(size=50), luck + 1 + rng.normal(size=50)
    paired = paired_difference(b, a)
    assert paired.mean - paired.half_width > 0
    assert paired.half_width < 0.05 * estimate(a).half_width


def test_running_and_moving_means() -> None:
    values = np.arange(1.0, 7.0).reshape(6, 1)
    assert running_mean(values)[:, 0].tolist() == [1, 1.5, 2, 2.5, 3, 3.5]
    assert moving_mean(values, 3)[:, 0].tolist() == [2, 3, 4, 5]
    assert moving_mean(values, 6)[:, 0].tolist() == [3.5]


def test_jain_of_nothing_is_fair() -> None:
    assert jain(np.zeros((1, 4)))[0] == 1
