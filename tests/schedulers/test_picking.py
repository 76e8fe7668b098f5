"""pick_largest: the W largest priorities, exactly equal ones in an order drawn anew in every round."""

import itertools

import numpy as np
import pytest
from handmade import observation
from scipy import stats

import fedwave as fw
from fedwave.rng import Draws
from fedwave.schedulers import picking


class Given(fw.Scheduler):
    """Ranks by given priorities."""

    name = "given"

    def priority(self, state, seen, draws):
        return state["priority"]


def pick(priority, slots, round_=1, seed=0):
    priority = np.atleast_2d(np.asarray(priority))
    instances, devices = priority.shape
    seen = observation(devices, instances, slots, round_)
    decision, _ = Given().decide({"priority": priority}, seen, Draws(seed, range(instances)).at(round_))
    return decision.transmits


def test_ties_never_beat_a_larger_priority_nor_lose_to_a_smaller_one():
    rng = np.random.default_rng(7)
    priority = rng.integers(0, 4, size=(500, 6)).astype(float)
    got = pick(priority, slots=3)
    lowest_picked = np.where(got, priority, np.inf).min(axis=1)
    highest_left = np.where(got, -np.inf, priority).max(axis=1)
    assert (lowest_picked >= highest_left).all()


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_every_set_of_equal_devices_is_equally_likely(slots):
    got = pick(np.zeros((6000, 4)), slots)
    sets = list(itertools.combinations(range(4), slots))
    counts = [np.count_nonzero(got[:, list(s)].all(axis=1)) for s in sets]
    assert sum(counts) == 6000
    assert stats.chisquare(counts).pvalue > 0.001


def test_ties_of_an_instance_do_not_depend_on_its_neighbours():
    level = np.zeros((3, 6))
    lonely = level.copy()
    lonely[0] = lonely[1] = np.arange(6.0)  # no tie in the rows before
    assert np.array_equal(pick(level, 2)[2], pick(lonely, 2)[2])


def test_priorities_are_compared_in_full_precision():
    just_more = np.nextafter(1.0, 2.0)
    assert np.float32(1.0) == np.float32(just_more)
    got = pick(np.tile([1.0, just_more, 1.0], (40, 1)), slots=1)
    assert got[:, 1].all()


def test_whole_numbers_and_infinities_can_be_priorities():
    assert pick([[4, 2, 9]], 1).tolist() == [[False, False, True]]
    assert pick([[-2.0, 1.0, -3.0, np.inf]], slots=3).tolist() == [[True, True, False, True]]


def test_minus_infinity_is_never_picked_and_leaves_slots_empty():
    got = pick([[-np.inf, 1.0, -np.inf, np.inf]], slots=3)
    assert got.tolist() == [[False, True, False, True]]
    assert not pick(np.full((5, 3), -np.inf), 2).any()


def rows_of_many(devices):
    """Long rows of every kind: without ties, with few or many of them, sorted, in a period, constant, infinite."""
    rng = np.random.default_rng(11)
    drawn = rng.random(devices)
    return {
        "different": drawn,
        "rising": np.sort(drawn),
        "whole numbers": rng.integers(0, 40, devices).astype(float),
        "a tenth is equal": np.where(rng.random(devices) < 0.1, 0.8, drawn),
        "constant": np.zeros(devices),
        "one is larger": (np.arange(devices) == 3).astype(float),
        # A sample of every so many devices sees one value only, and not that of the others.
        "in a period": np.where(np.arange(devices) % (devices // 10_000), drawn, 2.0),
        "infinite": np.where(drawn < 0.3, -np.inf, np.where(drawn > 0.9, np.inf, drawn)),
    }


@pytest.mark.parametrize("kind", sorted(rows_of_many(10_000)))
def test_a_long_row_is_picked_from_as_a_short_one(kind, monkeypatch):
    devices = 60_000
    priority = rows_of_many(devices)[kind][None].repeat(2, axis=0)
    for slots in (1, 2, 600, 12_000, 30_000, 59_999, devices):
        fast = pick(priority, slots)
        with monkeypatch.context() as slow:
            slow.setattr(picking, "_MANY", devices + 1)
            assert np.array_equal(fast, pick(priority, slots))
        can_win = np.count_nonzero(priority > -np.inf, axis=1)
        assert (np.count_nonzero(fast, axis=1) == np.minimum(slots, can_win)).all()
