"""What is believed of a rate: Gamma(a0 + S, rate b0 + R) with Poisson arrivals, cut to an interval or not; a grid."""

import numpy as np
import pytest
from handmade import problem
from refusals import refused
from scipy import integrate, stats

import fedwave as fw
from fedwave.rng import Draws
from fedwave.schedulers.posterior import negative_binomial_sum, zero_inflated_sum

ROWS, DEVICES = 100, 40  # 4000 draws of one posterior


def state(counted, covered):
    shape = (ROWS, DEVICES)
    return {"counted": np.full(shape, counted), "covered": np.full(shape, covered)}


def sample(prior, counted, covered, seed=0):
    posterior = fw.posterior.ConjugatePosterior(prior)
    draws = Draws(seed, range(ROWS)).at(1)
    return posterior.sample(state(counted, covered), np.arange(ROWS), draws).ravel()


@pytest.mark.parametrize("kind", [fw.posterior.ConjugatePosterior, fw.posterior.GridPosterior])
def test_jeffreys_takes_a_rate_of_one_until_something_has_been_seen(kind):
    posterior = kind()
    before = posterior.start(problem(ROWS, DEVICES))
    assert (posterior.sample(before, np.arange(ROWS), Draws(0, range(ROWS)).at(1)) == 1).all()


@pytest.mark.parametrize("kind", [fw.posterior.ConjugatePosterior, fw.posterior.GridPosterior])
def test_only_the_devices_that_were_heard_of_are_updated(kind):
    posterior = kind()
    before = posterior.start(problem(1, 3))
    after = posterior.update(before, np.array([[5, 6, 0]]), np.array([[2, 3, 4]]), np.array([[True, False, True]]))
    assert after["counted"].tolist() == [[5, 0, 0]]
    assert after["covered"].tolist() == [[2, 0, 4]]
    assert before["counted"].tolist() == [[0, 0, 0]]  # a new value, not a change of the old
    if "log_likelihood" in after:
        assert after["log_likelihood"].any(axis=2).tolist() == [[True, False, True]]
        assert not before["log_likelihood"].any()


def cut_cdf(shape, rate, low, high):
    """The distribution function by integrating the density, scaled so that nothing underflows."""
    mode = np.clip((shape - 1) / rate if rate else low, low, high)
    slope = abs((shape - 1) / mode - rate) if mode > 0 else rate
    width = min(high - low, *(40 / s for s in (slope, np.sqrt(shape) / mode**2) if s > 0))
    near = np.clip(mode + 10 * width * np.linspace(-1, 1, 40_001), low, high)
    x = np.unique(np.concatenate([near, np.linspace(low, high, 40_001)]))
    x = x[x > 0]
    log_density = (shape - 1) * np.log(x) - rate * x
    mass = integrate.cumulative_trapezoid(np.exp(log_density - log_density.max()), x, initial=0)
    return lambda theta: np.interp(theta, x, mass / mass[-1])


INSIDE = [(3, 2), (30, 10), (0, 1), (0, 5)]
EXTREME = [
    (0, 300),  # nearly all of the posterior lies below the interval
    (0, 100_000),  # and here so much that its tail underflows
    (1_000, 20),  # above
    (1_000_000, 1_000),
]


@pytest.mark.parametrize("counted, covered", INSIDE + EXTREME)
@pytest.mark.parametrize("prior", [fw.priors.Jeffreys(), fw.priors.Gamma(2.0, 0.5)])
def test_a_cut_posterior_stays_inside_and_keeps_its_shape(prior, counted, covered):
    low, high = 0.1, 20.0
    theta = sample(fw.priors.Truncated(low, high, prior), counted, covered)
    assert theta.min() >= low
    assert theta.max() <= high
    cdf = cut_cdf(prior.shape + counted, prior.rate + covered, low, high)
    assert stats.kstest(theta, cdf).pvalue > 0.001


def test_a_cut_jeffreys_prior_is_proper_and_sampled_before_anything_has_been_seen():
    theta = sample(fw.priors.Truncated(0.25, 9.0), 0, 0)
    # The density theta^(-1/2) is uniform in the square root.
    assert stats.kstest(np.sqrt(theta), stats.uniform(0.5, 2.5).cdf).pvalue > 0.001


@pytest.mark.parametrize(
    "kind, wrong, tokens",
    [
        (fw.priors.Gamma, {"shape": 0}, ("shape", 0)),
        (fw.priors.Gamma, {"rate": np.nan}, ("rate", "nan")),
        (fw.priors.Truncated, {"low": 3.0, "high": 2.0}, ("high", 2.0)),
        (fw.priors.Truncated, {"high": np.inf}, ("high", "inf")),
        (fw.posterior.GridPosterior, {"distribution": "binomial"}, ("'binomial'",)),
        (fw.posterior.GridPosterior, {"low": 0}, ("low", 0)),
        (fw.posterior.GridPosterior, {"prior": fw.priors.Truncated(2000, 3000)}, (2000, 3000, "grid")),
    ],
)
def test_priors_that_make_no_sense_are_refused(kind, wrong, tokens):
    with refused(*tokens):
        kind(**wrong)


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


@pytest.mark.parametrize(
    "family, log_sum, shapes",
    [
        ("negative-binomial", negative_binomial_sum, (0.5, 2.0, 8.0)),
        ("zero-inflated-poisson", zero_inflated_sum, (0.2, 0.5, 0.8)),
    ],
)
@pytest.mark.parametrize(
    "evidence", [[(3, 1), (0, 1), (5, 1), (2, 1)], [(9, 4), (0, 1), (21, 9)]], ids=["single", "sums"]
)
def test_the_grid_is_the_prior_times_the_likelihood_averaged_over_the_shapes(family, log_sum, shapes, evidence):
    prior = fw.priors.Gamma(2.0, 0.5)
    posterior = fw.posterior.GridPosterior(family, prior, shapes, low=0.05, high=50.0, points=300)
    state, everywhere = posterior.start(problem(ROWS, DEVICES)), np.ones((ROWS, DEVICES), np.bool_)
    for total, rounds in evidence:
        state = posterior.update(state, np.full(everywhere.shape, total), rounds, everywhere)
    theta = posterior.sample(state, np.arange(ROWS), Draws(0, range(ROWS)).at(1)).ravel()
    x = np.geomspace(0.05, 50, 5000)
    likelihood = sum(np.exp(sum(log_sum(s, r, x, np.full(x.shape, shape)) for s, r in evidence)) for shape in shapes)
    mass = integrate.cumulative_trapezoid(np.exp(prior.log_density(x)) * likelihood, x, initial=0)
    assert stats.kstest(theta, lambda at: np.interp(at, x, mass / mass[-1])).pvalue > 0.001
