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


def broken(**own: Any) -> Any:
    """A class derived from Sound with attributes and methods of its own."""
    return type("Broken", (Sound,), own)


def judging(priority: Any, **own: Any) -> Any:
    """A scheduler whose priorities are ``priority(seen)``."""
    return broken(priority=lambda self, state, seen, draws: priority(seen), **own)


def deciding(form: Any) -> Any:
    """Decides for itself: ``form(seen, the right decision)``."""
    return broken(decide=lambda self, state, seen, draws: (form(seen, Sound().decide(state, seen, draws)[0]), state))


def remembering(remember: Any, **own: Any) -> Any:
    """A scheduler whose next state is ``remember(state, seen, decision)``."""
    return broken(remember=lambda self, state, seen, decision: remember(state, seen, decision), **own)


class PlainWithParameters(Sound):
    def __init__(self, weight):
        self.weight = weight


@dataclass
class Demanding(Sound):
    weight: float


def written(array: Any, value: Any) -> Any:
    array[...] = value
    return array


def counted(state, seen, decision):
    state["count"] += decision.transmits
    return state


class DividesByZero(AlsaPi):
    name = "divides-by-zero"

    def priority(self, state, seen, draws):
        with np.errstate(invalid="ignore"):
            return seen.success * seen.waiting / np.where(seen.rates > 0, seen.rates, np.nan)


def one_more(seen, decision):
    picked = decision.transmits.copy()
    if seen.round == 3:
        picked[:, int(np.argmin(picked[0]))] = True
    return Decision(picked)


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


_from_outside = itertools.count()
_REMEMBERED = []


def remembered_in_the_module(seen):
    """Starts anew in round 1, so runs repeat as long as none is continued."""
    if seen.round == 1:
        _REMEMBERED.clear()
    _REMEMBERED.append(seen.round)
    return np.sin(seen.success * len(_REMEMBERED))


class LovesTheFirst(Sound):
    def priority(self, state, seen, draws):
        return seen.success + 10 * (np.arange(seen.delay.shape[1]) == 0)


BROKEN = [
    (type("Nameless", (Scheduler,), {"priority": Sound.priority}), "declaration", ("name",)),
    (broken(name="a:b"), "declaration", ("a:b",)),
    (broken(needs="channel"), "declaration", ("channel",)),
    (broken(needs=frozenset({"chanel"})), "declaration", ("chanel", "channel")),
    (type("Unfinished", (Scheduler,), {"name": "unfinished"}), "declaration", ("abstract", "priority")),
    (PlainWithParameters(1), "declaration", ("weight", "dataclass")),
    (Demanding, "declaration", ("missing", "weight")),
    (judging(lambda seen: seen.waiting), "decisions", ("waiting", "backlog", "needs")),
    (judging(lambda seen: written(seen.success, 1)), "decisions", ("array",)),
    (
        remembering(counted, start=lambda self, p: {"count": np.zeros((p.instances, p.devices))}),
        "decisions",
        ("array",),
    ),
    (DividesByZero, "decisions", ("nan", "(3, 2)")),
    (judging(lambda seen: seen.delay[0]), "decisions", ("shape", "(25,)", "(3, 25)")),
    (deciding(lambda seen, a: Decision(a.transmits.astype(int))), "decisions", ("int64", "(3, 25)")),
    (deciding(one_more), "decisions", (6, 3, 5)),
    (broken(ideal=True), "decisions", (5, 25, 1)),
    (judging(lambda seen: seen.delay * (1 / (seen.round - 7))), "decisions", ("ZeroDivisionError",)),
    (CountsInTheObject, "parameters", ("rounds_seen",)),
    (OwnGenerator, "parameters", ("rng",)),
    (broken(start=lambda self, problem: {"a": np.zeros(2)}), "decisions", ("start",)),
    (remembering(lambda *given: {"a": np.zeros(2)}), "decisions", ("state['a']", "(2,)")),
    (
        judging(lambda seen: np.random.default_rng(next(_from_outside)).random(seen.delay.shape)),
        "repetition",
        ("draws",),
    ),
    (judging(lambda seen: seen.delay - seen.success.mean(axis=0)), "instances", ("instance 2", "alone")),
    (
        remembering(
            lambda state, seen, decision: {"mean": np.full(len(decision.transmits), seen.success.mean())},
            start=lambda self, problem: {"mean": np.zeros(problem.instances)},
        ),
        "instances",
        ("instance 2", "alone"),
    ),
    (judging(remembered_in_the_module), "saving", ("saved", "loaded")),
    (LovesTheFirst, "devices", ("symmetric",)),
]
