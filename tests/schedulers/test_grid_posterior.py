"""Beliefs for arrivals that are not Poisson: the likelihood of sums, and the posterior on the grid."""

import numpy as np
import pytest
from handmade import problem
from scipy import stats

import fedwave as fw
from fedwave.rng import Draws
from fedwave.schedulers.posterior import negative_binomial_sum, zero_inflated_sum

ROWS, DEVICES = 100, 40


def single_count(family, theta, shape, size):
    """P[m = 0, 1, ...] of one round, from the definition of the family."""
    counts = np.arange(size)
    if family == "negative-binomial":
        return stats.nbinom.pmf(counts, shape, shape / (shape + theta))
    busy = (1 - shape) * stats.poisson.pmf(counts, theta / (1 - shape))
    return busy + shape * (counts == 0)


@pytest.mark.parametrize("rounds", [1, 2, 7])
@pytest.mark.parametrize("theta", [0.05, 1.0, 6.5])
@pytest.mark.parametrize(
    "family, log_sum, shapes",
    [
        ("negative-binomial", negative_binomial_sum, [0.25, 2.0, 32.0]),
        ("zero-inflated-poisson", zero_inflated_sum, [0.0, 0.1, 0.9]),
    ],
)
def test_likelihood_of_a_sum_is_the_convolution_of_single_counts(family, log_sum, shapes, theta, rounds):
    size = 60
    for shape in shapes:
        one = single_count(family, theta, shape, size)
        total = np.array([1.0])
        for _ in range(rounds):
            total = np.convolve(total, one)[:size]  # exact for sums below `size`
        for s in (0, 1, 2, 5, 20, 59):
            got = log_sum(s, rounds, np.array([theta]), np.array([shape]))[0]
            assert np.exp(got) == pytest.approx(total[s], rel=1e-9, abs=1e-300)


def test_a_likelihood_that_underflows_stays_finite_in_the_logarithm():
    far = negative_binomial_sum(5000, 3, np.array([0.02]), np.array([32.0]))
    also = zero_inflated_sum(5000, 3, np.array([0.02]), np.array([0.5]))
    assert np.isfinite([far, also]).all()
    assert max(far[0], also[0]) < -1000


def fed(posterior, evidence, shape=(ROWS, DEVICES)):
    """The state after the same (total, rounds) pairs have been seen everywhere."""
    state = posterior.start(problem(*shape, family=posterior.distribution))
    everywhere = np.ones(shape, np.bool_)
    for total, rounds in evidence:
        state = posterior.update(state, np.full(shape, total), rounds, everywhere)
    return state


def test_the_unknown_shape_is_learnt_too():
    """Many silent rounds and some full ones: a long silence explains them, a low rate does not."""
    posterior = fw.posterior.GridPosterior(distribution="zero-inflated-poisson", prior=fw.priors.Gamma(1.0, 0.1))
    state = fed(posterior, [(0, 1)] * 30 + [(12, 1)] * 10, (1, 1))
    weight = np.exp(state["log_likelihood"] - state["log_likelihood"].max())
    by_shape = weight.reshape(posterior.points, -1).sum(axis=0)
    assert posterior.shape_values[int(by_shape.argmax())] in (0.7, 0.8)


@pytest.mark.parametrize("evidence", [[], [(0, 5000)], [(100_000, 10)]])
def test_a_cut_prior_keeps_the_grid_inside_its_interval(evidence):
    prior = fw.priors.Truncated(0.5, 8.0)
    posterior = fw.posterior.GridPosterior(prior=prior)
    theta = posterior.sample(fed(posterior, evidence), np.arange(ROWS), Draws(0, range(ROWS)).at(1))
    assert theta.min() >= 0.5
    assert theta.max() <= 8.0


def test_jeffreys_takes_a_rate_of_one_until_something_has_been_seen():
    posterior = fw.posterior.GridPosterior()
    theta = posterior.sample(fed(posterior, []), np.arange(ROWS), Draws(0, range(ROWS)).at(1))
    assert (theta == 1).all()


def test_only_the_devices_that_were_heard_of_are_updated():
    posterior = fw.posterior.GridPosterior()
    before = posterior.start(problem(1, 2))
    after = posterior.update(before, np.array([[5, 5]]), 2, np.array([[True, False]]))
    assert after["counted"].tolist() == [[5, 0]]
    assert (after["log_likelihood"][0, 0] != 0).all()
    assert (after["log_likelihood"][0, 1] == 0).all()
    assert (before["log_likelihood"] == 0).all()
