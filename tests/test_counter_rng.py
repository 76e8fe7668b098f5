"""Numbers drawn by counter: the published generator, no place like another, the same in any company."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from scipy.stats import chi2, kstest

from fedwave.counter_rng import TrainingKeys, numbers, shuffled, uniform


def places(count: int, round_: int = 1) -> TrainingKeys:
    return TrainingKeys([3] * count, [n % 5 for n in range(count)], np.full(count, round_), np.arange(count))


def test_the_numbers_are_those_of_splitmix64() -> None:
    """The first three from seed 0, as its authors' program prints them."""
    found = numbers(np.zeros(1, np.uint64), np.array([3]))
    assert [hex(n) for n in found.tolist()] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f"]


def test_every_place_and_purpose_has_a_key_of_its_own() -> None:
    keys = [
        *places(300).keys("shards"),
        *places(300, 2).keys("shards"),
        *places(300).keys("order"),
        *TrainingKeys([4], [0], np.array([1]), np.array([0])).keys("shards"),
    ]
    assert len(set(keys)) == len(keys)


def test_a_key_does_not_depend_on_its_company() -> None:
    many = places(40).keys("order")
    for n in (0, 7, 39):
        assert TrainingKeys.of(3, n % 5, 1, n).keys("order")[0] == many[n]


def test_a_longer_draw_begins_like_a_shorter_one() -> None:
    keys = places(3).keys("shards")
    short, long = numbers(keys, np.array([2, 0, 3])), numbers(keys, np.array([4, 1, 5]))
    np.testing.assert_array_equal(short, long[[0, 1, 5, 6, 7]])


def test_uniform_numbers() -> None:
    """Within one key, and the first numbers of neighbouring keys."""
    one = uniform(numbers(places(1).keys("shards"), np.array([20_000])))
    firsts = uniform(numbers(places(20_000).keys("shards"), np.ones(20_000, np.int64)))
    for found in (one, firsts):
        assert found.min() >= 0
        assert found.max() < 1
        assert kstest(found, "uniform").pvalue > 1e-3
        assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 4 / np.sqrt(len(found))


def test_every_order_is_as_likely() -> None:
    orders = shuffled(places(500).keys("order"), 24, 4).reshape(-1, 4)
    known = {order: k for k, order in enumerate(permutations(range(4)))}
    counts = np.bincount([known[tuple(order)] for order in orders.tolist()], minlength=24)
    statistic = ((counts - 500) ** 2 / 500).sum()
    assert chi2.sf(statistic, 23) > 1e-3


def test_orders_of_one_and_of_many() -> None:
    keys = places(2).keys("order")
    assert shuffled(keys, 3, 1).tolist() == [[[0]] * 3] * 2
    large = shuffled(keys, 2, 1000)
    assert all(sorted(order) == list(range(1000)) for order in large.reshape(4, -1).tolist())
    assert len({tuple(order) for order in large.reshape(4, -1).tolist()}) == 4
