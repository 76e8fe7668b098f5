"""The index schedulers for the backlog, which plan for the rounds to come and beat greedy: lagrangian and whittle.

``lagrangian`` ranks devices by p C(n; price): what a transmission now saves, at the price at which all devices together
use exactly the available slots. ``whittle`` ranks by the price at which a device is indifferent between sending and
waiting. Both follow from the single-device problem (planning/backlog_objective.py, docs/theory.md).

Planning assumes channels that are independent from round to round and buffers without limit; the schedulers also
run on other networks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.planning.backlog_objective import MEDIUM_BACKLOG, BacklogObjective
from fedwave.planning.backlog_tables import (
    averaged_backlog_tables,
    backlog_scale,
    backlog_tables,
    known_whittle_tables,
    tabulated_backlog,
    whittle_tables,
)
from fedwave.planning.channel_statistics import channel_statistics
from fedwave.schedulers.priced import PricedIndex, priority_from_tables
from fedwave.schedulers.rates import Index, KnownRates, RatesFromBacklogs, RatesFromDeliveries
from fedwave.types import FloatArray, IntArray, Observation, State


@dataclass(frozen=True)
class SavedWaiting(PricedIndex):
    """p C(n; price): the waiting that an upload now saves in all rounds to come.

    Known rates: each different device (rate and mean SNR) is solved for. Hidden backlogs: with ``average``, C is
    averaged over the possible backlogs; without, the backlog is replaced by its mean, and C is that of the problem
    with exactly theta shards per round.
    """

    average: bool = True

    objective = BacklogObjective(effort=MEDIUM_BACKLOG)
    many_classes = tabulated_backlog
    needs = frozenset({"backlog", "planning"})

    def __post_init__(self) -> None:
        if self.average not in (0, 1):
            raise FedwaveError(
                f"average is {self.average!r}, must be 1 (true) or 0 (false): whether the index is averaged over the "
                "possible backlogs."
            )

    def device_state(self, seen: Observation) -> IntArray:
        return seen.waiting

    def priority(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        tables = backlog_tables(channel_statistics(seen.planning))
        return priority_from_tables(tables, rates, state, seen, seen.waiting / backlog_scale(rates))

    def priority_hidden(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        statistics, rounds = channel_statistics(seen.planning), seen.delay - 1
        if self.average:
            return priority_from_tables(averaged_backlog_tables(statistics), rates, state, seen, rounds)
        tables = backlog_tables(statistics, hidden=True)
        return priority_from_tables(tables, rates, state, seen, rounds * rates / backlog_scale(rates))


class IndifferencePrice(Index):
    """Whittle's index: the price at which sending and waiting cost the same, x with p C(n; x) = x."""

    needs = frozenset({"backlog", "planning"})

    def priority(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        statistics = channel_statistics(seen.planning)
        row = backlog_tables(statistics).row[statistics.channel]
        return whittle_tables(statistics).index_at(row, rates, seen.success, seen.waiting)

    def priority_known(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        statistics = channel_statistics(seen.planning)
        row, tables = known_whittle_tables(statistics, rates.tobytes())
        index = tables.index_at(np.maximum(row, 0), rates, seen.success, seen.waiting)
        return np.where(row >= 0, index, 0.0)


class Lagrangian(KnownRates):
    """The saving of an upload now in all rounds to come, at the best price of a transmission.

    Each different device (rate and mean SNR) is solved for. With more than 2,000 of them and no rate above 58, price
    and C are read from the tables for any rates. Mean backlogs then differed by less than .1 %, and by up to 1.3 %
    where W is at most a thousandth of the devices.
    """

    name = "lagrangian"
    formula = "p C(n; price*)"
    index = SavedWaiting


class LagrangianBayes(RatesFromBacklogs):
    """`lagrangian` on rates drawn from the posterior."""

    name = "lagrangian-bayes"
    formula = "p C(n; price*, theta_k)"
    index = SavedWaiting


@dataclass(frozen=True)
class LagrangianPo(RatesFromDeliveries):
    """`lagrangian` for hidden backlogs: it knows only the delay of each device.

    With ``average`` it averages the index of `lagrangian-bayes` over the possible backlogs. Without, it replaces the
    backlog by its mean and solves the problem with exactly theta shards per round. If the rates are known, the latter
    is the exact problem, because decisions cannot depend on a backlog that is not observed.
    """

    average: bool = True

    name = "lagrangian-po"
    formula = "p E[C(n; price*, theta_k) | d]"
    index = SavedWaiting


class Whittle(KnownRates):
    """Whittle's index: the price at which sending and waiting cost the same."""

    name = "whittle"
    formula = "x with p C(n; x) = x"
    index = IndifferencePrice


class WhittleBayes(RatesFromBacklogs):
    """`whittle` on rates drawn from the posterior."""

    name = "whittle-bayes"
    formula = "x with p C(n; x, theta_k) = x"
    index = IndifferencePrice
