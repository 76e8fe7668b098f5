"""Records to JSON and arrays, and back: a file stores the network and the scheduler that it was made with.

No pickle: only registered parts, by family and name, and the few records listed here are ever built.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.parts import registry
from fedwave.types import Array

# Records that are not registered parts.
_RECORDS = {
    "Network": "fedwave.network.network",
    "Device": "fedwave.network.devices",
    "DeviceTable": "fedwave.network.devices",
    "ConjugatePosterior": "fedwave.schedulers.conjugate_posterior",
    "GridPosterior": "fedwave.schedulers.posterior",
    "Labels": "fedwave.network.partition",
}
_PLAIN = (bool, int, float, str, np.generic, np.ndarray)


def pack(value: Any, arrays: dict[str, Array], path: str) -> Any:
    """``value`` as JSON; arrays in it are put into ``arrays`` under their path and referred to."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if isinstance(value, (tuple, list)):
        return [pack(v, arrays, f"{path}.{i}") for i, v in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    parts = fields(value) if is_dataclass(value) else ()
    content = {f.name: pack(getattr(value, f.name), arrays, f"{path}.{f.name}") for f in parts}
    kind: Any = type(value)
    place = {"class": kind.__qualname__, "fields": content}
    # A user's part need not be a dataclass. What it holds is written down, so that two runs do not look alike.
    known = hasattr(kind, "family") or kind.__name__ in _RECORDS
    more = _attributes(value) if known else {"value": _text(value)}
    if more:
        place["attributes"] = {k: pack(v, arrays, f"{path}.{k}") for k, v in more.items()}
    family = getattr(kind, "family", None)
    return {"family": family, "name": kind.name, **place} if family else place


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
        raise FedwaveError(f"the provenance in the file is damaged ({error}).") from None
    values = {k: unpack(v, arrays) for k, v in parts}
    try:
        made = kind(**values)
    except FedwaveError:
        raise
    except Exception as error:  # its parameters are not those of this version, or are forged
        raise FedwaveError(f"the file was made with another {name}: it cannot be built ({error}).") from None
    attributes = content.get("attributes", {})
    if not isinstance(attributes, dict):
        raise FedwaveError("the provenance in the file is damaged (attributes).")
    _check_attributes(made, attributes, arrays)
    return made


def _attributes(part: Any) -> dict[str, Any]:
    """What a part holds beside the fields of a dataclass: what it was made with, and plain values."""
    kind: Any = type(part)
    own = {f.name for f in fields(part)} if is_dataclass(part) else set()
    try:
        parameters = set(inspect.signature(kind).parameters)
    except (TypeError, ValueError):
        parameters = set()
    if is_dataclass(part) and parameters <= own:
        return {}
    return {
        name: value if isinstance(value, _PLAIN) else _text(value)
        for name, value in getattr(part, "__dict__", {}).items()
        if name not in own and (name in parameters or isinstance(value, _PLAIN))
    }


def _check_attributes(made: Any, wanted: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Refuse a part that is not the one in the file, because its fields are not all that it was made with."""
    found = _attributes(made)
    for name, value in wanted.items():
        was = arrays.get(str(value.get("array"))) if isinstance(value, dict) else value
        if name not in found or not np.array_equal(found[name], was):  # type: ignore[arg-type]
            raise FedwaveError(
                f"the file was made with a {type(made).__qualname__} of another {name!r}, which it cannot build: pass "
                "the object yourself, and keep parameters in the fields of a dataclass."
            )


def _text(value: Any) -> str:
    """Any value as text, without its place in memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


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
