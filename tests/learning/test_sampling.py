"""Which samples a device gets, and in which batches."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, chi2

import fedwave as fw
from fedwave.learning.sampling import Sampler, device_batches
from fedwave.network.partition import ByClass, Dirichlet, Iid, Partition

# Four classes, not equally common.
LABELS = np.repeat([0, 1, 2, 3], [5, 10, 20, 40])
SKEWED = {"iid": Iid(), "dirichlet": Dirichlet(0.5), "by class": ByClass(2)}


# --- what a draw depends on -----------------------------------------------------------------------


@pytest.mark.parametrize("partition", SKEWED.values(), ids=SKEWED)
def test_samples_do_not_depend_on_the_order_of_calls(partition: Partition) -> None:
    places = list(itertools.product([0, 1], [0, 3], [1, 2], [0, 1, 5]))  # seed, instance, round, device
    forwards, backwards = (Sampler(LABELS, partition, 10) for _ in range(2))
    first = {place: forwards.shards(*place, 3) for place in places}
    for place in reversed(places):
        np.testing.assert_array_equal(first[place], backwards.shards(*place, 3))
        np.testing.assert_array_equal(first[place], Sampler(LABELS, partition, 10).shards(*place, 3))
    batches = {place: np.concatenate(device_batches(np.arange(30), 10, 2, *place)) for place in places}
    for one, other in itertools.combinations(places, 2):
        assert not np.array_equal(first[one], first[other]), f"{one} and {other} get the same"
        assert not np.array_equal(batches[one], batches[other])


# --- how the draws are distributed ----------------------------------------------------------------


def p_value(counts: np.ndarray, shares: np.ndarray) -> float:
    """Of Pearson's chi-square test that ``counts`` were drawn with these ``shares``."""
    expected = counts.sum() * shares
    statistic = ((counts - expected) ** 2 / expected).sum()
    return float(chi2.sf(statistic, counts.size - 1))


def test_iid_samples_are_uniform_over_the_training_set() -> None:
    sampler = Sampler(LABELS, Iid(), 10)
    rounds = [sampler.shards(0, 0, t, 0, 3) for t in range(1, 501)]
    assert p_value(np.bincount(np.concatenate(rounds), minlength=75), np.full(75, 1 / 75)) > 0.001
    # With replacement: repeats within a shard of ten out of 75 are the birthday problem, 46.9 %.
    repeats = sum(len(set(piece)) < 10 for r in rounds for piece in r.reshape(3, 10))
    distinct = np.prod(1 - np.arange(10) / 75)
    low, high = binom.interval(0.999, 1500, 1 - distinct)
    assert low <= repeats <= high


@pytest.mark.parametrize("partition", [Dirichlet(0.5), ByClass(1), ByClass(2), ByClass(4)], ids=str)
@pytest.mark.parametrize("device", range(4))
def test_skewed_samples_have_the_classes_of_the_drawn_shares(partition: Partition, device: int) -> None:
    shares = partition.class_shares(3, 1, device, 4)
    assert shares is not None
    assert shares.sum() == pytest.approx(1)
    sampler = Sampler(LABELS, partition, 10)
    samples = np.concatenate([sampler.shards(3, 1, t, device, 2) for t in range(1, 301)])
    counts = np.bincount(LABELS[samples], minlength=4)
    low, high = binom.interval(0.9999, samples.size, shares)
    assert ((low <= counts) & (counts <= high)).all()
    # Within a class all samples are alike.
    members = np.flatnonzero(np.argmax(counts) == LABELS)
    within = np.bincount(samples, minlength=75)[members]
    assert p_value(within, np.full(members.size, 1 / members.size)) > 0.001


# --- batches --------------------------------------------------------------------------------------


def cut(samples: int, batch: int, epochs: int, place: tuple[int, ...] = (0, 0, 1, 0)) -> list[Any]:
    return device_batches(np.arange(100, 100 + samples), batch, epochs, *place)


@pytest.mark.parametrize("samples, batch", [(20, 5), (23, 5), (3, 10), (7, 2)])
def test_every_epoch_holds_all_samples_in_another_order(samples: int, batch: int) -> None:
    per_epoch = -(-samples // batch) - (samples % batch == 1)
    found = cut(samples, batch, epochs=6)
    assert len(found) == 6 * per_epoch
    epochs = [np.concatenate(found[e * per_epoch : (e + 1) * per_epoch]) for e in range(6)]
    for epoch in epochs:
        assert set(epoch) <= set(range(100, 100 + samples))
        assert len(set(epoch)) == len(epoch) == samples - (samples % batch == 1)
    assert len({tuple(epoch) for epoch in epochs}) > (1 if samples == 3 else 5)


def test_the_last_batch_is_short_and_a_single_sample_is_dropped() -> None:
    assert [len(piece) for piece in cut(8, 3, epochs=2)] == [3, 3, 2] * 2
    assert [len(piece) for piece in cut(7, 3, epochs=2)] == [3, 3] * 2
    assert [len(piece) for piece in cut(2, 3, epochs=2)] == [2] * 2
    assert cut(1, 3, epochs=2) == []
    assert cut(0, 3, epochs=2) == []


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", [Dirichlet(), ByClass(1)])
def test_a_skew_over_a_class_without_samples(partition: Partition) -> None:
    with pytest.raises(fw.FedwaveError, match="class 1"):
        Sampler(np.array([0, 0, 2, 2]), partition, 10)
    Sampler(np.array([0, 0, 2, 2]), Iid(), 10)
