"""All schedulers by name. A new one: a short file, and one line here (or ``fw.register`` in your own code)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from fedwave.errors import FedwaveError, check_parameters, did_you_mean
from fedwave.schedulers.balsa import Balsa, BalsaPo
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.baselines import Bench, ProportionalFair, Random, RoundRobin, WMax
from fedwave.schedulers.exact import Dp, DpTs
from fedwave.schedulers.greedy import Age, AlphaFresh, AlsaPi, Fresh, MaxWeight, SqrtRule
from fedwave.schedulers.index import Lagrangian, Whittle
from fedwave.schedulers.index_bayes import LagrangianBayes, LagrangianPo, WhittleBayes
from fedwave.schedulers.learning_aware import UpdateAware
from fedwave.types import INFORMATION

_SCHEDULERS: dict[str, type[Scheduler]] = {
    kind.name: kind
    for kind in (
        AlsaPi, Balsa, BalsaPo, Bench, RoundRobin, WMax,
        Random, ProportionalFair, Age, MaxWeight, SqrtRule, Fresh, AlphaFresh, UpdateAware,
        Lagrangian, Whittle, LagrangianBayes, WhittleBayes, LagrangianPo,
        Dp, DpTs,
    )
}  # fmt: skip

PAPER_SCHEDULERS = ("bench", "alsa-pi", "balsa", "balsa-po", "round-robin", "w-max")

S = TypeVar("S", bound=type[Scheduler])


def register(kind: S) -> S:
    """Make a scheduler class known by its name; can be used as a decorator."""
    check_declaration(kind)
    known = _SCHEDULERS.get(kind.name)
    if known is not None and known.__qualname__ != kind.__qualname__:
        raise FedwaveError(
            f"the name {kind.name!r} belongs to {known.__qualname__} already: give your scheduler another."
        )
    _SCHEDULERS[kind.name] = kind
    return kind


def names(learner: bool = True) -> tuple[str, ...]:
    """The registered names, in order; ``learner=False`` keeps those that run on any network by themselves.

    Those that run only beside training, or only on small networks, are left out then.
    """
    bound = {n for n, kind in _SCHEDULERS.items() if "learner" in kind.needs or kind.small_only}
    return tuple(n for n in _SCHEDULERS if learner or n not in bound)


def scheduler_class(name: str) -> type[Scheduler]:
    """The class registered under a name."""
    if name not in _SCHEDULERS:
        raise FedwaveError(f"there is no scheduler {name!r}; {did_you_mean(name, _SCHEDULERS)}")
    return _SCHEDULERS[name]


def scheduler(which: str | Scheduler | type[Scheduler], **parameters: Any) -> Scheduler:
    """A scheduler from its name and hyper-parameters; a Scheduler passes through.

    >>> scheduler("alpha-fresh", alpha=0.25)
    AlphaFresh(alpha=0.25)
    """
    if isinstance(which, Scheduler):
        check_declaration(type(which))
        return which
    if isinstance(which, str):
        kind = scheduler_class(which)
    elif isinstance(which, type) and issubclass(which, Scheduler):
        check_declaration(which)
        kind = which
    else:
        raise FedwaveError(
            f"{which!r} is not a scheduler: give a name, such as 'balsa', or an object of a Scheduler class."
        )
    if is_dataclass(kind):
        check_parameters(f"scheduler {kind.name!r}", parameters, [f.name for f in fields(kind)])
    return kind(**parameters)


def check_declaration(kind: type[Scheduler]) -> None:
    """A scheduler class must have a name and need only what there is."""
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not name:
        raise FedwaveError(f'scheduler class {kind.__qualname__} has no `name`: add name = "...".')
    if ":" in name:  # what follows a colon are parameters
        raise FedwaveError(f"the scheduler name {name!r} holds a colon: use a hyphen.")
    if isinstance(kind.needs, str) or not isinstance(kind.needs, Iterable):
        raise FedwaveError(
            f"`needs` of scheduler {name!r} is {kind.needs!r}, must be a set, such as {{'channel'}}."
        )
    for need in kind.needs:
        if need not in INFORMATION:
            raise FedwaveError(
                f"scheduler {kind.name!r} needs {need!r}, which nobody can tell it; {did_you_mean(need, INFORMATION)}"
            )
