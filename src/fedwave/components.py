"""Every exchangeable part by its short name: for the command line, and for reading files back.

A part is written ``name`` or ``name:key=value,key=value``, for example ``rician:k_factor=6``. A part within
a part separates its own values by semicolons: ``harq:tries=3,model=turbo:blocks=2;slope=7``. What is recorded
or measured is read from a file: ``recorded:path=gains.npy``, ``table:path=curve.csv``.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

from fedwave.errors import FedwaveError, check_parameters, did_you_mean
from fedwave.network.arrivals import (
    NegativeBinomial,
    Poisson,
    RecordedArrivals,
    ZeroInflatedPoisson,
)
from fedwave.network.devices import Device, DeviceTable
from fedwave.network.fading import GaussMarkov, Rayleigh, RecordedGains, Rician, Shadowing
from fedwave.network.network import Network
from fedwave.network.success import Arq, Harq, Soft, Table, Threshold, Turbo, Uncoded
from fedwave.schedulers import registry
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.grid_posterior import GridPosterior
from fedwave.schedulers.posterior import ConjugatePosterior, GammaPrior, Jeffreys, TruncatedPrior

FADINGS: dict[str, type] = {
    "rayleigh": Rayleigh, "rician": Rician, "gauss-markov": GaussMarkov, "shadowing": Shadowing,
    "recorded": RecordedGains,
}  # fmt: skip
SUCCESS_MODELS: dict[str, type] = {
    "turbo": Turbo, "threshold": Threshold, "soft": Soft, "uncoded": Uncoded, "arq": Arq, "harq": Harq,
    "table": Table,
}  # fmt: skip
ARRIVALS: dict[str, type] = {
    "poisson": Poisson, "negative-binomial": NegativeBinomial, "zero-inflated-poisson": ZeroInflatedPoisson,
    "recorded": RecordedArrivals,
}  # fmt: skip
PRIORS: dict[str, type] = {"jeffreys": Jeffreys, "gamma": GammaPrior, "truncated": TruncatedPrior}
_NESTED: dict[str, dict[str, type]] = {
    "model": SUCCESS_MODELS,
    "fading": FADINGS,
    "prior": {"jeffreys": Jeffreys, "gamma": GammaPrior},
}

_OTHERS: tuple[type, ...] = (
    Network, Device, DeviceTable, ConjugatePosterior, GridPosterior,
)  # fmt: skip


def known_classes() -> dict[str, type]:
    """Class name to class, for serialize.unpack. Schedulers are looked up by their registered name."""
    named = [FADINGS, SUCCESS_MODELS, ARRIVALS, PRIORS]
    kinds = [kind for group in named for kind in group.values()]
    return {kind.__name__: kind for kind in (*kinds, *_OTHERS)}


def part(text: str, kinds: dict[str, type], what: str) -> Any:
    """Build a part of a network from its text.

    >>> part("rician:k_factor=6", FADINGS, "fading")
    Rician(k_factor=6)
    """
    name, parameters = _split(text, what)
    if name not in kinds:
        raise FedwaveError(f"there is no {what} {name!r}; {did_you_mean(name, kinds)}")
    kind = kinds[name]
    from_file = getattr(kind, "from_file", None)
    known = ["path"] if from_file else [f.name for f in fields(kind)]
    check_parameters(f"{what} {name!r}", parameters, known)
    for key, group in _NESTED.items():
        if key in parameters:
            parameters[key] = part(str(parameters[key]).replace(";", ","), group, key)
    return _build(from_file or kind, parameters, f"{what} {text!r}")


def scheduler_from_text(text: str) -> Scheduler:
    """Build a scheduler from its text, for example ``balsa:stage_rule=max1,prior=gamma``.

    >>> scheduler_from_text("alpha-fresh:alpha=0.25")
    AlphaFresh(alpha=0.25)
    """
    name, parameters = _split(text, "scheduler")
    if "prior" in parameters:
        parameters["prior"] = part(str(parameters["prior"]).replace(";", ","), PRIORS, "prior")
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
