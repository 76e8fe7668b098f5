"""The base class of schedulers: parameters are in the object, everything that evolves is in a State."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from fedwave.aggregation import Aggregation
from fedwave.errors import FedwaveError, check_bool, did_you_mean, short_repr
from fedwave.parts import registry
from fedwave.rng import Draws
from fedwave.schedulers.picking import pick_largest
from fedwave.types import INFORMATION, Decision, FloatArray, Observation, Problem, State, checked, freeze


class Scheduler(ABC):
    """Decides in every round which W devices transmit; derive it and give it ``name`` and ``priority``.

    A round calls, with I instances and U devices,

        state <- learn(state, seen, draws)              what the last round's uploads have shown
        a     =  the W largest of priority(state, seen, draws), ``[I, U]``, equal ones in a drawn order;
                 never a device that is away or has priority minus infinity (below 0 with ``idles``)
        state <- remember(state, seen, a)

    ``needs`` names what the Observation holds beside counts of deliveries: "channel", "backlog", "rates", "learner",
    "planning", "labels" (``types.INFORMATION``). Parameters are the fields of a frozen dataclass; all that evolves
    is in the state, a mapping of arrays whose first axis is the instance. The arrays that a method is given are
    read-only: return new ones.

    >>> import fedwave as fw
    >>> class Patient(fw.Scheduler):
    ...     name = "patient"
    ...     needs = frozenset({"channel", "backlog"})
    ...
    ...     def priority(self, state, seen, draws):
    ...         return seen.success * seen.waiting * seen.delay
    >>> trace = fw.simulate(fw.paper_network(), Patient(), rounds=20, instances=3)
    >>> trace.scheduled.shape, int(trace.scheduled.sum(axis=2).max())
    ((20, 3, 25), 5)
    """

    family: ClassVar[str] = "scheduler"
    name: ClassVar[str]
    needs: ClassVar[frozenset[str] | set[str]] = frozenset()
    formula: ClassVar[str] = ""  # the priority, for the table of schedulers
    ideal: ClassVar[bool] = False  # all devices transmit and no upload fails: a reference, not a real scheduler
    small_only: ClassVar[bool] = False  # refuses networks of more than a few devices
    symmetric: ClassVar[bool] = True  # False: a device's number matters, as in round-robin
    idles: ClassVar[bool] = False  # True: a device whose priority is below 0 does not transmit
    random: ClassVar[bool] = False  # True: decisions depend on its own draws, beyond the order of equal priorities

    @classmethod
    def check_declaration(cls) -> None:
        """Refuse a class whose ``needs`` names unknown information."""
        if isinstance(cls.needs, str) or not isinstance(cls.needs, Iterable):
            raise FedwaveError(
                f"`needs` of scheduler {cls.name!r} is {cls.needs!r}, must be a set, such as {{'channel'}}."
            )
        for need in cls.needs:
            if need not in INFORMATION:
                raise FedwaveError(
                    f"scheduler {cls.name!r} needs {need!r}, which is not known here; {did_you_mean(need, INFORMATION)}"
                )

    def start(self, problem: Problem) -> State:
        """The state before round 1: named arrays, first axis the instance."""
        return {}

    def learn(self, state: State, seen: Observation, draws: Draws) -> State:
        """Update the state from the last round (``seen.delivered``, ``seen.reported``, ...)."""
        return state

    @abstractmethod
    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        """One float64 per device, ``[I, U]``; the largest transmit."""

    def remember(self, state: State, seen: Observation, decision: Decision) -> State:
        """Update the state with the decision."""
        return state

    def with_aggregation(self, rule: Aggregation) -> Scheduler:
        """This scheduler for a task with this aggregation rule; most schedulers do not use the rule."""
        return self

    def beliefs(self, state: State) -> State:
        """The part of the state that a Trace keeps with ``beliefs=True``."""
        return {}

    def decide(self, state: State, seen: Observation, draws: Draws) -> tuple[Decision, State]:
        """The round's decision, by which at most ``seen.slots`` devices of each instance transmit; the new state."""
        state = self.learn(state, seen, draws)
        freeze(state)
        decision = decide_by_priority(self, self.priority(state, seen, draws), seen, draws)
        return decision, self.remember(state, seen, decision)


