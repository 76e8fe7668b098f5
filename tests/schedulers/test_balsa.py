"""BALSA and BALSA-PO: what they count, and what they believe."""

import numpy as np
import pytest
from scipy import stats

import fedwave as fw

ARRIVALS = (fw.arrivals.Poisson(), fw.arrivals.NegativeBinomial(1.0), fw.arrivals.ZeroInflatedPoisson(0.5))


def sums_before(values):
    """Of rounds 1 to t - 1, in row t."""
    return np.cumsum(values, axis=0) - values


@pytest.mark.parametrize("limit", [np.inf, 3])
@pytest.mark.parametrize("arrivals", ARRIVALS, ids=lambda a: a.distribution)
@pytest.mark.parametrize("name", ["balsa", "balsa-po"])
def test_they_count_what_they_can_know(name, arrivals, limit):
    """balsa every arrival that found room, of every round before; balsa-po what arrived uploads brought."""
    net = fw.paper_network(arrivals=arrivals, buffer_limit=limit)
    trace = fw.simulate(net, name, rounds=60, instances=3, seed=3, beliefs=True)
    assert trace.lost.any() == (limit == 3)
    shards, rounds = trace.accepted, np.ones(trace.delay.shape)
    if name == "balsa-po":
        shards = np.where(trace.delivered, trace.waiting + trace.accepted, 0)
        rounds = np.where(trace.delivered, trace.delay, 0)
    assert np.array_equal(trace.beliefs["counted"], sums_before(shards))
    assert np.array_equal(trace.beliefs["covered"], sums_before(rounds))
    # Of a device not yet heard of, nothing is believed.
    known = trace.beliefs["covered"] > 0
    assert (trace.beliefs["theta"][~known] == 1).all()
    if arrivals.distribution == "poisson":  # each theta through the distribution function it comes from
        counted, covered = (trace.beliefs[what][known] for what in ("counted", "covered"))
        level = stats.gamma(counted + 0.5, scale=1 / covered).cdf(trace.beliefs["theta"][known])
        assert stats.kstest(level, "uniform").pvalue > 0.001
