"""The contract of arrivals: whole numbers whose mean is the rate, and whose chances are known."""

from __future__ import annotations

import numpy as np

from fedwave.checks import statistics
from fedwave.checks.shared import Family, Run, Trial, block, is_record
from fedwave.errors import FedwaveError
from fedwave.network.arrivals import Arrivals
from fedwave.schedulers.priors import Jeffreys
from fedwave.schedulers.rates import posterior_for
from fedwave.types import Array, FloatArray

_RATES = np.array([0.0, 0.3, 4.0, 12.0])


def _rates(trial: Trial) -> FloatArray:
    """Four rates, or with a network one for each device."""
    return _RATES if trial.network is None else np.resize(_RATES, trial.devices)


def _try(trial: Trial) -> None:
    arrivals, rates = trial.part, np.resize(_RATES, trial.devices)
    for rounds in (1, 2, 64):
        rounds = min(rounds, trial.rounds)
        counts = trial.call(arrivals.sample, block(trial.ids, trial.devices, rounds, purpose="arrivals"), rates.copy())
        trial.keep("counts", counts, (rounds, len(trial.ids), trial.devices), whole=True, axis=1)
    trial.keep("mean rates", trial.call(arrivals.mean_rates, rates.copy()), rates.shape)
    rates = _rates(trial).copy() if trial.network else _rates(trial).reshape(2, 2).copy()
    trial.keep("chances", trial.call(arrivals.chances, rates, 5), (*rates.shape, 6))


def _chances(trial: Trial) -> None:
    """Probabilities that add up to one and do not depend on ``most``."""
    rates = _rates(trial)
    few, many = trial.part.chances(rates, 5), _all_chances(trial.part, rates)
    if not (np.isfinite(many).all() and many.min() >= 0):
        raise FedwaveError("chances hold NaN or negative values, must be probabilities, at rate 0 too.")
    total = many.sum(axis=-1)
    worst = int(np.argmax(np.abs(total - 1)))
    if abs(total[worst] - 1) > 1e-6:
        raise FedwaveError(f"chances at rate {rates[worst]:g} add up to {total[worst]:.6f}, must add up to 1.")
    if not np.allclose(few, many[..., :6], rtol=1e-9, atol=1e-12):
        raise FedwaveError("P[m = 0], ..., P[m = 5] depend on `most`: they must not.")


def _all_chances(arrivals: Arrivals, rates: FloatArray) -> FloatArray:
    """Up to a count that is hardly ever exceeded."""
    most = 256
    while True:
        chances = arrivals.chances(rates, most)
        if most >= 1 << 16 or not np.any(chances.sum(axis=-1) < 1 - 1e-12):
            return chances
        most *= 4


def _frequencies(trial: Trial) -> bool:
    """The counts that are drawn follow the chances."""
    if is_record(trial.part):
        return False
    rates = _rates(trial)
    ids = range(max(500, 4 * statistics.DRAWS // rates.size))
    counts = trial.part.sample(block(ids, rates.size, 1, purpose="arrivals"), rates)[0]
    expected = _all_chances(trial.part, rates).cumsum(axis=-1)
    allowed = statistics.error_limit(len(ids))
    for u, rate in enumerate(rates):
        off = _distance(counts[:, u], expected[u])
        if off > allowed:
            raise FedwaveError(
                f"at rate {rate:g} the counts do not follow `chances` (the distribution functions differ by {off:.2f}, "
                f"chance explains {allowed:.2f}): make both the same distribution."
            )
    return True


def _distance(counts: Array, distribution: FloatArray) -> float:
    seen = np.bincount(np.minimum(counts, distribution.size), minlength=distribution.size + 1)
    found = seen.cumsum()[: distribution.size] / counts.size
    return float(np.abs(found - distribution).max())


def _means(trial: Trial) -> bool:
    """`mean_rates` is the mean of the chances, so with `frequencies` the mean of what is drawn."""
    if is_record(trial.part):
        return False
    rates = _rates(trial)
    stated = trial.part.mean_rates(rates)
    chances = _all_chances(trial.part, rates)
    mean = chances @ np.arange(chances.shape[-1])
    whole = chances.sum(axis=-1) > 1 - 1e-10  # else the mean is cut off
    wrong = whole & (np.abs(mean - stated) > 1e-6 * (1 + stated))
    if wrong.any():
        u = int(np.argmax(wrong))
        raise FedwaveError(
            f"at rate {rates[u]:g} the mean of the counts is {mean[u]:.4g}, but mean_rates says {stated[u]:.4g}: "
            "make the rate the mean, or override mean_rates."
        )
    return True


def _distribution(trial: Trial) -> None:
    name = getattr(trial.part, "distribution", None)
    if not isinstance(name, str):
        raise FedwaveError(
            f"`distribution` is {name!r}, must be the name that schedulers are given, such as 'poisson'."
        )
    try:
        posterior_for(name, Jeffreys())
    except FedwaveError as error:
        raise FedwaveError(
            f"schedulers that learn rates cannot run on it ({str(error).rstrip('.?')}): set `distribution` to the one "
            "that they should assume, 'poisson' for example."
        ) from None


def _runs(trial: Trial) -> list[Run]:
    network = trial.around(arrivals=trial.part)
    return [Run(network, "max-weight", trial.rounds, trial.rounds // 2, trial.instances)]


FAMILY = Family(
    try_part=_try,
    checks={"chances": _chances, "frequencies": _frequencies, "means": _means, "distribution": _distribution},
    random_numbers_rule="draw random numbers only from the generators of the block",
    runs=_runs,
)
