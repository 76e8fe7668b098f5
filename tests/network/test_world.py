"""The world does not depend on the scheduler, the other instances, the number of rounds or the first round."""

import itertools

import numpy as np
import pytest

import fedwave as fw
from fedwave.rng import PURPOSES, Draws, stream

FIELDS = ("gain", "snr", "success", "goes_through", "arrivals", "heard", "luck")

NETWORKS = {
    "default": {},
    "rician": {"fading": fw.fading.Rician(3.0)},
    "gauss-markov": {"fading": fw.fading.GaussMarkov(0.9)},
    "static shadowing": {"fading": fw.fading.Shadowing(8.0, 1.0)},
    "renewed shadowing": {"fading": fw.fading.Shadowing(8.0, 0.0)},
    "renewed shadowing of gauss-markov": {"fading": fw.fading.Shadowing(8.0, 0.0, fw.fading.GaussMarkov(0.8))},
    "shadowed gauss-markov": {"fading": fw.fading.Shadowing(8.0, 0.7, fw.fading.GaussMarkov(0.8))},
    "harq": {"success": fw.success.Harq(fw.success.Turbo(), 3)},
    "negative binomial": {"arrivals": fw.arrivals.NegativeBinomial(0.5)},
    "zero-inflated": {"arrivals": fw.arrivals.ZeroInflatedPoisson(0.4)},
}


@pytest.fixture(params=NETWORKS)
def network(request):
    return fw.paper_network(miss_probability=0.2, **NETWORKS[request.param])


def assert_same(whole, part, at=np.s_[:]):
    """What ``part`` holds is what stands at ``at`` in ``whole``."""
    for name in FIELDS:
        expected, got = getattr(whole, name)[at], getattr(part, name)
        np.testing.assert_array_equal(got, expected, err_msg=name)


def test_every_instance_and_every_seed_is_another_world(play, network):
    gain = np.concatenate([play(network, 2, 10, seed=seed).gain for seed in (11, 12)])
    assert np.unique(gain).size == gain.size


def test_instance_7_is_the_same_in_any_company(play, network):
    alone = play(network, 70, [7])
    assert_same(play(network, 70, range(8)), alone, at=np.s_[:, 7:8])
    assert_same(play(network, 70, range(50)), alone, at=np.s_[:, 7:8])
    assert_same(play(network, 70, [40, 7, 3]), alone, at=np.s_[:, 1:2])


def test_a_short_run_is_the_beginning_of_a_long_one(play, network):
    assert_same(play(network, 500, 2), play(network, 100, 2), at=np.s_[:100])


@pytest.mark.parametrize("first", [2, 64, 65, 70, 129])
def test_starting_in_the_middle_is_the_same_as_going_through(play, network, first):
    later = play(network, 140, 2, first=first)
    assert later.round == list(range(first, 141))
    assert_same(play(network, 140, 2), later, at=np.s_[first - 1 :])


def test_a_large_network_with_short_blocks_keeps_these_properties(play, crowd):
    net = crowd(3000, fading=fw.fading.GaussMarkov(0.9), miss_probability=0.2)  # its blocks are shorter than 64 rounds
    whole = play(net, 50, 2)
    assert whole.round == list(range(1, 51))
    assert_same(whole, play(net, 20, 2), at=np.s_[:20])
    assert_same(whole, play(net, 50, [1], first=31), at=np.s_[30:, 1:])


# --- streams --------------------------------------------------------------------------------------


def test_every_stream_is_another_one():
    keys = list(itertools.product(range(3), PURPOSES, range(6), range(6)))
    starts = [stream(*key).bit_generator.random_raw() for key in keys]
    assert len(set(starts)) == len(keys)


def test_a_schedulers_stream_depends_on_the_round_alone():
    def numbers(rounds):
        draws = Draws(5, [3, 4])
        return [draws.at(t).uniform(6) for t in rounds][-1]

    np.testing.assert_array_equal(numbers([1, 2, 3]), numbers([3]))
    np.testing.assert_array_equal(numbers([9, 1, 3]), numbers([3]))
    assert np.all(numbers([2]) != numbers([3]))
    np.testing.assert_array_equal(Draws(5, [4]).at(3).uniform(6)[0], numbers([3])[1])


def test_every_purpose_draws_once_from_its_own_stream(play, monkeypatch):
    """Two purposes on one stream may look independent and yet move together when one is changed."""
    asked = []

    def listening(seed, purpose, instance, block):
        asked.append((purpose, instance, block))
        return stream(seed, purpose, instance, block)

    monkeypatch.setattr("fedwave.network.world.stream", listening)
    play(fw.paper_network(miss_probability=0.2, success=fw.success.Harq()), 70, [0, 3])
    purposes = ("gain", "luck", "retries", "arrivals", "broadcast")
    assert sorted(asked) == sorted(itertools.product(purposes, (0, 3), (0, 1)))


@pytest.mark.parametrize(
    ("change", "untouched"),
    [
        ({"fading": fw.fading.Rician(2.0)}, {"arrivals", "heard", "luck"}),
        ({"success": fw.success.Soft()}, {"gain", "snr", "arrivals", "heard", "luck"}),
        ({"success": fw.success.Harq(fw.success.Turbo(), 2)}, {"gain", "snr", "arrivals", "heard", "luck"}),
        ({"arrivals": fw.arrivals.NegativeBinomial(1.0)}, set(FIELDS) - {"arrivals"}),
        ({"miss_probability": 0.9}, set(FIELDS) - {"heard"}),
        ({"slots": 1, "gamma": 1.0, "buffer_limit": 3}, set(FIELDS)),
    ],
)
def test_changing_one_part_leaves_the_others_as_they_were(play, change, untouched):
    base = fw.paper_network(miss_probability=0.2)
    before, after = play(base, 70, 2), play(base.replace(**change), 70, 2)
    for name in FIELDS:
        same = np.array_equal(getattr(before, name), getattr(after, name))
        assert same == (name in untouched), name


# --- what the fields mean -------------------------------------------------------------------------


def test_uploads_go_through_with_the_probability_of_their_round(play, crowd, agree):
    weather = play(crowd(1000, distance_m=500.0), 64)
    for low, high in ((0.01, 0.3), (0.3, 0.7), (0.7, 0.99)):
        here = (weather.success > low) & (weather.success < high)
        assert here.sum() > 500
        agree((weather.goes_through - weather.success)[here], 0.0)
    assert np.all(weather.goes_through[weather.success == 1.0])


def test_broadcasts_are_missed_with_their_probability(play, agree):
    q = np.repeat([0.0, 0.05, 0.5, 1.0], 100)
    table = fw.DeviceTable(rate=np.ones(400), distance_m=100.0, miss_probability=q)
    heard = play(fw.Network(devices=table, slots=1), 64).heard
    agree(~heard[..., 100:200], 0.05)
    agree(~heard[..., 200:300], 0.5)
    assert heard[..., :100].all()
    assert not heard[..., 300:].any()
