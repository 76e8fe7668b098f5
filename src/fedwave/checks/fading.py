"""The contract of a fading model: it draws from the block's generators, and keeps its memory in the carry.

The carry is the value that a block of rounds hands to the next one.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fedwave.checks import statistics
from fedwave.checks.shared import Family, Run, Trial, block, is_record
from fedwave.errors import FedwaveError
from fedwave.network.fading import Fading
from fedwave.network.world import World
from fedwave.types import FloatArray

_SHARES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def _try(trial: Trial) -> None:
    fading, size = trial.part, (len(trial.ids), trial.devices)
    for rounds in (1, 2, 7, 64):
        rounds = min(rounds, trial.rounds)
        gains, _ = trial.call(fading.sample, block(trial.ids, trial.devices, rounds), None)
        trial.keep("gains", gains, (rounds, *size), axis=1)
    carry = None
    for number in range(3):
        _, carry = trial.call(fading.sample, block(trial.ids, trial.devices, 2, number), carry)
    world = World(trial.around(fading=fading), 0, np.array(trial.ids))
    gains = np.stack([round_.gain for round_ in world.rounds(1, trial.rounds)])
    trial.keep("gains", gains, (trial.rounds, *size), axis=1)
    quartiles = np.array(trial.call(fading.quartiles))
    trial.keep("quartiles", quartiles, (3,))
    tries = _new_tries(trial, 4, 5000)
    if tries is not None:
        trial.keep("fresh gains", tries, tries.shape)


def _new_tries(trial: Trial, *shape: int) -> FloatArray | None:
    """New gains, ``[*shape, device]``; None if the model refuses them: its next gain may depend on the last."""
    tail = () if trial.network is None else (trial.devices,)
    rng = np.random.default_rng(1)
    try:
        found: FloatArray = trial.part.fresh(rng, (*shape, *tail))
    except FedwaveError:
        return None
    if np.shape(found) != (*shape, *tail):
        raise FedwaveError(f"fresh returns shape {np.shape(found)}, must be {(*shape, *tail)}.")
    return found.reshape(*shape, -1)


@lru_cache(maxsize=1)  # three checks look at them
def _paths(fading: Fading, devices: int) -> FloatArray:
    """Gains of 16 rounds of many instances, ``[16, n, device]``: two blocks, joined by the carry."""
    ids, carry, pieces = range(max(500, statistics.DRAWS // devices)), None, []
    for number in range(2):
        gains, carry = fading.sample(block(ids, devices, 8, number), carry)
        pieces.append(gains)
    return np.concatenate(pieces)


def _drawn(trial: Trial) -> FloatArray:
    return _paths(trial.part, 1 if trial.network is None else trial.devices)


def _independence(trial: Trial) -> bool:
    if not trial.part.independent or is_record(trial.part):
        return False
    for path in np.moveaxis(_drawn(trial), 2, 0)[:5]:  # one device
        for lag in (1, 2, 3):
            if statistics.correlated(path, lag):
                raise FedwaveError(
                    f"it is declared independent, but gains {lag} rounds apart are correlated: declare "
                    "`independent = False`."
                )
    return True


def _fresh(trial: Trial) -> bool:
    many = _new_tries(trial, 4, 5000)
    if many is None or is_record(trial.part):
        return False
    paths = _drawn(trial)
    for device in {0, paths.shape[2] - 1}:
        sample = many[..., device].ravel()
        allowed = statistics.error_limit(paths.shape[1], sample.size)
        for row in (0, 7, 15):
            off = statistics.distance(paths[row, :, device], sample)
            if off > allowed:
                raise FedwaveError(
                    f"fresh and the gains of round {row + 1} have different distributions (they differ by {off:.2f}, "
                    f"chance explains {allowed:.2f}): draw both from the same marginal distribution."
                )
    return True


def _quartiles(trial: Trial) -> bool:
    values = trial.part.quartiles()
    if not np.all(np.diff(values) >= 0):
        raise FedwaveError(f"quartiles are {values}, must not decrease.")
    if is_record(trial.part):
        return False
    sample = _drawn(trial)[0].ravel()
    for value, share in zip(values, (0.25, 0.5, 0.75), strict=True):
        off = statistics.misses(sample, value, share)
        if off > statistics.error_limit(sample.size, 200_000):  # the base class draws, too
            raise FedwaveError(
                f"quartiles says that {share:.0%} of the gains lie below {value:.4g}, but "
                f"{np.mean(sample < value):.0%} do: correct it, or leave it to the base class."
            )
    return True


def _sums(trial: Trial) -> bool:
    network = trial.network
    if _new_tries(trial, 1) is None or (network is not None and not network.success.later_tries):
        return False  # only HARQ adds gains
    size = 20_000
    allowed = statistics.error_limit(size) + statistics.error_limit(200_000)  # the base class draws, too
    for tries in (1, 3):
        sums = trial.part.fresh(np.random.default_rng(2), (tries, size)).sum(axis=0)
        quantiles = trial.part.sum_quantiles(tries, _SHARES)
        exceed = trial.part.sum_exceeds(tries, quantiles)
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


def _runs(trial: Trial) -> list[Run]:
    stop = trial.rounds // 2 + (5 if trial.rounds > 64 else 0)
    return [Run(trial.around(fading=trial.part), "w-max", trial.rounds, stop, trial.instances)]


FAMILY = Family(
    try_part=_try,
    checks={"independence": _independence, "fresh": _fresh, "quartiles": _quartiles, "sums": _sums},
    state_is_in="the carry, which sample is given and returns",
    random_numbers_rule="draw random numbers only from the generators of the block, and in fresh from `rng`",
    runs=_runs,
)
