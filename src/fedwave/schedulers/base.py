"""What a scheduler is: hyper-parameters in the object, everything that evolves in a State it hands back.

Every round runs ``learn`` (update beliefs from what the last round showed), ``priority`` (one number
per device), the W largest win, and ``remember`` (note what was decided). Most schedulers only write
``priority``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from fedwave import registry
from fedwave.errors import FedwaveError, did_you_mean
from fedwave.rng import Draws
from fedwave.types import INFORMATION, BoolArray, Decision, FloatArray, Observation, Problem, State


class Scheduler(ABC):
    """Base class. ``needs`` names what the Observation must hold: keys of ``types.INFORMATION``."""

    family: ClassVar[str] = "scheduler"
    name: ClassVar[str]
    needs: ClassVar[frozenset[str] | set[str]] = frozenset()
    formula: ClassVar[str] = ""  # the priority, for the table of schedulers
    ideal: ClassVar[bool] = (
        False  # picks everybody and no upload fails: a yardstick, not a scheduler
    )
    small_only: ClassVar[bool] = False  # refuses networks of more than a few devices
    symmetric: ClassVar[bool] = True  # False: a device's number matters, as in round-robin

    @classmethod
    def check_declaration(cls) -> None:
        """Refuse a class whose ``needs`` names something that nobody can tell it."""
        if isinstance(cls.needs, str) or not isinstance(cls.needs, Iterable):
            raise FedwaveError(
                f"`needs` of scheduler {cls.name!r} is {cls.needs!r}, must be a set, such as {{'channel'}}."
            )
        for need in cls.needs:
            if need not in INFORMATION:
                raise FedwaveError(
                    f"scheduler {cls.name!r} needs {need!r}, which nobody can tell it; "
                    f"{did_you_mean(need, INFORMATION)}"
                )

    def start(self, problem: Problem) -> State:
        """The state before round 1: named arrays, first axis the instance."""
        return {}

    def learn(self, state: State, seen: Observation, draws: Draws) -> State:
        """Take in what the last round showed (``seen.delivered``, ``seen.reported``, ...)."""
        return state

    @abstractmethod
    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        """One float64 per device, ``[I, U]``; the largest transmit."""

    def remember(self, state: State, seen: Observation, decision: Decision) -> State:
        """Note the decision for later rounds."""
        return state

    def beliefs(self, state: State) -> State:
        """What a Trace keeps when beliefs are asked for."""
        return {}

    def decide(self, state: State, seen: Observation, draws: Draws) -> tuple[Decision, State]:
        """The round's decision, in which ``seen.slots`` devices of each instance transmit, and the new state."""
        state = self.learn(state, seen, draws)
        priority = checked_priority(self.priority(state, seen, draws), seen, self.name)
        decision = Decision(pick_largest(priority, seen.slots, draws))
        return decision, self.remember(state, seen, decision)


PAPER_SCHEDULERS = ("bench", "alsa-pi", "balsa", "balsa-po", "round-robin", "w-max")


def scheduler(
    which: str | Mapping[str, Any] | Scheduler | type[Scheduler], **parameters: Any
) -> Scheduler:
    """A scheduler from its name and hyper-parameters; a Scheduler passes through.

    >>> scheduler("alpha-fresh", alpha=0.25)
    AlphaFresh(alpha=0.25)
    >>> scheduler("balsa:stage_rule=max1").stage_rule
    'max1'
    """
    made: Scheduler = registry.build("scheduler", which, **parameters)
    return made


def scheduler_names(learner: bool = True) -> tuple[str, ...]:
    """The registered names; ``learner=False`` keeps those that run on any network by themselves.

    Those that run only beside training, or only on small networks, are left out then.
    """
    every = registry.names("scheduler")
    if learner:
        return every
    kinds = {name: registry.find("scheduler", name) for name in every}
    return tuple(n for n, kind in kinds.items() if not ("learner" in kind.needs or kind.small_only))


def checked_priority(priority: FloatArray, seen: Observation, name: str) -> FloatArray:
    """One number per instance and device, or a sentence about what is wrong."""
    priority = np.asarray(priority, dtype=np.float64)
    instances, devices = seen.delay.shape
    if priority.shape != (instances, devices):
        raise FedwaveError(
            f"{name} returned priorities of shape {priority.shape}, must be one per instance and device: "
            f"{(instances, devices)}."
        )
    if np.isnan(priority).any():
        raise FedwaveError(
            f"{name} returned NaN as a priority in round {seen.round}: every device needs a number."
        )
    return priority


def pick_largest(priority: FloatArray, slots: int, draws: Draws) -> BoolArray:
    """The ``slots`` largest priorities of each row; equal ones are ordered by fresh uniform draws.

    Ties are common, not a curiosity: p is exactly 1 above some SNR and backlogs are whole numbers,
    and a fixed order (by device number, say) would favour some devices for ever.
    """
    devices = priority.shape[1]
    if slots == 0:
        return np.zeros(priority.shape, dtype=np.bool_)
    at = devices - slots
    cut = np.partition(priority, at, axis=1)[:, at, None]  # the smallest priority that can win
    above, level = priority > cut, priority == cut
    missing = slots - np.count_nonzero(above, axis=1)  # winners to take among the equal ones
    picked: BoolArray = above | level
    crowded = np.flatnonzero(np.count_nonzero(level, axis=1) > missing)
    if crowded.size:
        order = np.where(level[crowded], draws.uniform(devices, crowded), 2.0)
        last = missing[crowded] - 1
        sorted_at_last = np.partition(order, np.unique(last), axis=1)
        limit = np.take_along_axis(sorted_at_last, last[:, None], axis=1)
        picked[crowded] = above[crowded] | (order <= limit)
    return picked
