"""Index schedulers, which plan for the rounds to come and beat greedy.

``lagrangian`` ranks devices by p C(n; price): what a transmission now saves, at the price at which all devices together
use exactly the available slots. ``whittle`` ranks by the price at which a device is indifferent between sending and
waiting. Both follow from the single-device problem (planning/single_device.py).

Planning assumes channels that are independent from round to round and buffers without limit; the schedulers also
run on other networks. If W changes from round to round, the price is that of its mean so far.

``lagrangian-bayes``, ``whittle-bayes`` and ``lagrangian-po`` learn the rates as BALSA does. A new stage draws new
rates and so needs a new price; both are looked up in tables (planning/index_tables.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.planning.index_tables import (
    Tables,
    TabulatedWorth,
    averaged_tables,
    known_whittle_tables,
    scale_of,
    tables,
    tabulated_worth,
    whittle_tables,
)
from fedwave.planning.lattice import MEDIUM
from fedwave.planning.outlook import Outlook, outlook
from fedwave.planning.price import best_price
from fedwave.planning.single_device import DeviceSolutions
from fedwave.rng import Draws
from fedwave.schedulers import mean_slots
from fedwave.schedulers.balsa import Balsa, BalsaPo, BayesianScheduler
from fedwave.schedulers.base import Scheduler
from fedwave.types import Array, FloatArray, IntArray, Observation, Problem, State


@dataclass(frozen=True)
class Lagrangian(Scheduler):
    """What an upload now saves in all rounds to come, at the best price of a transmission.

    Each different device (rate and mean SNR) is solved for. With more than 2,000 of them and no rate above 58, price
    and C are read from the tables for any rates. Mean backlogs then differed by less than .1 %, and by up to 1.3 %
    where W is at most a thousandth of the devices.
    """

    name = "lagrangian"
    needs = frozenset({"channel", "backlog", "rates", "statistics"})
    formula = "p C(n; price*)"

    def start(self, problem: Problem) -> State:
        return mean_slots.start(problem)

    def learn(self, state: State, seen: Observation, draws: Draws) -> State:
        return mean_slots.count(state, seen)

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        slots = mean_slots.mean(state, seen)[0]  # the same in all instances
        view = outlook(seen.planning)
        kind, solutions = _at_best_price(view, view.devices(seen.rates), float(slots))
        if solutions is None:
            return np.zeros(seen.success.shape)
        worth = solutions.worth_at(np.maximum(kind, 0), seen.waiting)
        return seen.success * np.where(kind >= 0, worth, 0.0)


@lru_cache(maxsize=32)
def _at_best_price(
    view: Outlook, devices: bytes, slots: float
) -> tuple[IntArray, DeviceSolutions | TabulatedWorth | None]:
    """The kind of each device, and the solutions of the kinds at the best price; None without any arrivals."""
    kinds = view.kinds_of(devices)
    if not kinds.theta.size:
        return kinds.of, None
    if (read := tabulated_worth(view, kinds, slots)) is not None:
        return kinds.of, read
    kinds, levels = view.kinds(devices)
    return kinds.of, best_price(kinds, slots, levels, view.chances, MEDIUM).solutions


@dataclass(frozen=True)
class Whittle(Scheduler):
    """Whittle's index: the price at which sending and waiting cost the same."""

    name = "whittle"
    needs = frozenset({"channel", "backlog", "rates", "statistics"})
    formula = "x with p C(n; x) = x"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        view = outlook(seen.planning)
        row, made = known_whittle_tables(view, view.devices(seen.rates))
        index = made.index_at(np.maximum(row, 0), seen.rates, seen.success, seen.waiting)
        return np.where(row >= 0, index, 0.0)


@dataclass(frozen=True)
class _PricedBayes(BayesianScheduler):
    """Learning schedulers with a price: they count the slots."""

    def start(self, problem: Problem) -> State:
        return {**super().start(problem), **mean_slots.start(problem)}

    def learn(self, state: State, seen: Observation, draws: Draws) -> State:
        return mean_slots.count(super().learn(state, seen, draws), seen)

    def worth(self, made: Tables, state: State, seen: Observation, load: Array) -> FloatArray:
        """C at the price that fits the sampled rates; ``load`` is the last axis of the tables."""
        row, theta = made.row[outlook(seen.planning).channel], state["theta"]
        price = made.price(row, theta, mean_slots.mean(state, seen))
        return made.worth_at(row, theta, price, load)


@dataclass(frozen=True)
class LagrangianBayes(_PricedBayes, Balsa):
    """`lagrangian` on rates drawn from the posterior."""

    name = "lagrangian-bayes"
    needs = frozenset({"channel", "backlog", "statistics"})
    formula = "p C(n; price*, theta_k)"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        load = seen.waiting / scale_of(state["theta"])
        return seen.success * self.worth(tables(outlook(seen.planning)), state, seen, load)


@dataclass(frozen=True)
class WhittleBayes(Balsa):
    """`whittle` on rates drawn from the posterior."""

    name = "whittle-bayes"
    needs = frozenset({"channel", "backlog", "statistics"})
    formula = "x with p C(n; x, theta_k) = x"

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        view = outlook(seen.planning)
        row = tables(view).row[view.channel]
        return whittle_tables(view).index_at(row, state["theta"], seen.success, seen.waiting)


@dataclass(frozen=True)
class LagrangianPo(_PricedBayes, BalsaPo):
    """`lagrangian` for hidden backlogs: it knows only the delay of each device.

    With ``average`` it averages the index of `lagrangian-bayes` over the possible backlogs. Without, it replaces the
    backlog by its mean and solves the problem with exactly theta shards per round. If the rates are known, the latter
    is the exact problem, because decisions cannot depend on a backlog that is not observed.
    """

    average: bool = True

    name = "lagrangian-po"
    needs = frozenset({"channel", "statistics"})
    formula = "p E[C(n; price*, theta_k) | d]"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.average not in (0, 1):
            raise FedwaveError(
                f"lagrangian-po average is {self.average!r}, must be 1 (true) or 0 (false): whether the index is "
                "averaged over the possible backlogs."
            )

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        view, theta, rounds = outlook(seen.planning), state["theta"], seen.delay - 1
        if self.average:
            return seen.success * self.worth(averaged_tables(view), state, seen, rounds)
        mean = rounds * theta / scale_of(theta)
        return seen.success * self.worth(tables(view, hidden=True), state, seen, mean)
