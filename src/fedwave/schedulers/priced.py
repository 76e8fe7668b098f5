"""Indices with a price: what an upload is worth at the price at which all devices use exactly the available slots.

A planning.price_search.Objective says what each device pays beside its transmissions. With known rates its problem is
solved for every different device; sampled rates are read from tables, because a new stage needs a new price.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from fedwave.planning.channel_statistics import ChannelStatistics, channel_statistics
from fedwave.planning.interpolation import WorthTables
from fedwave.planning.price_search import MANY_CLASSES, DeviceClasses, Objective, best_price
from fedwave.schedulers.rates import Index
from fedwave.types import Array, FloatArray, IntArray, Observation, Problem, State

# The worth of an upload of each device at states [I, U].
Worth = Callable[[IntArray], FloatArray]
# Reads the worth of many classes from tables: (objective, statistics, classes, rates, slots); None: solve instead.
ManyClasses = Callable[[Any, ChannelStatistics, DeviceClasses, FloatArray, float], Worth | None]


class PricedIndex(Index):
    """p times what an upload is worth; if W changes from round to round, at the price of its mean so far.

    Derive ``objective`` and ``device_state``. Without tables the sampled rates of every instance are solved for, which
    suits a few devices and instances; with tables override ``priority`` (see ``priority_from_tables``), and
    set ``many_classes``.
    """

    many_classes: ClassVar[ManyClasses | None] = None

    needs = frozenset({"planning"})

    @property
    @abstractmethod
    def objective(self) -> Objective[Any]:
        """The problem of a device: a value that can be hashed."""

    @abstractmethod
    def device_state(self, seen: Observation) -> IntArray:
        """The state that the worth depends on, ``[I, U]``: the backlog n or the delay d."""

    def start(self, problem: Problem) -> State:
        zero = np.zeros(problem.instances, dtype=np.int64)
        return {"slots_so_far": zero, "rounds_so_far": zero}

    def learn(self, state: State, seen: Observation) -> State:
        slots, rounds = state["slots_so_far"], state["rounds_so_far"]
        return {**state, "slots_so_far": slots + seen.slots, "rounds_so_far": rounds + 1}

    def priority(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        slots, held = mean_slots(state, seen), self.device_state(seen)
        worth = [self._worth(rates[i], held[i : i + 1], slots[i], seen) for i in range(slots.size)]
        return seen.success * np.concatenate(worth)

    def priority_known(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        slots = mean_slots(state, seen)[0]  # the same in all instances
        return seen.success * self._worth(rates, self.device_state(seen), slots, seen)

    def _worth(self, rates: FloatArray, held: IntArray, slots: float, seen: Observation) -> FloatArray:
        """The worth of an upload at rates ``[U]`` and states ``[I, U]``; 0 for a device without arrivals."""
        statistics, many = channel_statistics(seen.planning), type(self).many_classes
        worth = _at_best_price(self.objective, many, statistics, rates.tobytes(), float(slots))
        return np.where(rates > 0, worth(held), 0.0)


@lru_cache(maxsize=32)
def _at_best_price(
    objective: Objective[Any],
    many_classes: ManyClasses | None,
    statistics: ChannelStatistics,
    known: bytes,
    slots: float,
) -> Worth:
    """The worth at the best price for ``known`` rates; without arrivals it may be anything."""
    rates = np.frombuffer(known)
    classes = statistics.classes(rates)
    if not classes.theta.size:
        return lambda held: np.zeros(held.shape)
    if many_classes is not None and classes.theta.size > MANY_CLASSES:
        worth = many_classes(objective, statistics, classes, rates, slots)
        if worth is not None:
            return worth
    solutions = best_price(objective, classes, slots, statistics.levels_of(classes)).solutions
    return partial(solutions.device_worth, np.maximum(classes.of_device, 0), rates)


def priority_from_tables(
    tables: WorthTables, rates: FloatArray, state: State, seen: Observation, place: Array
) -> FloatArray:
    """p times the worth at the price that fits the rates ``[I, U]``; ``place`` is on the last axis of the tables."""
    row = tables.row[channel_statistics(seen.planning).channel]
    price = tables.price(row, rates, mean_slots(state, seen))
    return seen.success * tables.worth_at(row, rates, price, place)


def mean_slots(state: State, seen: Observation) -> FloatArray:
    """The mean of W so far, ``[I]``, rounded to quarters so that a varying W needs few prices."""
    rounds = state["rounds_so_far"]
    so_far = np.where(rounds > 0, state["slots_so_far"] / np.maximum(rounds, 1), seen.slots)
    return np.maximum(np.round(4 * so_far) / 4, 0.25)  # without slots any price is fine
