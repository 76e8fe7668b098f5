"""Records to JSON and arrays, and back: how a file remembers the network and scheduler it came from.

No pickle: only classes named in a table handed in by the caller are ever built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.types import Array


def pack(value: Any, arrays: dict[str, Array], path: str) -> Any:
    """``value`` as JSON; arrays in it are put into ``arrays`` under their path and referred to."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if is_dataclass(value) and not isinstance(value, type):
        content = {
            f.name: pack(getattr(value, f.name), arrays, f"{path}.{f.name}") for f in fields(value)
        }
        return {"class": type(value).__name__, "fields": content}
    if isinstance(value, (tuple, list)):
        return [pack(v, arrays, f"{path}.{i}") for i, v in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    # A scheduler of a user's own need not be a dataclass; then it has no parameters to keep.
    return {"class": type(value).__name__, "fields": {}}


def unpack(content: Any, arrays: Mapping[str, Array], known: Mapping[str, type]) -> Any:
    """The inverse of ``pack``."""
    if isinstance(content, list):
        return tuple(unpack(item, arrays, known) for item in content)
    if not isinstance(content, dict):
        return content
    try:
        if "array" in content:
            return arrays[content["array"]]
        name, parts = content["class"], content["fields"].items()
    except (KeyError, AttributeError) as error:
        raise FedwaveError(f"what the file says of its origin is damaged ({error}).") from None
    if name not in known:
        raise FedwaveError(
            f"the file was made with {name}, which is not known here: "
            "import and register it, or pass the object yourself."
        )
    values = {k: unpack(v, arrays, known) for k, v in parts}
    try:
        return known[name](**values)
    except TypeError as error:  # its parameters are not those of this version
        raise FedwaveError(
            f"the file was made with another {name}: it cannot be built ({error})."
        ) from None
