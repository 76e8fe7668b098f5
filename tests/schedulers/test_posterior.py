"""What is believed of a rate with Poisson arrivals: Gamma(a0 + S, rate b0 + R), cut to an interval or not."""

import numpy as np
import pytest
from handmade import problem
from scipy import integrate, stats

import fedwave as fw
from fedwave.rng import Draws

ROWS, DEVICES = 100, 40  # 4000 draws of one posterior


def state(counted, covered):
    shape = (ROWS, DEVICES)
    return {"counted": np.full(shape, counted), "covered": np.full(shape, covered)}


def sample(prior, counted, covered, seed=0):
    posterior = fw.posterior.ConjugatePosterior(prior)
    draws = Draws(seed, range(ROWS)).at(1)
    return posterior.sample(state(counted, covered), np.arange(ROWS), draws).ravel()


def assert_within_noise(values, mean, sd):
    """Mean and standard deviation of a sample, each within 3.5 of its own standard errors."""
    n, centred = values.size, (values - values.mean()) ** 2
    assert abs(values.mean() - mean) < 3.5 * sd / np.sqrt(n)
    assert abs(centred.mean() - sd**2) < 3.5 * centred.std() / np.sqrt(n)


@pytest.mark.parametrize(
    "prior, shape, rate",
    [(fw.priors.Jeffreys(), 0.5, 0.0), (fw.priors.Gamma(2.0, 0.25), 2.0, 0.25), (fw.priors.Gamma(), 1.0, 1.0)],
)
@pytest.mark.parametrize("counted, covered", [(0, 1), (3, 4), (700, 70)])
def test_moments_are_those_of_the_gamma_posterior(prior, shape, rate, counted, covered):
    a, b = shape + counted, rate + covered
    assert_within_noise(sample(prior, counted, covered), a / b, np.sqrt(a) / b)


def test_jeffreys_takes_a_rate_of_one_until_something_has_been_seen():
    assert (sample(fw.priors.Jeffreys(), 0, 0) == 1).all()


def test_only_the_devices_that_were_heard_of_are_updated():
    posterior = fw.posterior.ConjugatePosterior()
    before = posterior.start(problem(1, 3))
    known = np.array([[True, False, True]])
    after = posterior.update(before, np.array([[5, 6, 0]]), np.array([[2, 3, 4]]), known)
    assert after["counted"].tolist() == [[5, 0, 0]]
    assert after["covered"].tolist() == [[2, 0, 4]]
    assert before["counted"].tolist() == [[0, 0, 0]]  # a new value, not a change of the old


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
    "make, text",
    [
        (lambda: fw.priors.Gamma(shape=0), "Gamma shape is 0"),
        (lambda: fw.priors.Gamma(rate=np.nan), "Gamma rate is nan"),
        (lambda: fw.priors.Truncated(3.0, 2.0), "high is 2.0"),
        (lambda: fw.priors.Truncated(0.1, np.inf), "high is inf"),
        (lambda: fw.posterior.GridPosterior(distribution="binomial"), "'binomial'"),
        (lambda: fw.posterior.GridPosterior(low=0), "must be 0 < low < high < inf and two or more points"),
        (lambda: fw.posterior.GridPosterior(prior=fw.priors.Truncated(2000, 3000)), "holds no grid point"),
    ],
)
def test_priors_that_make_no_sense_are_refused(make, text):
    with pytest.raises(fw.FedwaveError, match=text):
        make()
