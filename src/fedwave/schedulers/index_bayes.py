"""The index schedulers where rates are learnt: drawn from the posterior in stages, as BALSA does.

A new stage brings new rates and so a new price; both indices are read from tables (index_tables.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from fedwave.errors import FedwaveError
from fedwave.planning.belief_tables import averaged_tables
from fedwave.planning.index_tables import Tables, scale_of, tables
from fedwave.planning.outlook import outlook
from fedwave.planning.whittle_tables import learnt_tables
from fedwave.rng import Draws
from fedwave.schedulers.balsa import Balsa, BalsaPo, BayesianScheduler
from fedwave.schedulers.index import count_slots, mean_slots, start_slots
from fedwave.types import Array, FloatArray, Observation, Problem, State


@dataclass(frozen=True)
class _Priced(BayesianScheduler):
    """What those with a price share: they count the slots."""

    def start(self, problem: Problem) -> State:
        return {**super().start(problem), **start_slots(problem)}

    def learn(self, state: State, seen: Observation, draws: Draws) -> State:
        return count_slots(super().learn(state, seen, draws), seen)

    def worth(self, made: Tables, state: State, seen: Observation, load: Array) -> FloatArray:
        """C at the price that fits the sampled rates; ``load`` as the tables want it."""
        row, theta = made.row[outlook(seen.planning).channel], state["theta"]
        price = made.price(row, theta, mean_slots(state, seen))
        return made.worth_at(row, theta, price, load)


@dataclass(frozen=True)
class LagrangianBayes(_Priced, Balsa):
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
        return learnt_tables(view).index_at(row, state["theta"], seen.success, seen.waiting)


@dataclass(frozen=True)
class LagrangianPo(_Priced, BalsaPo):
    """`lagrangian` where backlogs are hidden: it knows only how long each device has been waiting.

    ``average`` takes the index of `lagrangian-bayes` on average over the backlogs there may be. Without it a
    backlog counts as its mean, now and later: the problem is solved with exactly theta shards in every round.
    For known rates that is the right problem, since what cannot be seen cannot be acted upon.
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
                "averaged over the backlogs there may be."
            )

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        view, theta, rounds = outlook(seen.planning), state["theta"], seen.delay - 1
        if self.average:
            return seen.success * self.worth(averaged_tables(view), state, seen, rounds)
        mean = rounds * theta / scale_of(theta)
        return seen.success * self.worth(tables(view, hidden=True), state, seen, mean)
