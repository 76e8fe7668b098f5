"""Better than greedy: schedulers that price a transmission, and what waiting costs in the rounds to come.

``lagrangian`` ranks by p C(n; price), what transmitting now saves at the price at which all devices together
want just the slots there are. ``whittle`` ranks by the price at which a device would just as well not
transmit. Both come from the single-device problem of single_device.py.

They plan for channels that are independent from round to round, and for buffers without limit. Elsewhere they run
too, as if it were so. Where W changes from round to round, the price is that of its mean so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedwave.planning.device_curves import Curves
from fedwave.planning.lattice import MEDIUM
from fedwave.planning.outlook import Outlook, outlook
from fedwave.planning.price import best_price
from fedwave.planning.whittle_tables import known_tables
from fedwave.rng import Draws
from fedwave.schedulers.base import Scheduler
from fedwave.types import FloatArray, IntArray, Observation, Problem, State


@dataclass(frozen=True)
class Lagrangian(Scheduler):
    """What an upload now would save in all rounds to come, at the best price of a transmission."""

    name = "lagrangian"
    needs = frozenset({"channel", "backlog", "rates", "statistics"})
    formula = "p C(n; price*)"

    def start(self, problem: Problem) -> State:
        return start_slots(problem)

    def learn(self, state: State, seen: Observation, draws: Draws) -> State:
        return count_slots(state, seen)

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        slots = mean_slots(state, seen)[0]  # all instances have lived through the same rounds
        view = outlook(seen.planning)
        kind, curves = _priced(view, view.devices(seen.rates), float(slots))
        if curves is None:
            return np.zeros(seen.success.shape)
        worth = curves.worth_at(np.maximum(kind, 0), seen.waiting)
        return seen.success * np.where(kind >= 0, worth, 0.0)


@lru_cache(maxsize=32)
def _priced(view: Outlook, devices: bytes, slots: float) -> tuple[IntArray, Curves | None]:
    """Each device's kind, and the kinds' curves at the best price; None if nothing ever arrives."""
    kinds, levels = view.kinds(devices)
    if not kinds.theta.size:
        return kinds.of, None
    return kinds.of, best_price(kinds, slots, levels, view.chances, MEDIUM).curves


@dataclass(frozen=True)
class Whittle(Scheduler):
    """The price that makes transmitting now not worth while: Whittle's index."""

    name = "whittle"
    needs = frozenset({"channel", "backlog", "rates", "statistics"})
    formula = "x with p C(n; x) = x"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        view = outlook(seen.planning)
        row, tables = known_tables(view, view.devices(seen.rates))
        index = tables.index_at(np.maximum(row, 0), seen.rates, seen.success, seen.waiting)
        return np.where(row >= 0, index, 0.0)


def start_slots(problem: Problem) -> State:
    """Slots so far, and the rounds they were in: ``[I]`` each."""
    zero = np.zeros(problem.instances, dtype=np.int64)
    return {"slots_so_far": zero, "rounds_so_far": zero}


def count_slots(state: State, seen: Observation) -> State:
    """Take in this round's slots."""
    return {
        **state,
        "slots_so_far": state["slots_so_far"] + seen.slots,
        "rounds_so_far": state["rounds_so_far"] + 1,
    }


def mean_slots(state: State, seen: Observation) -> FloatArray:
    """W on average, ``[I]``, in quarters: so that few prices have to be found where it varies."""
    rounds = state["rounds_so_far"]
    mean = np.where(rounds > 0, state["slots_so_far"] / np.maximum(rounds, 1), seen.slots)
    out: FloatArray = np.maximum(np.round(4 * mean) / 4, 0.25)  # without slots any price will do
    return out
