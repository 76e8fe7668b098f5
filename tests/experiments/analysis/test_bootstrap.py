"""Intervals by resampling: as wide as they say, and nobody who never got there goes missing."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from fedwave.experiments.analysis import bootstrap
from fedwave.experiments.analysis.bootstrap import bootstrap_ratio, bootstrap_rounds
from fedwave.experiments.analysis.statistics import estimate
from fedwave.learning.curves import Curves

Pair = tuple[np.ndarray, np.ndarray]


def normal_pairs(rng: np.random.Generator, count: int) -> Pair:
    """Means 10 and 8, and luck that both share."""
    luck = rng.normal(size=count)
    return 10 + luck + rng.normal(0, 0.5, count), 8 + luck + rng.normal(0, 0.5, count)


def skewed_pairs(rng: np.random.Generator, count: int) -> Pair:
    luck = rng.exponential(size=count)
    return 1.25 * (luck + rng.exponential(size=count)), luck + rng.exponential(size=count)


@pytest.mark.parametrize(
    ("draw", "count", "level"), [(normal_pairs, 20, 0.95), (normal_pairs, 20, 0.8), (skewed_pairs, 50, 0.9)]
)
def test_the_ratio_is_covered_as_often_as_it_says(
    draw: Callable[[np.random.Generator, int], Pair], count: int, level: float
) -> None:
    trials, rng = 1500, np.random.default_rng(11)
    hits = 0
    for trial in range(trials):
        found = bootstrap_ratio(*draw(rng, count), level, resamples=599, seed=trial)
        hits += found.low <= 1.25 <= found.high
    error = math.sqrt(level * (1 - level) / trials)
    assert abs(hits / trials - level) < 3 * error


def test_pairing_cancels_common_luck() -> None:
    rng = np.random.default_rng(3)
    luck = rng.gamma(2, 10, size=40)
    above, below = 1.1 * luck + rng.normal(size=40), luck + rng.normal(size=40)
    paired = bootstrap_ratio(above, below)
    shuffled = bootstrap_ratio(above, rng.permutation(below))
    assert paired.value == pytest.approx(shuffled.value) == pytest.approx(above.mean() / below.mean())
    assert paired.low < 1.1 < paired.high
    assert paired.high - paired.low < 0.1 * (shuffled.high - shuffled.low)


def test_a_mean_gets_nearly_the_t_interval() -> None:
    values = np.random.default_rng(4).normal(20, 3, size=25)
    found, student = bootstrap_ratio(values, np.ones(25)), estimate(values)
    assert found.value == pytest.approx(student.mean)
    assert found.high - found.low == pytest.approx(2 * student.half_width, rel=0.04)


def test_the_seed_decides_and_memory_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = normal_pairs(np.random.default_rng(5), 30)
    first = bootstrap_ratio(*pair, seed=1)
    assert bootstrap_ratio(*pair, seed=1) == first
    assert bootstrap_ratio(*pair, seed=2) != first
    monkeypatch.setattr(bootstrap, "_AT_ONCE", 1000)
    assert bootstrap_ratio(*pair, seed=1) == first


def test_one_instance_has_a_ratio_but_no_interval() -> None:
    found = bootstrap_ratio(np.array([3.0]), np.array([4.0]))
    assert [found.value, found.low, found.high] == pytest.approx([0.75, math.nan, math.nan], nan_ok=True)


def test_a_denominator_that_may_be_zero_opens_the_interval() -> None:
    below = np.array([0.0, 0.0, 0.0, 1.0, 1.0])
    found = bootstrap_ratio(np.ones(5), below)
    assert (found.value, found.low, found.high) == (2.5, 1.0, math.inf)
    assert bootstrap_ratio(-np.ones(5), below).low == -math.inf
    assert bootstrap_ratio(np.ones(5), -below).low == -math.inf
    assert bootstrap_ratio(np.ones(5), -below).high == -1


@pytest.mark.parametrize(
    ("rounds", "horizon", "censored", "restricted", "of_reached"),
    [
        ([12.0, 14.0, 16.0], 40, 0, 14, 14),
        ([10.0, 20.0, np.inf, 30.0, np.inf], 50, 2, 32, 20),
        ([12.0, np.inf, np.inf], 30, 2, 24, 12),
        ([10.0, 20.0, 45.0], 20, 1, 50 / 3, 15),  # after the horizon is never
        ([np.inf] * 4, 25, 4, 25, math.nan),
    ],
)
def test_those_that_never_get_there_are_counted(
    rounds: list[float], horizon: int, censored: int, restricted: float, of_reached: float
) -> None:
    found = bootstrap_rounds(np.array(rounds), horizon)
    assert (found.censored, found.total) == (censored, len(rounds))
    assert found.restricted.value == pytest.approx(restricted)
    assert found.of_reached.value == pytest.approx(of_reached, nan_ok=True)
    arrived = [number for number in rounds if number <= horizon]
    if len(arrived) > 1:
        assert min(arrived) <= found.of_reached.low < of_reached < found.of_reached.high <= max(arrived)
    else:
        assert math.isnan(found.of_reached.low)
    if arrived:
        assert found.restricted.low < restricted < found.restricted.high <= horizon
    else:  # all alike, but only because all were cut off: no interval of width zero
        assert math.isnan(found.restricted.low)


def test_curves_say_who_never_got_there() -> None:
    """Two of three reach 0.5, in rounds 2 and 4; the third diverges after one good round."""
    accuracy = np.array(
        [[0.1, 0.1, 0.6], [0.6, 0.1, np.nan], [0.6, 0.1, np.nan], [0.6, 0.7, np.nan]] + [[0.6, 0.7, np.nan]] * 2
    )
    curves = Curves("x", 1 - accuracy, accuracy, accuracy[..., None], {}, accuracy)
    found = bootstrap_rounds(curves.rounds_to(0.5), horizon=6)
    assert (found.restricted.value, found.of_reached.value, found.censored) == ((2 + 4 + 6) / 3, 3, 1)


def test_the_restricted_mean_is_covered_as_often_as_it_says() -> None:
    """Geometric rounds with a chance of 1/20, cut off at 40: about one in eight never gets there."""
    stay, horizon, trials = 0.95, 40, 1500
    truth = sum(stay**t for t in range(horizon))
    rng = np.random.default_rng(8)
    rounds = rng.geometric(1 - stay, size=(trials, 25)).astype(float)
    rounds[rounds > horizon] = np.inf
    assert 0.1 < np.isinf(rounds).mean() < 0.16
    found = [bootstrap_rounds(row, horizon, resamples=599, seed=t) for t, row in enumerate(rounds)]
    hits = np.mean([f.restricted.low <= truth <= f.restricted.high for f in found])
    assert abs(hits - 0.95) < 3 * math.sqrt(0.95 * 0.05 / trials)
