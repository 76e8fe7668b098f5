"""Each scheduler's priority against the formula of the specification, number by number."""

import math

import numpy as np
import pytest
from handmade import observation

import fedwave as fw
from fedwave.rng import Draws

P = [0.9, 0.25, 1.0, 0.0]
SNR = [3.0, 0.5, 40.0, 0.0]
N = [0, 7, 2, 30]
D = [1, 4, 2, 9]
THETA = [1.0, 3.5, 0.25, 10.0]
SAMPLED = [2.0, 0.5, 8.0, 1.5]  # by schedulers that learn the rates

EXPECTED = {
    "alsa-pi": [p * (n + theta) for p, n, theta in zip(P, N, THETA, strict=True)],
    "max-weight": [p * n for p, n in zip(P, N, strict=True)],
    "sqrt-rule": [p * (n + th) / math.sqrt(th) for p, n, th in zip(P, N, THETA, strict=True)],
    "fresh": [p * theta for p, theta in zip(P, THETA, strict=True)],
    "alpha-fresh": [p * th * math.sqrt(d) for p, th, d in zip(P, THETA, D, strict=True)],
    "age": [p * d for p, d in zip(P, D, strict=True)],
    "w-max": SNR,
    "proportional-fair": [math.log2(1 + snr) / 1e-6 for snr in SNR],
    "balsa": [p * (n + theta) for p, n, theta in zip(P, N, SAMPLED, strict=True)],
    "balsa-po": [p * d * theta for p, d, theta in zip(P, D, SAMPLED, strict=True)],
}


def situation(**changes):
    fields = {"gain": SNR, "success": P, "snr": SNR, "waiting": N, "delay": D, "rates": THETA}
    return observation(**fields | changes)


def priority(scheduler, seen, state=None):
    state = scheduler.start(seen.problem) if state is None else state
    return scheduler.priority(state, seen, Draws(0, [0]).at(seen.round))[0]


@pytest.mark.parametrize("name", EXPECTED)
def test_priority_is_the_formula_of_the_specification(name):
    state = {"theta": np.array([SAMPLED])} if "balsa" in name else None
    got = priority(fw.scheduler(name), situation(), state)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, EXPECTED[name], rtol=1e-14)


@pytest.mark.parametrize("alpha", [0, 0.0, 1, 0.25, -1, -0.5])
def test_alpha_fresh_takes_any_power_of_the_delay_also_a_whole_negative_one(alpha):
    got = priority(fw.scheduler("alpha-fresh", alpha=alpha), situation())
    expected = [p * th * float(d) ** alpha for p, th, d in zip(P, THETA, D, strict=True)]
    np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_sqrt_rule_ranks_a_device_that_never_gets_data_last():
    got = priority(fw.scheduler("sqrt-rule"), situation(rates=[0.0, 3.5, 0.25, 10.0]))
    assert got[0] == 0
    assert not np.isnan(got).any()


def test_round_robin_follows_slots_that_change_from_round_to_round():
    # Distance 5 km: no upload ever arrives, and the turn moves on all the same.
    net = fw.Network(devices=[fw.Device(rate=1, distance_m=5000)] * 3, slots=[1, 0, 2, 3, 1])
    trace = fw.simulate(net, "round-robin", rounds=5, instances=1)
    assert not trace.delivered.any()
    picked = [sorted(np.flatnonzero(row[0]).tolist()) for row in trace.scheduled]
    assert picked == [[0], [], [1, 2], [0, 1, 2], [0]]


def test_proportional_fair_averages_what_was_granted_over_rounds():
    """The recursion by hand, from what the trace says was scheduled."""
    net = fw.paper_network()
    trace = fw.simulate(net, "proportional-fair", rounds=40, instances=2, seed=5)
    granted = np.full((2, net.size), 1e-6)
    for t in range(40):
        rate = np.log2(1 + net.mean_snr * trace.gain[t])
        ratio = rate / granted
        lowest_picked = np.where(trace.scheduled[t], ratio, np.inf).min(axis=1)
        highest_left = np.where(trace.scheduled[t], -np.inf, ratio).max(axis=1)
        assert (lowest_picked >= highest_left).all()
        granted = 0.99 * granted + 0.01 * trace.scheduled[t] * rate
    np.testing.assert_allclose(trace.state["granted"], granted, rtol=1e-12)


def test_proportional_fair_survives_a_device_left_alone_until_its_average_is_zero():
    scheduler = fw.scheduler("proportional-fair", memory=0.9)
    state = {"granted": np.array([[0.0, 0.0, 1e-3, 0.0]])}
    got = priority(scheduler, situation(), state)
    assert np.isfinite(got).all()
    assert got[2] < got[1] < got[0]
    assert got[3] == 0
