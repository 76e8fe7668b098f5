"""What is believed of a rate: Gamma(a0 + S, rate b0 + R) with Poisson arrivals, cut to an interval or not; a grid."""

import numpy as np
import pytest
from handmade import problem
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


@pytest.mark.parametrize("prior", [fw.priors.Jeffreys(), fw.priors.Truncated(0.0, 2.0)], ids=repr)
def test_rows_are_sampled_for_themselves(prior):
    """Asked for two of the instances, each gets what it would get among all."""
    posterior, rows = fw.posterior.ConjugatePosterior(prior), np.array([3, 7])
    every = posterior.sample(state(4, 2), np.arange(ROWS), Draws(0, range(ROWS)).at(1))
    some = posterior.sample(state(4, 2), rows, Draws(0, range(ROWS)).at(1))
    assert np.array_equal(some, every[rows])


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


# --- beliefs for arrivals that are not Poisson ----------------------------------------------------


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


@pytest.mark.parametrize("evidence", [None, (0, 5000), (100_000, 10)])
def test_a_cut_prior_keeps_the_grid_inside_its_interval(evidence):
    posterior = fw.posterior.GridPosterior(prior=fw.priors.Truncated(0.5, 8.0))
    state = posterior.start(problem(ROWS, DEVICES))
    if evidence:
        shape = (ROWS, DEVICES)
        state = posterior.update(state, np.full(shape, evidence[0]), evidence[1], np.ones(shape, np.bool_))
    theta = posterior.sample(state, np.arange(ROWS), Draws(0, range(ROWS)).at(1))
    assert theta.min() >= 0.5
    assert theta.max() <= 8.0


# --- coverage: credible intervals must hold what they promise ---------------------------------------

# True rates are drawn from the prior, data from the rates. Then the true rate is one more draw from the posterior, so
# its rank among 19 samples is uniform on 0..19: it lies within the middle ten ranks exactly half of the time and off
# both ends exactly nine times in ten, up to binomial noise.
SHAPE = (200, 20)
PRIOR = fw.priors.Gamma(2.0, 0.5)
SHAPES = {"negative-binomial": (0.5, 2.0, 8.0), "zero-inflated-poisson": (0.2, 0.5, 0.8)}
EVIDENCE = {"single counts": [1] * 6, "sums": [4, 1, 9]}  # rounds that each number covers


def truth_and_posterior(family, rng):
    """(rates that make the data, shapes, rates to be found, posterior)."""
    if family == "poisson":
        theta = rng.gamma(PRIOR.shape, 1 / PRIOR.rate, SHAPE)
        return theta, np.zeros(SHAPE), theta, fw.posterior.ConjugatePosterior(PRIOR)
    posterior = fw.posterior.GridPosterior(
        distribution=family, prior=PRIOR, shapes=SHAPES[family], low=0.1, high=30.0, points=60
    )
    weight = posterior.rates**PRIOR.shape * np.exp(-PRIOR.rate * posterior.rates)
    on_grid = rng.choice(posterior.rates, size=SHAPE, p=weight / weight.sum())
    shape = rng.choice(SHAPES[family], size=SHAPE)
    # Within its cell of the grid a rate is uniform in the logarithm, and the data do not know where.
    cell = np.log(posterior.rates[1] / posterior.rates[0])
    return on_grid, shape, on_grid * np.exp(cell * (rng.random(SHAPE) - 0.5)), posterior


def counts(family, theta, shape, rng):
    if family == "poisson":
        return rng.poisson(theta)
    if family == "negative-binomial":
        return rng.negative_binomial(shape, shape / (shape + theta))
    return rng.poisson(theta / (1 - shape)) * (rng.random(SHAPE) >= shape)


def ranks(family, covers, seed=0):
    rng = np.random.default_rng(seed)
    theta, shape, wanted, posterior = truth_and_posterior(family, rng)
    state = posterior.start(problem(*SHAPE, family=family))
    everywhere = np.ones(SHAPE, np.bool_)
    for rounds in covers:
        total = sum(counts(family, theta, shape, rng) for _ in range(rounds))
        state = posterior.update(state, total, rounds, everywhere)
    draws, rows = Draws(seed, range(200)), np.arange(200)
    below = [posterior.sample(state, rows, draws.at(k)) < wanted for k in range(1, 20)]
    return np.sum(below, axis=0).ravel()


@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize("family", ["poisson", "negative-binomial", "zero-inflated-poisson"])
def test_credible_intervals_cover_what_they_say(family, evidence):
    rank = ranks(family, EVIDENCE[evidence])
    for nominal, first, last in ((0.5, 5, 14), (0.9, 1, 18)):
        hits = int(np.count_nonzero((rank >= first) & (rank <= last)))
        assert stats.binomtest(hits, rank.size, nominal).pvalue > 0.001
    assert stats.chisquare(np.bincount(rank, minlength=20)).pvalue > 0.001
