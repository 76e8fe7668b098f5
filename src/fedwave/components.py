"""Every exchangeable part by its short name: for the command line, and for reading files back.

A part is written ``name`` or ``name:key=value,key=value``, for example ``rician:k_factor=6``.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

from fedwave.errors import FedwaveError, did_you_mean
from fedwave.network.arrivals import (
    NegativeBinomial,
    Poisson,
    RecordedArrivals,
    ZeroInflatedPoisson,
)
from fedwave.network.channel import GaussMarkov, Rayleigh, RecordedGains, Rician, Shadowing
from fedwave.network.devices import Device, DeviceTable
from fedwave.network.network import Network
from fedwave.network.per import Arq, Harq, Soft, Table, Threshold, Turbo, Uncoded
from fedwave.schedulers import registry
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.grid_posterior import GridPosterior
from fedwave.schedulers.posterior import ConjugatePosterior, GammaPrior, Jeffreys, TruncatedPrior

FADINGS: dict[str, type] = {
    "rayleigh": Rayleigh, "rician": Rician, "gauss-markov": GaussMarkov, "shadowing": Shadowing,
}  # fmt: skip
SUCCESS_MODELS: dict[str, type] = {
    "turbo": Turbo, "threshold": Threshold, "soft": Soft, "uncoded": Uncoded, "arq": Arq, "harq": Harq,
}  # fmt: skip
ARRIVALS: dict[str, type] = {
    "poisson": Poisson, "negative-binomial": NegativeBinomial, "zero-inflated-poisson": ZeroInflatedPoisson,
}  # fmt: skip
PRIORS: dict[str, type] = {"jeffreys": Jeffreys, "gamma": GammaPrior, "truncated": TruncatedPrior}

_OTHERS: tuple[type, ...] = (
    Network, Device, DeviceTable, RecordedGains, RecordedArrivals, Table, ConjugatePosterior, GridPosterior,
)  # fmt: skip


def known_classes() -> dict[str, type]:
    """Class name to class, for serialize.unpack; includes schedulers that users have registered."""
    named = [FADINGS, SUCCESS_MODELS, ARRIVALS, PRIORS]
    kinds = [kind for group in named for kind in group.values()]
    kinds += [*_OTHERS, *(registry.scheduler_class(name) for name in registry.names())]
    return {kind.__name__: kind for kind in kinds}


def part(text: str, kinds: dict[str, type], what: str) -> Any:
    """Build a part of a network from its text.

    >>> part("rician:k_factor=6", FADINGS, "fading")
    Rician(k_factor=6)
    """
    name, parameters = _split(text, what)
    if name not in kinds:
        raise FedwaveError(f"there is no {what} {name!r}; {did_you_mean(name, kinds)}")
    known = [f.name for f in fields(kinds[name])]
    for key in parameters:
        if key not in known:
            hint = did_you_mean(key, known) if known else "it has none."
            raise FedwaveError(f"{what} {name!r} has no parameter {key!r}; {hint}")
    nested = {"model": SUCCESS_MODELS, "fading": FADINGS}
    for key in parameters:
        if key in nested:
            parameters[key] = part(str(parameters[key]), nested[key], key)
    return _build(kinds[name], parameters, f"{what} {text!r}")


def scheduler_from_text(text: str) -> Scheduler:
    """Build a scheduler from its text, for example ``balsa:stage_rule=max1,prior=gamma``.

    >>> scheduler_from_text("alpha-fresh:alpha=0.25")
    AlphaFresh(alpha=0.25)
    """
    name, parameters = _split(text, "scheduler")
    if "prior" in parameters:
        parameters["prior"] = part(str(parameters["prior"]), PRIORS, "prior")
    registry.scheduler_class(name)
    built: Scheduler = _build(partial(registry.scheduler, name), parameters, f"scheduler {text!r}")
    return built


def _build(kind: Any, parameters: dict[str, Any], what: str) -> Any:
    try:
        return kind(**parameters)
    except TypeError as error:  # a word where a number belongs, or a parameter left out
        raise FedwaveError(f"{what} cannot be built: {error}.") from None


def _split(text: str, what: str) -> tuple[str, dict[str, Any]]:
    name, _, rest = text.partition(":")
    parameters: dict[str, Any] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise FedwaveError(f"{what} {text!r}: {item!r} must read key=value.")
        parameters[key.strip()] = _value(value.strip())
    return name.strip(), parameters


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
