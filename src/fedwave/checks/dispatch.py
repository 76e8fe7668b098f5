"""`check`: from a part to the checks of its family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from fedwave.checks.common import CheckReport, declared, report
from fedwave.checks.scheduler import check_scheduler
from fedwave.errors import FedwaveError, did_you_mean, extra_for
from fedwave.parts import registry

_FUNCTIONS = ("dataset", "model")  # families of functions that make something


def check(part: Any, *, family: str | None = None, dataset: Any = None) -> CheckReport:
    """Check that a part keeps the contract of its family.

    ``part`` is a name, a name with parameters, a mapping, a class or an object. ``family`` is needed where a name is
    in several families, and for a function that makes a model or a dataset and is not registered. ``dataset`` (a
    Dataset) gives the images for a model; by default it is tried with those of MNIST's and CIFAR-10's shape.

    Raises a FedwaveError that names the first check that failed, and why. The report counts the checks that passed;
    ``passed`` has their names. A check that does not apply (the distribution of recorded gains, say) is not among them.

    >>> import fedwave as fw
    >>> fw.check("rician:k_factor=6")
    fading 'rician': 12 checks passed
    >>> class Loud(fw.Scheduler):
    ...     name, needs = "loud", {"channel"}
    ...
    ...     def priority(self, state, seen, draws):
    ...         return seen.snr / seen.waiting
    >>> fw.check(Loud)
    Traceback (most recent call last):
    fedwave.errors.FedwaveError: scheduler 'loud' fails the check 'information': the scheduler reads 'waiting' but ...
    """
    if family is not None:
        registry.names(family)  # refuses a family that does not exist
    chosen = family or _family_of(part)
    if chosen == "scheduler":
        return check_scheduler(part)
    if chosen in _FUNCTIONS:
        return _check_function(chosen, part, dataset)
    made = declared(chosen, part)
    checks = _checker(chosen, "CHECKS")
    return report(f"{registry.word(chosen)} {made.name!r}", checks, made, declaration=True)


def _family_of(part: Any) -> str:
    if isinstance(part, (str, Mapping)):
        return _family_by_name(registry.parse("part", part)["name"])
    family = getattr(part, "family", None)
    if isinstance(family, str) and family in registry.FAMILIES:
        return family
    for candidate in _FUNCTIONS if callable(part) else ():
        if any(_found(candidate, name) is part for name in registry.names(candidate)):
            return candidate
    from fedwave.learning.datasets.dataset import Dataset

    if isinstance(part, Dataset):
        return "dataset"
    raise FedwaveError(
        f"the family of {part!r} is unknown: derive it from a base class, such as fw.Scheduler, or name its family, "
        'check(..., family="model").'
    )


def _family_by_name(name: str) -> str:
    homes = [family for family in registry.FAMILIES if name in registry.names(family)]
    if not homes:
        known = {n for family in registry.FAMILIES for n in registry.names(family)}
        raise FedwaveError(f"there is no part {name!r}; {did_you_mean(name, known)}")
    if len(homes) > 1:
        raise FedwaveError(
            f"the name {name!r} is in the families {' and '.join(homes)}: say which, family={homes[0]!r}."
        )
    return homes[0]


def _found(family: str, name: str) -> Any:
    try:
        return registry.find(family, name)
    except ImportError:  # torch is not installed
        return None


def _check_function(family: str, part: Any, dataset: Any) -> CheckReport:
    make, name = part, getattr(part, "__name__", type(part).__name__)
    if isinstance(part, (str, Mapping)):
        name = registry.text(part)
        registry.find(family, registry.parse(family, part)["name"])
        make = partial(registry.build, family, part)
    run: Callable[..., CheckReport] = _checker(family, f"check_{family}")
    return run(make, name) if family == "dataset" else run(make, name, dataset)


def _checker(family: str, attribute: str) -> Any:
    # Imported when it is needed: the checks of models load torch, those of fading a simulation.
    with extra_for(f"the check of a {registry.word(family)}"):
        return getattr(import_module(f"fedwave.checks.{family}"), attribute)
