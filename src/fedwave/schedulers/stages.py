"""Stages: when a learning scheduler draws new rates, with three readings of the paper's rule.

Stage k starts in round t_k. It ends when t > t_k + T_{k-1}, so it is at most one round longer than the stage
before it, or when some state-action pair has been visited more than twice as often as at its start,
M^t(s, a) > 2 M^{t_k}(s, a). Only the pair of the last round can newly pass that test.

* ``literal``    as printed. A pair that is visited for the first time ends the stage (1 > 0). Where states hardly
                 repeat, new rates are drawn in every round.
* ``max1``       with max{1, M} on the right. Where states hardly repeat, only the length rule acts: about sqrt(2 T)
                 stages.
* ``per-device`` as printed, but each device has its own counts of (state, scheduled). Any device ends the common
                 stage.

For counting, a state is the level of h (four, cut at its quartiles) and a bin of the backlog or delay
(0, 1-2, 3-5, 6 or more).

For `literal` and `max1` the pairs of all devices in a round are one 64-bit number. ``recent_pairs`` holds the numbers
of the last rounds in their order: at least sqrt(2 t) + 2 of them, and so all of the current stage. ``older_pairs``
holds the others, sorted. A round copies the recent numbers only; every sqrt(2 t) rounds or more they are merged into
the older ones, so T rounds take a time that grows as T^1.5. All sizes depend on the round alone, so an instance has
the same state whatever instances run beside it.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

import numpy as np

from fedwave.types import Array, BoolArray, IntArray, Observation, Problem, State

STAGE_RULES = ("literal", "max1", "per-device")
_CODES = 32  # 4 channel levels x 4 backlog bins x scheduled or not
_BLOCK = 256  # at least this many recent pairs are merged at a time


def initial_stages(rule: str, problem: Problem) -> State:
    """The stage state before round 1: no stage has begun, T_0 = 1."""
    state: dict[str, Array] = {
        "stage_start": np.zeros(problem.instances, dtype=np.int64),
        "stage_length_before": np.ones(problem.instances, dtype=np.int64),
    }
    if rule == "per-device":
        counts = np.zeros((problem.instances, problem.devices, _CODES), dtype=np.int32)
        last = np.zeros((problem.instances, problem.devices), dtype=np.uint8)
        return state | {"visits": counts, "visits_at_start": counts, "last_pair": last}
    none = np.zeros((problem.instances, 0), dtype=np.uint64)
    return state | {"recent_pairs": none, "older_pairs": none}


def stage_ends(rule: str, state: State, round_: int) -> BoolArray:
    """Which instances begin a new stage in this round, ``[I]``."""
    begun = state["stage_start"]
    if round_ == 1:
        return np.ones(begun.shape, dtype=np.bool_)
    over_long: BoolArray = round_ > begun + state["stage_length_before"]
    if rule == "per-device":
        pair = state["last_pair"][:, :, None]
        now, at_start = (np.take_along_axis(state[name], pair, axis=2) for name in ("visits", "visits_at_start"))
        doubled: BoolArray = np.any(now > 2 * at_start, axis=(1, 2))
        return over_long | doubled
    return over_long | _doubled(state, round_, least=1 if rule == "max1" else 0)


def begin_stage(rule: str, state: State, new: BoolArray, round_: int) -> State:
    """Begin a stage in the instances marked ``new``."""
    length = np.where(state["stage_start"] > 0, round_ - state["stage_start"], 1)
    changed = {
        "stage_start": np.where(new, round_, state["stage_start"]),
        "stage_length_before": np.where(new, length, state["stage_length_before"]),
    }
    if rule == "per-device":
        changed["visits_at_start"] = np.where(new[:, None, None], state["visits"], state["visits_at_start"])
    return {**state, **changed}


def count_visit(rule: str, state: State, seen: Observation, load: IntArray, scheduled: BoolArray) -> State:
    """Count the state-action pair of this round; ``load`` is n, or d where n is hidden, ``[I, U]``."""
    code = _code(seen, load, scheduled)
    if rule == "per-device":
        visits = state["visits"].copy()
        here = np.take_along_axis(visits, code[:, :, None], axis=2)
        np.put_along_axis(visits, code[:, :, None], here + 1, axis=2)
        return {**state, "visits": visits, "last_pair": code}
    # One 64-bit number represents the pair of all devices. With random multipliers, two different pairs have the
    # same number with probability near 2^-59. The largest number is left out: _visits adds 1 to each.
    pair = (code.astype(np.uint64) * _multipliers(code.shape[1])).sum(axis=1, dtype=np.uint64)
    pair = np.minimum(pair, np.uint64(2**64 - 2))
    recent = np.concatenate([state["recent_pairs"], pair[:, None]], axis=1)
    # A stage of l rounds follows stages of at least l - 1, ..., 2 rounds: l <= sqrt(2 t) + 1.
    kept = isqrt(2 * seen.round) + 2
    if recent.shape[1] < _BLOCK + 2 * kept:
        return {**state, "recent_pairs": recent}
    older = np.concatenate([state["older_pairs"], np.sort(recent[:, :-kept], axis=1)], axis=1)
    # A stable sort merges two sorted runs in linear time.
    older = np.sort(older, axis=1, kind="stable")
    return {**state, "recent_pairs": recent[:, -kept:].copy(), "older_pairs": older}


def _doubled(state: State, round_: int, least: int) -> BoolArray:
    """M^t > 2 max{least, M^{t_k}} for the pair of the last round, ``[I]``."""
    recent = state["recent_pairs"]
    pair = recent[:, -1]
    same: BoolArray = recent == pair[:, None]
    rounds = np.arange(round_ - recent.shape[1], round_)
    in_stage = np.count_nonzero(same & (rounds >= state["stage_start"][:, None]), axis=1)
    doubled = np.zeros(pair.shape, dtype=np.bool_)
    row = np.flatnonzero(in_stage > least)  # elsewhere the test fails, whatever M^{t_k} is
    if row.size:
        visits = np.count_nonzero(same[row], axis=1)
        for k, i in enumerate(row):  # for some dozens of instances faster than one search for all
            older, one = state["older_pairs"][i], pair[i : i + 1]
            visits[k] += older.searchsorted(one, "right")[0] - older.searchsorted(one)[0]
        doubled[row] = visits > 2 * np.maximum(visits - in_stage[row], least)
    return doubled


def _code(seen: Observation, load: IntArray, scheduled: BoolArray) -> Array:
    # Bytes, not 64-bit numbers: with a million devices memory traffic dominates.
    code = scheduled.astype(np.uint8)
    for edge in seen.problem.gain_quartiles:
        code += (seen.gain >= edge).view(np.uint8) << np.uint8(3)
    for least in (1, 3, 6):
        code += (load >= least).view(np.uint8) << np.uint8(1)
    return code


@lru_cache(maxsize=4)
def _multipliers(devices: int) -> Array:
    return np.random.default_rng(0).integers(1, 2**63, size=devices, dtype=np.uint64)
