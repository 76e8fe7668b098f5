"""`check`: finds the family of a part, and runs the checks of this family."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

from fedwave.checks.shared import CheckReport, Trial, failure, run_checks
from fedwave.errors import FedwaveError, did_you_mean, extra_for
from fedwave.network.network import Network
from fedwave.parts import registry

_FUNCTIONS = ("dataset", "model", "criterion")  # families of functions


def check(part: Any, *, family: str | None = None, dataset: Any = None, network: Network | None = None) -> CheckReport:
    """Check that a part keeps the contract of its family.

    ``part`` is a name, a name with parameters, a mapping, a class or an object. ``family`` is needed where a name is
    in several families, and for a function that makes a model or a dataset and is not registered. ``dataset`` (a
    Dataset or its name) gives the images for a model; by default they have the shapes of MNIST's and CIFAR-10's.
    ``network`` is the network of a part that holds a number for each of its devices; by default a part is tried on
    small networks.

    Raises a FedwaveError that names the first check that failed, and why. The report counts the checks that passed;
    ``passed`` has their names. A check that does not apply (the distribution of recorded gains, say) is not among them.

    >>> import fedwave as fw
    >>> fw.check("rician:k_factor=6")
    fading 'rician': 11 checks passed
    >>> class Loud(fw.Scheduler):
    ...     name, needs = "loud", {"channel"}
    ...
    ...     def priority(self, state, seen, draws):
    ...         return seen.snr / seen.waiting
    >>> fw.check(Loud)
    Traceback (most recent call last):
    fedwave.errors.FedwaveError: scheduler 'loud' fails the check 'decisions': the scheduler reads 'waiting' but ...
    """
    if network is not None and not isinstance(network, Network):
        raise FedwaveError(f"network is of type {type(network).__name__}, must be a network: fw.paper_network().")
    if family is not None:
        registry.names(family)  # refuses a family that does not exist
    chosen = family or _family_of(part)
    with extra_for(f"the check of a {registry.word(chosen)}"):
        contract = import_module(f"fedwave.checks.{chosen}").FAMILY
    if isinstance(dataset, str):
        dataset = registry.build("dataset", dataset)
    made, name = _function(chosen, part) if chosen in _FUNCTIONS else _declared(chosen, part)
    return run_checks(f"{registry.word(chosen)} {name!r}", Trial(made, contract, network, dataset))


def _declared(family: str, part: Any) -> tuple[Any, str]:
    """The part as an object, and its name; a class that cannot be built fails the check 'declaration'."""
    kind = part if isinstance(part, type) else type(part)
    try:
        made = registry.build(family, part)
    except FedwaveError as error:
        if getattr(kind, "family", None) != family:  # a name, a mapping, or an object of another family
            raise
        name = getattr(kind, "name", None) or kind.__qualname__
        raise failure(f"{registry.word(family)} {name!r}", "declaration", str(error)) from None
    return made, made.name


def _function(family: str, part: Any) -> tuple[Any, str]:
    """The function that makes a model or a dataset, or is a criterion, and its name."""
    if not isinstance(part, (str, Mapping)):
        return part, getattr(part, "__name__", type(part).__name__)
    if family == "criterion":  # tried with its parameters
        return part, registry.text(part)
    registry.find(family, registry.parse(family, part)["name"])
    return partial(registry.build, family, part), registry.text(part)


def _family_of(part: Any) -> str:
    if isinstance(part, (str, Mapping)):
        return _family_by_name(registry.parse("part", part)["name"])
    family = getattr(part, "family", None)
    if isinstance(family, str) and family in registry.FAMILIES:
        return family
    for candidate in _FUNCTIONS:
        if any(part is own for own in registry.own()[candidate].values()):
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
