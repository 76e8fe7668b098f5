"""Means and t intervals over instances, and how many instances a wanted interval takes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from refusals import refused

from fedwave.experiments.analysis.statistics import (
    band,
    estimate,
    instances_needed,
    moving_mean,
    paired_difference,
    running_mean,
    t_quantile,
)


def test_interval_by_hand() -> None:
    """1, 2, 3: standard deviation 1, error 1/sqrt(3), t with 2 degrees of freedom 4.302653."""
    e = estimate(np.array([1.0, 2.0, 3.0]))
    assert e.mean == 2
    assert e.standard_error == pytest.approx(3**-0.5)
    assert e.half_width == pytest.approx(4.302653 * 3**-0.5)


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


@pytest.mark.parametrize(("count", "level"), [(3, 0.95), (10, 0.95), (10, 0.5), (40, 0.99)])
def test_the_t_interval_covers_as_often_as_it_says(count: int, level: float) -> None:
    trials = 20_000
    draws = np.random.default_rng(count).normal(7, 3, size=(trials, count))
    mean, half = band(draws, level)
    error = math.sqrt(level * (1 - level) / trials)
    assert abs(np.mean(np.abs(mean - 7) < half) - level) < 4 * error


def test_nan_is_left_out_only_when_asked_for() -> None:
    values = np.array([[1.0, np.nan, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0], [np.nan, 5.0, np.nan, np.nan], [np.nan] * 4])
    mean, half = band(values, skip_nan=True)
    for t in (0, 1):
        alone = estimate(values[t][np.isfinite(values[t])])
        assert (mean[t], half[t]) == pytest.approx((alone.mean, alone.half_width))
    assert mean[2] == 5
    assert np.isnan([mean[3], *half[2:]]).all()  # of one there is no interval, of none no mean
    mean, half = band(values)
    assert np.isfinite([mean[1], half[1]]).all()
    assert np.isnan([mean[[0, 2, 3]], half[[0, 2, 3]]]).all()
    # An infinite value is not left out: never there is not the same as not known.
    with np.errstate(invalid="ignore"):
        assert band(np.array([[1.0, np.inf, np.nan]]), skip_nan=True)[0][0] == np.inf


def test_the_number_needed_is_the_smallest_that_is_enough() -> None:
    rng = np.random.default_rng(5)
    for half_width in (0.03, 0.2, 1.0, 2.0, 9.0):
        pilot = rng.normal(50, 2, size=12)
        count = instances_needed(pilot, half_width)
        spread = pilot.std(ddof=1)
        assert t_quantile(count, 0.95) * spread / math.sqrt(count) <= half_width
        if count > 2:
            fewer = count - 1
            assert t_quantile(fewer, 0.95) * spread / math.sqrt(fewer) > half_width


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_that_many_instances_give_that_interval(level: float) -> None:
    rng = np.random.default_rng(6)
    pilot = rng.exponential(4, size=5000)
    count = instances_needed(pilot, 0.5, level)
    _, half = band(rng.exponential(4, size=(400, count)), level)
    # The pilot knows the spread to 1.4 %: skewed values have a standard deviation that jumps more.
    assert half.mean() == pytest.approx(0.5, rel=0.06)


def test_the_least_and_very_large_numbers() -> None:
    assert instances_needed(np.full(6, 3.25), 1e-9) == 2
    assert instances_needed(np.array([0.0, 1.0]), 1e-6) == pytest.approx((1.959964 / 1e-6) ** 2 / 2, rel=1e-6)


@pytest.mark.parametrize(
    ("values", "half_width", "level", "tokens"),
    [
        ([5.0], 1.0, 0.95, ("pilot", 1)),
        ([], 1.0, 0.95, ("pilot", 0)),
        ([5.0, 6.0], 0.0, 0.95, ("half_width", 0.0)),
        ([5.0, 6.0], -1.0, 0.95, ("half_width", -1.0)),
        ([5.0, 6.0], math.nan, 0.95, ("half_width", "nan")),
        ([5.0, 6.0], 1e-300, 0.95, ("half_width", "1e-300")),
        ([5.0, 6.0], 1.0, 95, ("level", 95)),
        ([5.0, 6.0, math.nan], 1.0, 0.95, ("pilot", "1 of 3")),
        ([[5.0, 6.0]], 1.0, 0.95, ("pilot", "(1, 2)")),
    ],
)
def test_bad_pilots_are_refused(
    values: list[float], half_width: float, level: float, tokens: tuple[object, ...]
) -> None:
    with refused(*tokens):
        instances_needed(np.array(values), half_width, level)
