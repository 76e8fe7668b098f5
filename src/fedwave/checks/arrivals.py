"""The contract of arrivals: whole numbers whose mean is the rate, and whose chances are known."""

from __future__ import annotations

import numpy as np

from fedwave.checks import statistics
from fedwave.checks.common import (
    Check,
    alone,
    block,
    equality,
    extent,
    is_record,
    network_with,
    repeats,
    saving,
    unaltered,
    unchanged,
)
from fedwave.errors import FedwaveError
from fedwave.network.arrivals import Arrivals
from fedwave.schedulers.priors import Jeffreys
from fedwave.schedulers.rates import posterior_for
from fedwave.types import Array, FloatArray, IntArray

_RATES = np.array([0.0, 0.3, 4.0, 12.0])


def _rates(devices: int) -> FloatArray:
    return np.resize(_RATES, devices)


def _sample(arrivals: Arrivals, ids: list[int], rounds: int, devices: int) -> IntArray:
    return arrivals.sample(block(ids, devices, rounds, purpose="arrivals"), _rates(devices))


def _counts(arrivals: Arrivals) -> None:
    most, devices, instances = extent(arrivals)
    for rounds in (1, 2, 64):
        for ids in ([0], list(range(instances))):
            counts = _sample(arrivals, ids, min(rounds, most), devices)
            shape, wanted = np.shape(counts), (min(rounds, most), len(ids), devices)
            kind = getattr(counts, "dtype", np.dtype(object))
            if kind.kind not in "iu" or shape != wanted:
                raise FedwaveError(
                    f"counts are of type {kind} and shape {shape}, must be an array of whole numbers [round, instance, "
                    f"device], here {wanted}: block.draw stacks them."
                )
            if counts.min() < 0:
                raise FedwaveError(f"a count is {counts.min()}, must be >= 0.")


def _inputs(arrivals: Arrivals) -> None:
    _, devices, instances = extent(arrivals)
    rates, given = _rates(devices), block(range(instances), devices, 2, purpose="arrivals")
    with unaltered(rates=rates, block=given.ids):
        arrivals.sample(given, rates)
        arrivals.mean_rates(rates)
        arrivals.chances(rates, 5)


def _repetition(arrivals: Arrivals) -> None:
    rounds, devices, instances = extent(arrivals)
    repeats(lambda ids: _sample(arrivals, ids, min(rounds, 64), devices), instances, "arrivals")


def _instances(arrivals: Arrivals) -> bool:
    rounds, devices, instances = extent(arrivals)
    return alone(lambda ids: _sample(arrivals, ids, min(rounds, 64), devices), instances, "arrivals")


def _chances(arrivals: Arrivals) -> None:
    """Probabilities that add up to one and do not depend on ``most``."""
    rates = _RATES.reshape(2, 2)
    few, many = arrivals.chances(rates, 5), _all_chances(arrivals, rates)
    if np.shape(few) != (2, 2, 6):
        raise FedwaveError(
            f"chances of rates of shape (2, 2) up to 5 have shape {np.shape(few)}, must be [..., most + 1]: (2, 2, 6)."
        )
    if not (np.isfinite(many).all() and many.min() >= 0):
        raise FedwaveError("chances hold NaN or negative values, must be probabilities, at rate 0 too.")
    total = many.sum(axis=-1)
    if np.abs(total - 1).max() > 1e-6:
        raise FedwaveError(
            f"chances at rate {rates.flat[int(np.argmax(np.abs(total - 1)))]:g} add up to "
            f"{total.flat[int(np.argmax(np.abs(total - 1)))]:.6f}, must add up to 1."
        )
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


def _frequencies(arrivals: Arrivals) -> bool:
    """What is drawn follows the chances."""
    if is_record(arrivals, Arrivals):
        return False
    counts = _sample(arrivals, list(range(statistics.DRAWS)), 1, _RATES.size)[0]
    expected = _all_chances(arrivals, _RATES).cumsum(axis=-1)
    for u, rate in enumerate(_RATES):
        off = _distance(counts[:, u], expected[u])
        if off > statistics.error_limit(statistics.DRAWS):
            raise FedwaveError(
                f"at rate {rate:g} the counts do not follow `chances` (the distribution functions differ by {off:.2f}, "
                f"chance explains {statistics.error_limit(statistics.DRAWS):.2f}): make both the same distribution."
            )
    return True


def _distance(counts: Array, distribution: FloatArray) -> float:
    seen = np.bincount(np.minimum(counts, distribution.size), minlength=distribution.size + 1)
    found = seen.cumsum()[: distribution.size] / counts.size
    return float(np.abs(found - distribution).max())


def _means(arrivals: Arrivals) -> bool:
    """`mean_rates` is the mean of the chances, so with `frequencies` the mean of what is drawn."""
    if is_record(arrivals, Arrivals):
        return False
    stated = arrivals.mean_rates(_RATES)
    if np.shape(stated) != _RATES.shape:
        raise FedwaveError(f"mean_rates of 4 devices has shape {np.shape(stated)}, must be (4,).")
    chances = _all_chances(arrivals, _RATES)
    mean = chances @ np.arange(chances.shape[-1])
    whole = chances.sum(axis=-1) > 1 - 1e-10  # else the mean is cut off
    wrong = whole & (np.abs(mean - stated) > 1e-6 * (1 + stated))
    if wrong.any():
        u = int(np.argmax(wrong))
        raise FedwaveError(
            f"at rate {_RATES[u]:g} the mean of the counts is {mean[u]:.4g}, but mean_rates says {stated[u]:.4g}: "
            "make the rate the mean, or override mean_rates."
        )
    return True


def _silence(arrivals: Arrivals) -> bool:
    """A device whose rate is 0 gets nothing; a record has rates of its own."""
    if is_record(arrivals, Arrivals):
        return False
    counts = arrivals.sample(block(range(50), 2, 8, purpose="arrivals"), np.zeros(2))
    if counts.any() or not np.array_equal(arrivals.chances(np.zeros(1), 2)[0], [1, 0, 0]):
        raise FedwaveError("a device with rate 0 gets shards, or `chances` says that it may: it must get nothing.")
    return True


def _distribution(arrivals: Arrivals) -> None:
    name = getattr(arrivals, "distribution", None)
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


def _parameters(arrivals: Arrivals) -> None:
    _, devices, instances = extent(arrivals)
    with unchanged(arrivals, "counts may depend on the block, the rates and the parameters only"):
        _sample(arrivals, list(range(instances)), 2, devices)
        arrivals.chances(_RATES, 5)


def _saving(arrivals: Arrivals) -> None:
    rounds, devices, instances = extent(arrivals)
    network = network_with(devices, arrivals=arrivals)
    saving(arrivals, network, "max-weight", rounds, rounds // 2, instances=instances)


CHECKS: dict[str, Check] = {
    "equality": equality,
    "counts": _counts,
    "inputs": _inputs,
    "repetition": _repetition,
    "instances": _instances,
    "chances": _chances,
    "silence": _silence,
    "frequencies": _frequencies,
    "means": _means,
    "distribution": _distribution,
    "parameters": _parameters,
    "saving": _saving,
}
