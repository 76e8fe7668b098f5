"""When a Bayesian scheduler draws new rates: the paper's stages, and three readings of its rule.

Stage k starts in round t_k and ends when t > t_k + T_{k-1} (it may be one round longer than the one
before), or when some state-action pair has been visited more than twice as often as when it began,
M^t(s, a) > 2 M^{t_k}(s, a). Only the pair of the round just played can newly pass that test.

* ``literal``    as printed. Any *new* pair ends the stage (1 > 0), so where states hardly repeat the
                 rates are drawn anew in every round.
* ``max1``       with max{1, M} on the right: there only the length rule acts, about sqrt(2 T) stages.
* ``per-device`` as printed, but counted for each device's own (state, scheduled); any device ends the
                 common stage.

For counting, a state is the level of h (four, cut at its quartiles) and a bin of the backlog or delay
(0, 1-2, 3-5, 6 or more).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fedwave.types import Array, BoolArray, IntArray, Observation, Problem, State

STAGE_RULES = ("literal", "max1", "per-device")
_CODES = 32  # 4 channel levels x 4 backlog bins x scheduled or not


def start(rule: str, problem: Problem) -> State:
    """The stage state before round 1: no stage has begun, T_0 = 1."""
    state: dict[str, Array] = {
        "stage_start": np.zeros(problem.instances, dtype=np.int64),
        "stage_length_before": np.ones(problem.instances, dtype=np.int64),
    }
    if rule == "per-device":
        counts = np.zeros((problem.instances, problem.devices, _CODES), dtype=np.int32)
        last = np.zeros((problem.instances, problem.devices), dtype=np.uint8)
        return state | {"visits": counts, "visits_at_start": counts, "last_pair": last}
    return state | {"pairs": np.zeros((problem.instances, 0), dtype=np.uint64)}


def ended(rule: str, state: State, round_: int) -> BoolArray:
    """Which instances begin a new stage in this round, ``[I]``."""
    begun = state["stage_start"]
    if round_ == 1:
        return np.ones(begun.shape, dtype=np.bool_)
    over_long: BoolArray = round_ > begun + state["stage_length_before"]
    return over_long | _doubled(rule, state)


def begin(rule: str, state: State, new: BoolArray, round_: int) -> State:
    """Begin a stage in the instances marked ``new``."""
    length = np.where(state["stage_start"] > 0, round_ - state["stage_start"], 1)
    changed = {
        "stage_start": np.where(new, round_, state["stage_start"]),
        "stage_length_before": np.where(new, length, state["stage_length_before"]),
    }
    if rule == "per-device":
        changed["visits_at_start"] = np.where(
            new[:, None, None], state["visits"], state["visits_at_start"]
        )
    return {**state, **changed}


def visit(
    rule: str, state: State, seen: Observation, load: IntArray, scheduled: BoolArray
) -> State:
    """Count the state-action pair of this round; ``load`` is n, or d where n is hidden, ``[I, U]``."""
    code = _code(seen, load, scheduled)
    if rule == "per-device":
        visits = state["visits"].copy()
        here = np.take_along_axis(visits, code[:, :, None], axis=2)
        np.put_along_axis(visits, code[:, :, None], here + 1, axis=2)
        return {**state, "visits": visits, "last_pair": code}
    # One 64-bit number stands for the pair of all devices: with random multipliers two different
    # pairs meet with a chance near 2^-59.
    pair = (code.astype(np.uint64) * _multipliers(code.shape[1])).sum(axis=1, dtype=np.uint64)
    return {**state, "pairs": np.concatenate([state["pairs"], pair[:, None]], axis=1)}


def _doubled(rule: str, state: State) -> BoolArray:
    if rule == "per-device":
        pair = state["last_pair"][:, :, None]
        now = np.take_along_axis(state["visits"], pair, axis=2)
        at_start = np.take_along_axis(state["visits_at_start"], pair, axis=2)
        by_device: BoolArray = np.any(now > 2 * at_start, axis=(1, 2))
        return by_device
    same: BoolArray = state["pairs"] == state["pairs"][:, -1:]
    before_stage = np.arange(1, same.shape[1] + 1) < state["stage_start"][:, None]
    least = 1 if rule == "max1" else 0
    count_at_start = np.maximum(np.count_nonzero(same & before_stage, axis=1), least)
    doubled: BoolArray = np.count_nonzero(same, axis=1) > 2 * count_at_start
    return doubled


def _code(seen: Observation, load: IntArray, scheduled: BoolArray) -> Array:
    # Bytes, not 64-bit numbers: with a million devices this is memory traffic and nothing else.
    code = scheduled.astype(np.uint8)
    for edge in seen.problem.gain_quartiles:
        code += (seen.gain >= edge).view(np.uint8) << np.uint8(3)
    for least in (1, 3, 6):
        code += (load >= least).view(np.uint8) << np.uint8(1)
    return code


@lru_cache(maxsize=4)
def _multipliers(devices: int) -> Array:
    return np.random.default_rng(0).integers(1, 2**63, size=devices, dtype=np.uint64)
