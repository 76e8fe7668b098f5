"""The contract of a fading model: gains from the block's generators, all memory in the carry."""

from __future__ import annotations

from functools import lru_cache

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
from fedwave.network.fading import Fading
from fedwave.network.world import World
from fedwave.types import FloatArray

_SHARES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def _gains(fading: Fading) -> None:
    most, devices, instances = extent(fading)
    for rounds in (1, 2, 7, 64):
        for ids in ([0], range(instances)):
            gains, _ = fading.sample(block(ids, devices, min(rounds, most)), None)
            shape, wanted = np.shape(gains), (min(rounds, most), len(ids), devices)
            kind = getattr(gains, "dtype", type(gains).__name__)
            if kind != np.float64 or shape != wanted:
                raise FedwaveError(
                    f"gains are of type {kind} and shape {shape}, must be a float64 array [round, instance, device], "
                    f"here {wanted}: block.draw stacks them."
                )
            if not (np.isfinite(gains) & (gains >= 0)).all():
                wrong = gains[~(np.isfinite(gains) & (gains >= 0))][0]
                raise FedwaveError(f"a gain is {wrong}, must be a finite number >= 0.")


def _inputs(fading: Fading) -> None:
    _, devices, instances = extent(fading)
    carry = None
    for number in range(3):
        given = block(range(instances), devices, 2, number)
        with unaltered(carry=carry, block=given.ids):
            _, carry = fading.sample(given, carry)


def _world(fading: Fading, ids: list[int], first: int, last: int, devices: int) -> FloatArray:
    world = World(network_with(devices, fading=fading), 0, np.array(ids))
    return np.stack([round_.gain for round_ in world.rounds(first, last)])


def _repetition(fading: Fading) -> None:
    rounds, devices, instances = extent(fading)
    repeats(lambda ids: _world(fading, ids, 1, rounds, devices), instances, "gains")


def _instances(fading: Fading) -> bool:
    rounds, devices, instances = extent(fading)
    return alone(lambda ids: _world(fading, ids, 1, rounds, devices), instances, "gains")


@lru_cache(maxsize=1)  # three checks look at them
def _paths(fading: Fading) -> FloatArray:
    """Gains of one device in 16 rounds of many instances, ``[16, n]``: two blocks, joined by the carry."""
    ids, carry, pieces = range(statistics.DRAWS), None, []
    for number in range(2):
        gains, carry = fading.sample(block(ids, 1, 8, number), carry)
        pieces.append(gains[:, :, 0])
    return np.concatenate(pieces)


def _independence(fading: Fading) -> bool:
    if not fading.independent or is_record(fading, Fading):
        return False
    path = _paths(fading)
    for lag in (1, 2, 3):
        if statistics.correlated(path, lag):
            raise FedwaveError(
                f"it is declared independent, but gains {lag} rounds apart are correlated: declare "
                "`independent = False`."
            )
    return True


def _fresh_draws(fading: Fading, shape: tuple[int, ...]) -> FloatArray | None:
    """New tries; None if the model refuses them, as one does whose next gain depends on the last."""
    try:
        return fading.fresh(np.random.default_rng(1), shape)
    except FedwaveError:
        return None


def _fresh(fading: Fading) -> bool:
    many = _fresh_draws(fading, (4, 5000))
    if many is None or is_record(fading, Fading):
        return False
    if np.shape(many) != (4, 5000):
        raise FedwaveError(f"fresh returns shape {np.shape(many)}, must be (4, 5000).")
    if not np.array_equal(many, fading.fresh(np.random.default_rng(1), (4, 5000))):
        raise FedwaveError("fresh differs between calls with equal generators: draw only from `rng`.")
    path = _paths(fading)
    allowed = statistics.error_limit(statistics.DRAWS, many.size)
    for row in (0, 7, 15):
        off = statistics.distance(path[row], many.ravel())
        if off > allowed:
            raise FedwaveError(
                f"fresh and the gains of round {row + 1} have different distributions (they differ by {off:.2f}, "
                f"chance explains {allowed:.2f}): draw both from the same marginal distribution."
            )
    return True


def _quartiles(fading: Fading) -> bool:
    values = fading.quartiles()
    if len(values) != 3 or not np.all(np.diff(values) >= 0) or not np.isfinite(values).all():
        raise FedwaveError(f"quartiles are {values}, must be three finite numbers that do not decrease.")
    if is_record(fading, Fading):
        return False
    sample = _paths(fading)[0]
    for value, share in zip(values, (0.25, 0.5, 0.75), strict=True):
        off = statistics.misses(sample, value, share)
        if off > statistics.error_limit(statistics.DRAWS, 200_000):  # the base class draws, too
            raise FedwaveError(
                f"quartiles says that {share:.0%} of the gains lie below {value:.4g}, but "
                f"{np.mean(sample < value):.0%} do: correct it, or leave it to the base class."
            )
    return True


def _sums(fading: Fading) -> bool:
    if _fresh_draws(fading, (1,)) is None:
        return False
    size = 20_000
    allowed = statistics.error_limit(size) + statistics.error_limit(200_000)  # the base class draws, too
    for tries in (1, 3):
        sums = fading.fresh(np.random.default_rng(2), (tries, size)).sum(axis=0)
        quantiles = fading.sum_quantiles(tries, _SHARES)
        exceed = fading.sum_exceeds(tries, quantiles)
        if np.shape(quantiles) != _SHARES.shape or np.shape(exceed) != _SHARES.shape:
            raise FedwaveError("sum_quantiles and sum_exceeds must keep the shape of their argument.")
        for q, share, above in zip(quantiles, _SHARES, exceed, strict=True):
            if statistics.misses(sums, q, share) > allowed:
                raise FedwaveError(
                    f"sum_quantiles({tries}, {share}) is {q:.4g}, but {np.mean(sums < q):.1%} of such sums lie below: "
                    "correct it, or leave it to the base class."
                )
            if abs(np.mean(sums >= q) - above) > allowed:
                raise FedwaveError(
                    f"sum_exceeds({tries}, {q:.4g}) is {above:.4g}, but {np.mean(sums >= q):.1%} of such sums do: "
                    "correct it, or leave it to the base class."
                )
    return True


def _parameters(fading: Fading) -> None:
    _, devices, instances = extent(fading)
    with unchanged(fading, "keep what evolves in the carry, which sample is given and returns"):
        fading.sample(block(range(instances), devices, 2), None)
        fading.quartiles()
        _fresh_draws(fading, (2,))


def _saving(fading: Fading) -> None:
    rounds, devices, instances = extent(fading)
    network = network_with(devices, fading=fading)
    stop = rounds // 2 + (5 if rounds > 64 else 0)
    saving(fading, network, "w-max", rounds, stop, instances=instances)


CHECKS: dict[str, Check] = {
    "equality": equality,
    "gains": _gains,
    "inputs": _inputs,
    "repetition": _repetition,
    "instances": _instances,
    "independence": _independence,
    "fresh": _fresh,
    "quartiles": _quartiles,
    "sums": _sums,
    "parameters": _parameters,
    "saving": _saving,
}
