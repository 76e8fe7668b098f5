"""Schedulers that break the contract in one way each: (scheduler, check that must fail, what the message names)."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedwave.schedulers.balsa import AlsaPi
from fedwave.schedulers.base import Scheduler
from fedwave.types import Decision


class Sound(Scheduler):
    """What the others spoil: the least that a scheduler needs."""

    name = "sound"
    needs = frozenset({"channel"})

    def priority(self, state, seen, draws):
        return seen.success * seen.delay


class Nameless(Scheduler):
    def priority(self, state, seen, draws):
        return seen.delay


class Colon(Sound):
    name = "a:b"


class NeedsText(Sound):
    needs = "channel"


class NeedsNothingIterable(Sound):
    needs = None


class NeedsUnknown(Sound):
    needs = frozenset({"chanel"})


class Unfinished(Scheduler):
    name = "unfinished"


class PlainWithParameters(Sound):
    def __init__(self, weight):
        self.weight = weight


@dataclass
class Demanding(Sound):
    weight: float


class Peeks(Sound):
    def priority(self, state, seen, draws):
        return seen.waiting


class PeeksLate(Sound):
    def priority(self, state, seen, draws):
        return seen.rates if seen.round > 4 else seen.success


class Misspells(Sound):
    def priority(self, state, seen, draws):
        return seen.succes


class WritesObservation(Sound):
    def priority(self, state, seen, draws):
        seen.success[:, 0] = 1
        return seen.success


class WritesState(Sound):
    def start(self, problem):
        return {"count": np.zeros((problem.instances, problem.devices))}

    def remember(self, state, seen, decision):
        state["count"] += decision.transmits
        return state


class GrowsState(Sound):
    def start(self, problem):
        return {}

    def remember(self, state, seen, decision):
        state["before"] = decision.transmits
        return dict(state)


class DividesByZero(AlsaPi):
    name = "divides-by-zero"

    def priority(self, state, seen, draws):
        with np.errstate(invalid="ignore"):
            return seen.success * seen.waiting / np.where(seen.rates > 0, seen.rates, np.nan)


class OnePriorityPerDevice(Sound):
    def priority(self, state, seen, draws):
        return seen.delay[0]


@dataclass
class DecidesIn(Sound):
    """Decides for itself, and hands back something else than a bool array."""

    form: Any

    def decide(self, state, seen, draws):
        decision, state = Sound().decide(state, seen, draws)
        return self.form(decision), state


class PicksOneMore(Sound):
    def decide(self, state, seen, draws):
        decision, state = super().decide(state, seen, draws)
        picked = decision.transmits.copy()
        if seen.round == 3:
            picked[:, int(np.argmin(picked[0]))] = True
        return Decision(picked), state


class PicksOnlyGoodChannels(Sound):
    def decide(self, state, seen, draws):
        return Decision(seen.success > 0.5), state


class LazyIdeal(Sound):
    ideal = True


class Raises(Sound):
    def priority(self, state, seen, draws):
        return seen.delay * (1 / (seen.round - 7))


class CountsInTheObject(Sound):
    def __init__(self):
        self.rounds_seen = 0

    def remember(self, state, seen, decision):
        self.rounds_seen += 1
        return state


class OwnGenerator(Sound):
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def priority(self, state, seen, draws):
        return self.rng.random(seen.delay.shape)


@dataclass
class StateOf(Sound):
    content: Any

    def start(self, problem):
        return self.content


@dataclass
class RemembersAs(Sound):
    content: Any

    def remember(self, state, seen, decision):
        return self.content


_from_outside = itertools.count()


class RandomFromOutside(Sound):
    def priority(self, state, seen, draws):
        rng = np.random.default_rng(next(_from_outside))
        return rng.random(seen.delay.shape)


class ComparesInstances(Sound):
    def priority(self, state, seen, draws):
        return seen.delay - seen.success.mean(axis=0)


class StateMixesInstances(Sound):
    def start(self, problem):
        return {"mean": np.zeros(problem.instances)}

    def remember(self, state, seen, decision):
        return {"mean": np.full(len(decision.transmits), seen.success.mean())}


_REMEMBERED = []


class RemembersInTheModule(Sound):
    """Starts anew in round 1, so runs repeat as long as none is continued."""

    def priority(self, state, seen, draws):
        if seen.round == 1:
            _REMEMBERED.clear()
        _REMEMBERED.append(seen.round)
        return np.sin(seen.success * len(_REMEMBERED))


class LovesTheFirst(Sound):
    def priority(self, state, seen, draws):
        return seen.success + 10 * (np.arange(seen.delay.shape[1]) == 0)


BROKEN = [
    (Nameless, "declaration", ("name",)),
    (Colon, "declaration", ("a:b",)),
    (NeedsText, "declaration", ("channel",)),
    (NeedsNothingIterable, "declaration", ("None",)),
    (NeedsUnknown, "declaration", ("chanel", "channel")),
    (Unfinished, "declaration", ("abstract", "priority")),
    (PlainWithParameters(1), "declaration", ("weight", "dataclass")),
    (Demanding, "declaration", ("missing", "weight")),
    (Peeks, "information", ("waiting", "backlog", "needs")),
    (PeeksLate, "information", ("rates", "needs")),
    (WritesObservation, "inputs", ("array", 1)),
    (WritesState, "inputs", ("array", 1)),
    (GrowsState, "inputs", ("state['before']",)),
    (DividesByZero, "priorities", ("NaN", 1, 2)),
    (OnePriorityPerDevice, "priorities", ("shape", "(25,)", "(3, 25)")),
    (DecidesIn(lambda a: Decision(a.transmits.astype(int))), "decision", ("int64", "bool", "(3, 25)")),
    (DecidesIn(lambda a: Decision(a.transmits[0])), "decision", ("(25,)", "(3, 25)")),
    (DecidesIn(lambda a: a.transmits), "decision", ("Decision", "ndarray")),
    (PicksOneMore, "slots", (6, 25, 3, 5)),
    (PicksOnlyGoodChannels, "slots", (25, 1, 5)),
    (LazyIdeal, "slots", (5, 25, 1)),
    (Raises, "completion", (7, 25, "ZeroDivisionError")),
    (Misspells, "completion", (1, "AttributeError", "succes")),
    (CountsInTheObject, "parameters", ("rounds_seen",)),
    (OwnGenerator, "parameters", ("rng",)),
    (StateOf([1]), "completion", ("start",)),
    (StateOf({"a": np.zeros(2)}), "completion", ("start",)),
    (StateOf({"a": np.array(1.0)}), "completion", ("start",)),
    (StateOf({"a": [1, 2, 3]}), "completion", ("start",)),
    (StateOf({"a": np.array(["x", "y", "z"])}), "completion", ("start",)),
    (StateOf({"a": np.array([None] * 3)}), "completion", ("start",)),
    (RemembersAs({"a": np.zeros(2)}), "state", ("state['a']", "(2,)")),
    (RemembersAs({"a": [1, 2, 3]}), "state", ("state['a']", "list")),
    (RandomFromOutside, "repetition", ("draws",)),
    (ComparesInstances, "instances", ("instance 2", "alone")),
    (StateMixesInstances, "instances", ("instance 2", "alone")),
    (RemembersInTheModule, "saving", ("saved", "loaded")),
    (LovesTheFirst, "devices", ("symmetric",)),
]
