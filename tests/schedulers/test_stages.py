"""When new rates are drawn: each reading of the stage rule against a slow one written with dicts."""

import math
from collections import Counter

import numpy as np
import pytest

import fedwave as fw
from fedwave.schedulers import stages

# Little data and one slot: the same few states come again and again.
REPEATING = fw.Network(devices=[fw.Device(rate=0.05, distance_m=300), fw.Device(rate=0.3, distance_m=450)], slots=1)


def level(value, edges):
    return sum(value >= edge for edge in edges)


def pairs_of(trace, instance, watched):
    """For every round the (state, scheduled) of each device, in words of the specification."""
    quartiles = [math.log(4 / 3), math.log(2), math.log(4)]
    loads = trace.waiting if watched == "n" else trace.delay
    rounds = []
    for t in range(trace.rounds):
        pair = []
        for u in range(trace.gain.shape[2]):
            gain, load = trace.gain[t, instance, u], loads[t, instance, u]
            state = (level(gain, quartiles), level(load, (1, 3, 6)))
            pair.append((*state, bool(trace.scheduled[t, instance, u])))
        rounds.append(tuple(pair))
    return rounds


def stage_starts(pairs, rule):
    """The first round of the stage that each round belongs to."""
    visits, at_start = Counter(), Counter()
    begun, length_before = 1, 1
    starts = [1]
    for t in range(2, len(pairs) + 1):
        last = pairs[t - 2]
        # What is counted: the pair of all devices together, or each device's own.
        keys = list(enumerate(last)) if rule == "per-device" else [last]
        visits.update(keys)
        least = 1 if rule == "max1" else 0
        doubled = any(visits[k] > 2 * max(least, at_start[k]) for k in visits)
        if doubled or t > begun + length_before:
            begun, length_before = t, t - begun
            at_start = visits.copy()
        starts.append(begun)
    return starts


@pytest.mark.parametrize("rule", ["literal", "max1", "per-device"])
@pytest.mark.parametrize("block", [1, 16, 256])  # how visits are stored does not matter
@pytest.mark.parametrize("name, watched", [("balsa", "n"), ("balsa-po", "d")])
def test_stages_are_those_of_the_rule_spelt_out(name, watched, rule, block, monkeypatch):
    monkeypatch.setattr(stages, "_BLOCK", block)
    chosen = fw.scheduler(name, stage_rule=rule)
    trace = fw.simulate(REPEATING, chosen, rounds=400, instances=3, seed=2, beliefs=True)
    for i in range(3):
        expected = stage_starts(pairs_of(trace, i, watched), rule)
        assert trace.beliefs["stage_start"][:, i].tolist() == expected
    if rule != "per-device":
        recent, older = (trace.state[f"{name}_pairs"].shape[1] for name in ("recent", "older"))
        assert recent + older == 400  # one number per round
        assert recent < block + 2 * math.sqrt(2 * 400) + 4
    # Rates stay the same within a stage, and are drawn again in every round of which something new is known.
    goes_on = np.diff(trace.beliefs["stage_start"], axis=0) == 0
    moved = np.diff(trace.beliefs["theta"], axis=0) != 0
    assert goes_on.any()
    assert not moved[goes_on].any()
    assert moved[~goes_on & (trace.beliefs["covered"][1:] > 0).all(axis=2)].all()
