"""What a run writes down: everything by device, or a summary, and beliefs on request."""

import numpy as np
import pytest

import fedwave as fw
from fedwave.parts import registry
from fedwave.types import DEVICE_ARRAYS


def run(scheduler="balsa", rounds=90, **options):
    net = fw.paper_network(buffer_limit=6, miss_probability=0.3, slots=[3, 0, 25] * 30)
    return fw.simulate(net, scheduler, rounds, instances=3, seed=4, **options)


def test_a_full_record_holds_everything_by_device():
    trace = run(rounds=12)
    assert {*trace.series, *trace.totals} == set(registry.built_in("metric"))
    assert set(trace.devices) == set(DEVICE_ARRAYS) - {"available"}
    assert {a.shape for a in trace.series.values()} == {(12, 3)}
    assert {a.shape for a in trace.devices.values()} == {(12, 3, 25)}
    assert (trace.rounds, trace.instances) == (12, 3)
    assert trace.beliefs == run("alsa-pi", 3, beliefs=True).beliefs == {}


@pytest.mark.parametrize("name", ["alsa-pi", "balsa-po", "bench", "random"])
def test_a_summary_is_the_series_of_the_full_record(name):
    full = run(name)
    summary = run(name, record="summary")
    assert summary.devices == {}
    assert summary.series.keys() == full.series.keys()
    for field in full.series:
        np.testing.assert_array_equal(summary.series[field], full.series[field])
    for field in full.totals:
        np.testing.assert_array_equal(summary.totals[field], full.totals[field])
    np.testing.assert_array_equal(summary.final.waiting, full.final.waiting)


def test_a_summary_says_what_it_does_not_hold():
    summary = run(rounds=2, record="summary")
    with pytest.raises(fw.FedwaveError, match=r"is a summary and has no 'waiting': .*record=\"full\""):
        _ = summary.waiting


def test_beliefs_of_balsa_are_recorded_round_by_round():
    trace = run("balsa", 15, beliefs=True)
    shapes = {name: array.shape for name, array in trace.beliefs.items()}
    assert shapes == {"theta": (15, 3, 25), "counted": (15, 3, 25), "covered": (15, 3, 25), "stage_start": (15, 3)}
    # A lost shard is neither uploaded nor waiting: nobody can count it.
    accepted = np.cumsum(trace.arrivals - trace.lost, axis=0)
    seen = np.concatenate([np.zeros((1, 3, 25)), accepted[:-1]])
    np.testing.assert_array_equal(trace.beliefs["counted"], seen)
    rounds_before = np.arange(15)[:, None, None]
    np.testing.assert_array_equal(trace.beliefs["covered"], np.broadcast_to(rounds_before, seen.shape))


def test_counts_too_large_for_a_full_record_are_refused_not_wrapped():
    net = fw.Network(devices=[fw.Device(1, 100), fw.Device(1, 100)], slots=[0] * 9).replace(
        arrivals=fw.arrivals.RecordedArrivals(np.full((9, 2), 1_000_000_000))
    )
    assert fw.simulate(net, "random", 3, 1).waiting.max() == 2_000_000_000
    with pytest.raises(fw.FedwaveError, match=r"has 3000000000 shards, .*record=\"summary\""):
        fw.simulate(net, "random", 4, 1)
    assert fw.simulate(net, "random", 4, 1, record="summary").backlog[-1, 0] == 8_000_000_000
