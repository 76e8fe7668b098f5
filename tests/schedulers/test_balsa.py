"""BALSA and BALSA-PO: what they count, what they believe, and what they cannot see."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

import fedwave as fw
from fedwave.errors import HiddenInformation
from fedwave.schedulers.balsa import Balsa, BalsaPo

RULES = ("literal", "max1", "per-device")
PRIORS = (fw.priors.Jeffreys(), fw.priors.Gamma(1.0, 0.5), fw.priors.Truncated(0.2, 15.0))
ARRIVALS = (fw.arrivals.Poisson(), fw.arrivals.NegativeBinomial(1.0), fw.arrivals.ZeroInflatedPoisson(0.5))


def sums_before(values):
    """Of rounds 1 to t - 1, in row t."""
    return np.cumsum(values, axis=0) - values


@pytest.mark.parametrize("limit", [np.inf, 3])
@pytest.mark.parametrize("arrivals", ARRIVALS[:2], ids=lambda a: a.distribution)
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


def test_balsa_po_cannot_reach_the_backlog():
    assert BalsaPo.needs == {"channel"}

    class Peeking(BalsaPo):
        name = "peeking"

        def priority(self, state, seen, draws):
            return seen.success * (seen.waiting + state["theta"])

    with pytest.raises(
        HiddenInformation, match="reads 'waiting' but does not declare it: add 'backlog' to its `needs`"
    ):
        fw.simulate(fw.paper_network(), Peeking(), rounds=2, instances=1)


@pytest.mark.parametrize("kind", [Balsa, BalsaPo])
@pytest.mark.parametrize("arrivals", ARRIVALS, ids=lambda a: a.distribution)
def test_all_priors_and_stage_rules_work_with_all_arrivals(kind, arrivals):
    net = fw.paper_network(arrivals=arrivals)
    for prior, rule in product(PRIORS, RULES):
        chosen = kind(prior=prior, stage_rule=rule)
        trace = fw.simulate(net, chosen, rounds=8, instances=2, seed=1, beliefs=True)
        theta = trace.beliefs["theta"]
        assert np.isfinite(theta).all()
        assert (theta > 0).all()
        if isinstance(prior, fw.priors.Truncated):
            assert theta.min() >= 0.2
            assert theta.max() <= 15.0
