"""From the configuration of a network to a Network, with refusals that name the field at fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave import registry
from fedwave.errors import FedwaveError
from fedwave.network.devices import read_devices
from fedwave.network.network import Network, paper_network, random_network

if TYPE_CHECKING:
    from fedwave.experiments.config.parts import NetworkConfig

_PARTS = ("fading", "success", "arrivals")
_LARGE = 10_000  # devices above which a network is too large to be built only to see whether it can


def make_network(
    kind: str,
    devices: int | None = None,
    file: str | None = None,
    parts: Mapping[str, str | None] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Network:
    """A network of a kind, its parts given as texts, and any field or device column changed.

    >>> make_network("paper", parts={"fading": "rician:k_factor=6"}, changes={"slots": 3}).slots
    3
    """
    wanted = dict(changes or {})
    for name, text in (parts or {}).items():
        if text is not None:
            wanted[name] = registry.build(name, text)
    if kind == "random":
        size = 100 if devices is None else devices
        return random_network(size, wanted.pop("slots", max(1, size // 5)), **wanted)
    if kind == "table":
        table = read_devices(file or "")
        return Network(table, slots=wanted.pop("slots", min(5, len(table)))).replace(**wanted)
    return paper_network(**wanted)


def network_of(config: NetworkConfig) -> Network:
    """The network that a configuration describes."""
    parts, changes = _asked(config)
    try:
        return make_network(config.kind, config.devices, config.file, parts, changes)
    except FedwaveError as error:
        raise FedwaveError(f"{_culprit(config)}: {error}") from None


def check_network(config: NetworkConfig, rounds: int, instances: int) -> None:
    """Refuse a network that cannot be built, or that a run reaches past; of a large one try a part."""
    slots = config.slots
    if isinstance(slots, tuple) and len(slots) < rounds:
        raise FedwaveError(
            f"network.slots gives W of {len(slots)} rounds, but rounds is {rounds}: give more, or run fewer."
        )
    if config.devices is not None and config.devices > _LARGE:
        network_of(_smaller(config))
        return
    network = network_of(config)
    try:
        network.check_run(rounds, np.array([instances - 1]))
    except FedwaveError as error:
        raise FedwaveError(f"network does not fit rounds and instances: {error}") from None


def _smaller(config: NetworkConfig) -> NetworkConfig:
    """The same network with fewer devices, and no more slots than them."""
    assert config.devices is not None
    most, slots, numbers = config.devices, config.slots, dict(config.set)
    for w in (*(slots if isinstance(slots, tuple) else [slots or 0]), numbers.get("slots", 0)):
        if w > most:
            raise FedwaveError(
                f"network.slots is {w}, but there are only {most} devices: W must not exceed them."
            )
    if isinstance(slots, tuple):
        slots = tuple(min(w, _LARGE) for w in slots)
    elif slots is not None:
        slots = min(slots, _LARGE)
    if "slots" in numbers:
        numbers["slots"] = min(numbers["slots"], _LARGE)
    return replace(config, devices=_LARGE, slots=slots, set=numbers)


def _asked(config: NetworkConfig) -> tuple[dict[str, str | None], dict[str, Any]]:
    """The parts as texts, and the numbers that differ from the kind's own."""
    given = {name: getattr(config, name) for name in ("slots", "gamma", "rate")}
    changes = {name: value for name, value in given.items() if value is not None}
    return {name: getattr(config, name) for name in _PARTS}, dict(config.set) | changes


def _culprit(config: NetworkConfig) -> str:
    """The field that cannot be built even alone, so that a refusal can name it."""
    parts, changes = _asked(config)
    first = "network.file" if config.kind == "table" else "network.devices"
    alone: list[tuple[str, dict[str, str | None], dict[str, Any]]] = [(first, {}, {})]
    alone += [(f"network.{name}", {name: text}, {}) for name, text in parts.items()]
    for name, value in changes.items():
        field = f"network.set.{name}" if name in config.set else f"network.{name}"
        alone.append((field, {}, {name: value}))
    for field, one_part, one_change in alone:
        try:
            make_network(config.kind, config.devices, config.file, one_part, one_change)
        except FedwaveError:
            return field
    return "network"
