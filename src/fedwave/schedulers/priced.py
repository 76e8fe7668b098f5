"""Indices with a price of a transmission: they count the slots, whose mean so far the price is found for."""

from __future__ import annotations

import numpy as np

from fedwave.schedulers.rates import Index
from fedwave.types import FloatArray, Observation, Problem, State


class PricedIndex(Index):
    """Base of indices with a price. If W changes from round to round, the price is that of its mean so far."""

    needs = frozenset({"statistics"})

    def start(self, problem: Problem) -> State:
        zero = np.zeros(problem.instances, dtype=np.int64)
        return {"slots_so_far": zero, "rounds_so_far": zero}

    def learn(self, state: State, seen: Observation) -> State:
        slots, rounds = state["slots_so_far"], state["rounds_so_far"]
        return {**state, "slots_so_far": slots + seen.slots, "rounds_so_far": rounds + 1}


def mean_slots(state: State, seen: Observation) -> FloatArray:
    """The mean of W so far, ``[I]``, rounded to quarters so that a varying W needs few prices."""
    rounds = state["rounds_so_far"]
    so_far = np.where(rounds > 0, state["slots_so_far"] / np.maximum(rounds, 1), seen.slots)
    out: FloatArray = np.maximum(np.round(4 * so_far) / 4, 0.25)  # without slots any price is fine
    return out
