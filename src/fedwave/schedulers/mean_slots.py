"""The mean number of slots so far: what a price is found for if W changes from round to round."""

from __future__ import annotations

import numpy as np

from fedwave.types import FloatArray, Observation, Problem, State


def start(problem: Problem) -> State:
    """The sum of W so far and the number of rounds, ``[I]`` each."""
    zero = np.zeros(problem.instances, dtype=np.int64)
    return {"slots_so_far": zero, "rounds_so_far": zero}


def count(state: State, seen: Observation) -> State:
    """Add the slots of this round."""
    return {**state, "slots_so_far": state["slots_so_far"] + seen.slots, "rounds_so_far": state["rounds_so_far"] + 1}


def mean(state: State, seen: Observation) -> FloatArray:
    """The mean of W so far, ``[I]``, rounded to quarters so that a varying W needs few prices."""
    rounds = state["rounds_so_far"]
    so_far = np.where(rounds > 0, state["slots_so_far"] / np.maximum(rounds, 1), seen.slots)
    out: FloatArray = np.maximum(np.round(4 * so_far) / 4, 0.25)  # without slots any price is fine
    return out
