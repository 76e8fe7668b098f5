"""Credible intervals must hold what they promise.

True rates are drawn from the prior, data from the rates. Then the true rate is one more draw from the
posterior, so its rank among 19 samples is uniform on 0..19: it lies within the middle ten ranks exactly
half of the time and off both ends exactly nine times in ten, up to binomial noise.
"""

import numpy as np
import pytest
from handmade import problem
from scipy import stats

import fedwave as fw
from fedwave.rng import Draws

INSTANCES, DEVICES = 200, 20
SHAPE = (INSTANCES, DEVICES)
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
    draws, rows = Draws(seed, range(INSTANCES)), np.arange(INSTANCES)
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
