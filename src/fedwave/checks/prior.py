"""The contract of a prior: a Gamma density on an interval, the same for every kind of posterior."""

from __future__ import annotations

import numpy as np

from fedwave.checks.shared import Family, Run, Trial
from fedwave.errors import FedwaveError, is_number
from fedwave.rng import Draws
from fedwave.schedulers.balsa import Balsa
from fedwave.schedulers.posterior import ConjugatePosterior, GridPosterior, Posterior
from fedwave.schedulers.priors import Prior
from fedwave.types import FloatArray, Problem

_INSTANCES = 50


def _try(trial: Trial) -> None:
    prior = trial.part
    if not (is_number(prior.low) and 0 <= prior.low < prior.high):
        raise FedwaveError(f"low is {prior.low} and high is {prior.high}, must be 0 <= low < high.")
    if not (is_number(prior.shape) and prior.shape > 0 and is_number(prior.rate) and prior.rate >= 0):
        raise FedwaveError(
            f"shape is {prior.shape} and rate is {prior.rate}, must be numbers, shape > 0 and rate >= 0."
        )
    inside = _inside(prior).reshape(4, 10)
    what = f"log densities between low {prior.low:g} and high {prior.high:g}"
    trial.keep(what, trial.call(prior.log_density, inside), (4, 10), low=-np.inf)


def _inside(prior: Prior) -> FloatArray:
    return np.geomspace(max(prior.low, 1e-3), min(prior.high, max(prior.low, 1e-3) * 1e6), 40)


def _density(trial: Trial) -> None:
    prior = trial.part
    outside = [x for x in (prior.low / 2, prior.high * 2) if 0 < x < np.inf and x != prior.low]
    if outside and not np.all(prior.log_density(np.array(outside)) == -np.inf):
        raise FedwaveError(
            f"log_density is not -inf at {outside}, outside [{prior.low}, {prior.high}]: rates there are impossible."
        )


def _conjugacy(trial: Trial) -> None:
    prior, theta = trial.part, _inside(trial.part)
    formula = (prior.shape - 1) * np.log(theta) - prior.rate * theta
    gap = prior.log_density(theta) - formula
    if np.ptp(gap) > 1e-6 * (1 + np.abs(formula).max()):
        raise FedwaveError(
            "log_density is not (shape - 1) ln(theta) - rate theta + constant: Poisson arrivals use `shape` and "
            "`rate`, others log_density, and both must mean the same prior."
        )


def _sampling(trial: Trial) -> None:
    prior = trial.part
    rows, total = np.arange(_INSTANCES), np.tile([0, 1, 30, 4000], (_INSTANCES, 1))
    problem = Problem(_INSTANCES, 4, "poisson", (0.3, 0.7, 1.4))
    kinds: tuple[Posterior, ...] = (ConjugatePosterior(prior), GridPosterior(prior=prior))
    for posterior in kinds:
        before = posterior.start(problem)
        after = posterior.update(before, total, 20, np.ones(total.shape, np.bool_))
        for state, when in ((before, "before anything was counted"), (after, "after 20 rounds")):
            rates = posterior.sample(state, rows, Draws(0, range(_INSTANCES)).at(1))
            fine = (rates >= prior.low) & (rates <= prior.high) & (rates >= 0) & np.isfinite(rates)
            # An improper prior is replaced by the rate 1 until something was counted.
            if not (fine | ((rates == 1) & (state["covered"] == 0))).all():
                raise FedwaveError(
                    f"{type(posterior).__name__} draws the rate {rates[~fine][0]:g} {when}, must lie in "
                    f"[{prior.low}, {prior.high}]: check shape, rate, low and high."
                )


FAMILY = Family(
    try_part=_try,
    checks={"density": _density, "conjugacy": _conjugacy, "sampling": _sampling},
    state_is_in="the scheduler's state, as beliefs are",
    runs=lambda trial: [Run(trial.around(), Balsa(prior=trial.part), instances=2)],
)