def decide_by_priority(scheduler: Scheduler, priority: FloatArray, seen: Observation, draws: Draws) -> Decision:
    """The W largest priorities ``[I, U]`` that a scheduler returned transmit, of devices that are there."""
    priority = checked(scheduler, "priorities", priority, seen.delay.shape, least=-np.inf)
    if scheduler.idles:
        priority = np.where(priority < 0, -np.inf, priority)
    if not seen.available.all():
        priority = np.where(seen.available, priority, -np.inf)
    return Decision(pick_largest(priority, seen.slots, draws))


PAPER_SCHEDULERS = ("bench", "alsa-pi", "balsa", "balsa-po", "round-robin", "w-max")


Policy = Callable[[Observation], FloatArray]
"""A function of what is seen that returns one priority per device, ``[I, U]``."""


def scheduler(which: str | Mapping[str, Any] | Scheduler | type[Scheduler] | Policy, **parameters: Any) -> Scheduler:
    """Make a scheduler from its name and hyper-parameters, or from a function; a Scheduler is returned as it is.

    >>> import fedwave as fw
    >>> fw.scheduler("alpha-fresh", alpha=0.25)
    AlphaFresh(alpha=0.25)
    >>> fw.scheduler("balsa:stage_rule=max1").stage_rule
    'max1'

    A function of the Observation returns the priorities, ``[I, U]``. ``needs`` names what it sees, ``name`` (by
    default that of the function) stands in tables, and with ``idles=True`` a device below 0 does not transmit:

    >>> def patient(seen):
    ...     return seen.success * seen.waiting * seen.delay
    >>> mine = fw.scheduler(patient, needs={"channel", "backlog"})
    >>> fw.simulate(fw.paper_network(), mine, rounds=20, instances=3).label
    'patient'
    """
    if callable(which) and not isinstance(which, (type, Scheduler)):
        return _from_policy(which, **parameters)
    made: Scheduler = registry.build("scheduler", which, **parameters)
    return made


def _from_policy(
    policy: Policy, needs: Iterable[str] = (), *, name: str | None = None, idles: bool = False
) -> Scheduler:
    """The scheduler whose priorities a function returns."""

    def priority(self: Scheduler, state: State, seen: Observation, draws: Draws) -> FloatArray:
        found = np.asarray(policy(seen))
        return np.where(found, 0.0, -np.inf) if found.dtype == np.bool_ else found  # a bool says who may transmit

    check_bool("idles", idles)
    declared = needs if isinstance(needs, str) or not isinstance(needs, Iterable) else frozenset(needs)
    name = getattr(policy, "__name__", type(policy).__name__) if name is None else name
    body = {"name": name, "needs": declared, "idles": idles, "priority": priority}
    made: Scheduler = registry.build("scheduler", type("PolicyScheduler", (Scheduler,), body))
    return made


def scheduler_names(standalone: bool = False) -> tuple[str, ...]:
    """The registered names; ``standalone=True`` keeps those that run on any network by themselves.

    This leaves out schedulers that run only in lock step with training, only with labels, or only on small networks.

    >>> import fedwave as fw
    >>> fw.scheduler_names()[:3]
    ('alsa-pi', 'balsa', 'balsa-po')
    >>> "update-aware" in fw.scheduler_names(), "update-aware" in fw.scheduler_names(standalone=True)
    (True, False)
    """
    every = registry.names("scheduler")
    if not standalone:
        return every
    kinds = {name: registry.find("scheduler", name) for name in every}
    return tuple(n for n, kind in kinds.items() if not ({"learner", "labels"} & kind.needs or kind.small_only))


def checked_decision(decision: Decision, seen: Observation, scheduler: Scheduler) -> Decision:
    """Check that at most W devices of each instance transmit, and none that is away.

    A scheduler may bring a ``decide`` of its own.
    """
    who: Any = getattr(decision, "transmits", None)
    bools = isinstance(who, np.ndarray) and who.dtype == np.bool_ and who.shape == seen.delay.shape
    if not isinstance(decision, Decision) or not bools:
        found = f"{who.dtype} of shape {who.shape}" if isinstance(who, np.ndarray) else short_repr(decision)
        raise FedwaveError(
            f"{scheduler.name} decided {found}, must be a Decision with one True or False per instance and device: "
            f"{seen.delay.shape}."
        )
    most = int(who.sum(axis=1).max())
    if most > seen.slots and not scheduler.ideal:
        raise FedwaveError(
            f"{scheduler.name} picked {most} devices in round {seen.round}, must pick at most W = {seen.slots}."
        )
    if (who > seen.available).any():
        raise FedwaveError(f"{scheduler.name} picked a device that is away in round {seen.round}: see seen.available.")
    return decision
