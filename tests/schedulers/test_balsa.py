"""BALSA and BALSA-PO: what they count, what they believe, and what they cannot see."""

from itertools import product

import numpy as np
import pytest
from handmade import observation
from scipy import stats

import fedwave as fw
from fedwave.errors import HiddenInformation
from fedwave.rng import Draws
from fedwave.schedulers.balsa import Balsa, BalsaPo

RULES = ("literal", "max1", "per-device")
PRIORS = (fw.priors.Jeffreys(), fw.priors.Gamma(1.0, 0.5), fw.priors.Truncated(0.2, 15.0))
ARRIVALS = (fw.arrivals.Poisson(), fw.arrivals.NegativeBinomial(1.0), fw.arrivals.ZeroInflatedPoisson(0.5))


def sums_before(values):
    """Of rounds 1 to t - 1, in row t."""
    return np.cumsum(values, axis=0) - values


@pytest.mark.parametrize("arrivals", ARRIVALS[:2], ids=lambda a: a.family)
def test_balsa_counts_every_arrival_of_every_round_before(arrivals):
    net = fw.paper_network(arrivals=arrivals)
    trace = fw.simulate(net, "balsa", rounds=60, instances=3, seed=3, beliefs=True)
    assert np.array_equal(trace.beliefs["counted"], sums_before(trace.arrivals))
    rounds_before = np.arange(60)[:, None, None]
    assert (trace.beliefs["covered"] == rounds_before).all()


@pytest.mark.parametrize("arrivals", ARRIVALS[:2], ids=lambda a: a.family)
def test_balsa_po_counts_only_what_arrived_uploads_brought(arrivals):
    net = fw.paper_network(arrivals=arrivals)
    trace = fw.simulate(net, "balsa-po", rounds=60, instances=3, seed=3, beliefs=True)
    shards = np.where(trace.delivered, trace.waiting + trace.arrivals, 0)
    rounds = np.where(trace.delivered, trace.delay, 0)
    assert np.array_equal(trace.beliefs["counted"], sums_before(shards))
    assert np.array_equal(trace.beliefs["covered"], sums_before(rounds))
    # Of a device not yet heard of, nothing is believed.
    assert (trace.beliefs["theta"][trace.beliefs["covered"] == 0] == 1).all()


def test_with_full_buffers_they_count_what_found_room():
    net = fw.paper_network(buffer_limit=3)
    for name in ("balsa", "balsa-po"):
        trace = fw.simulate(net, name, rounds=60, instances=2, seed=3, beliefs=True)
        assert trace.lost.any()
        accepted = trace.arrivals - trace.lost
        shards = np.where(trace.delivered, trace.waiting + accepted, 0)
        expected = accepted if name == "balsa" else shards
        assert np.array_equal(trace.beliefs["counted"], sums_before(expected))


def test_rates_are_drawn_from_the_posterior_of_the_counts():
    """Each theta through the distribution function it should have come from must be uniform."""
    for name in ("balsa", "balsa-po"):
        trace = fw.simulate(fw.paper_network(), name, rounds=60, instances=3, seed=8, beliefs=True)
        counted, covered = trace.beliefs["counted"], trace.beliefs["covered"]
        known = covered > 0
        posterior = stats.gamma(counted[known] + 0.5, scale=1 / covered[known])
        level = posterior.cdf(trace.beliefs["theta"][known])
        assert stats.kstest(level, "uniform").pvalue > 0.001


def test_learnt_rates_come_close_to_the_true_ones():
    net = fw.paper_network()
    for name in ("balsa", "balsa-po"):
        trace = fw.simulate(net, name, rounds=600, instances=4, seed=0, beliefs=True)
        counted, covered = trace.beliefs["counted"][-1], trace.beliefs["covered"][-1]
        off = (counted / covered - net.rates) / np.sqrt(net.rates / covered)
        assert np.abs(off).max() < 4.5  # 200 of them, in standard errors
        assert abs(off.mean()) < 4 / np.sqrt(off.size)


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


def test_balsa_po_decides_alike_whatever_waits():
    """The same channel, delays and reports with other backlogs: nothing leads from n to the decision."""
    rng = np.random.default_rng(0)
    seen = {"success": rng.random((1, 4)), "gain": rng.random((1, 4)), "delay": [[2, 1, 5, 3]]}
    scheduler = BalsaPo()
    decisions = []
    for waiting in ([[0, 0, 0, 0]], [[90, 0, 7, 50]]):
        view = observation(round_=1, **seen, waiting=waiting)
        state = scheduler.start(view.problem)
        decisions.append(scheduler.decide(state, view, Draws(0, [0]).at(1))[0].transmits)
    assert np.array_equal(*decisions)


@pytest.mark.parametrize("kind", [Balsa, BalsaPo])
@pytest.mark.parametrize("arrivals", ARRIVALS, ids=lambda a: a.family)
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


def test_a_posterior_of_ones_own_choice_is_used():
    chosen = Balsa(posterior=fw.posterior.GridPosterior(shapes=(2.0,), points=50))
    trace = fw.simulate(fw.paper_network(), chosen, rounds=4, instances=1)
    assert trace.state["log_likelihood"].shape == (1, 25, 50)
