"""Records to JSON and arrays, and back: a file stores the network and the scheduler that it was made with.

No pickle: only registered parts, by family and name, and the few records listed here are ever built.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.parts import registry
from fedwave.plain_text import brief
from fedwave.types import Array

_T = TypeVar("_T")

# Records that are not registered parts.
_RECORDS = {
    "Network": "fedwave.network.network",
    "Device": "fedwave.network.devices",
    "DeviceTable": "fedwave.network.devices",
    "ConjugatePosterior": "fedwave.schedulers.posterior",
    "GridPosterior": "fedwave.schedulers.posterior",
    "Labels": "fedwave.network.partition",
}


@dataclass(frozen=True, eq=False)
class Unbuilt:
    """A part from a file that cannot be built here, for example because its class is not registered."""

    content: Any
    arrays: Mapping[str, Array]
    reason: str


def built(part: _T) -> _T:
    """The part; raises FedwaveError if it is Unbuilt."""
    if isinstance(part, Unbuilt):
        raise FedwaveError(part.reason)
    return part


def pack(value: Any, arrays: dict[str, Array], path: str) -> Any:
    """``value`` as JSON; arrays in it are put into ``arrays`` under their path and referred to.

    A part is written as its family, its name, the name of its class and its fields. An object of an unknown class is
    written as text, which tells two of them apart but cannot be built again.
    """
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if isinstance(value, (tuple, list)):
        return [pack(v, arrays, f"{path}.{i}") for i, v in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Unbuilt):
        arrays.update(value.arrays)
        return value.content
    kind: Any = type(value)
    family = getattr(kind, "family", None)
    if family:
        registry.check_declaration(kind)
    names = [f.name for f in fields(value) if f.init] if is_dataclass(value) else []
    place = {
        "class": kind.__qualname__,
        "fields": {name: pack(getattr(value, name), arrays, f"{path}.{name}") for name in names},
    }
    if family:
        return {"family": family, "name": kind.name, **place}
    return place if kind.__name__ in _RECORDS else {"text": re.sub(r" at 0x[0-9a-f]+", "", repr(value)), **place}


def unpack_or_keep(content: Any, arrays: Mapping[str, Array]) -> Any:
    """The inverse of ``pack``; Unbuilt if it cannot be built."""
    try:
        return unpack(content, arrays)
    except (FedwaveError, RecursionError) as error:  # it may quote the file
        return Unbuilt(content, arrays, brief(error))


def unpack(content: Any, arrays: Mapping[str, Array]) -> Any:
    """The inverse of ``pack``."""
    if isinstance(content, list):
        return tuple(unpack(item, arrays) for item in content)
    if not isinstance(content, dict):
        return content
    try:
        if "array" in content:
            return arrays[content["array"]]
        name, parts = content["class"], content["fields"].items()
        kind = _kind(content, name)
    except (KeyError, AttributeError, TypeError) as error:
        raise FedwaveError(f"the description of a part in the file is corrupt ({error}).") from None
    values = {k: unpack(v, arrays) for k, v in parts}
    try:
        return kind(**values)
    except FedwaveError:
        raise
    except Exception as error:  # its parameters are not those of this version
        raise FedwaveError(f"the file was made with another {name}: it cannot be built ({error}).") from None


def _kind(content: Mapping[str, Any], name: str) -> Any:
    if "family" in content:
        family, registered = content["family"], content["name"]
        if family in registry.FAMILIES and registered in registry.names(family):
            kind = registry.find(family, registered)
            # Another class may be registered under the same name.
            if getattr(kind, "__qualname__", None) == name:
                return kind
    elif name in _RECORDS:
        return getattr(import_module(_RECORDS[name]), name)
    raise FedwaveError(
        f"the file was made with {name}, which is not known here: import the module that registers it "
        "(fw.register), or pass the object yourself."
    )
