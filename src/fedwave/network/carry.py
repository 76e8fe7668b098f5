"""The carry of a fading model as named arrays, which a Trace keeps, so that a run goes on without drawing its past.

An array is called "carry", the parts of a tuple "carry.0", "carry.1" and so on. None has a name too: its array has no
columns. The first axis is the instance, as in every state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedwave.types import Array, State

_NAME = "carry"
_KINDS = "biufc"


def packed_carry(carry: Any, instances: int) -> State:
    """The arrays of a carry; none if it holds anything but arrays with an axis of instances, None and tuples."""
    try:
        return dict(_packed(_NAME, carry, instances))
    except TypeError:
        return {}


def unpacked_carry(arrays: State) -> Any:
    """The carry that ``packed_carry`` made these arrays from; ValueError if it did not make them."""
    carry = _unpacked(_NAME, arrays)
    if dict(_packed(_NAME, carry, _instances(arrays))).keys() != arrays.keys():
        raise ValueError("the arrays of the channel are not those of a carry")
    return carry


def _packed(name: str, carry: Any, instances: int) -> Iterator[tuple[str, Array]]:
    if carry is None:
        yield name, np.empty((instances, 0))
    elif isinstance(carry, tuple) and carry:
        for k, part in enumerate(carry):
            yield from _packed(f"{name}.{k}", part, instances)
    elif _is_kept(carry, instances):
        yield name, carry.copy()  # often a view of a whole block
    else:
        raise TypeError(f"{name} cannot be kept")


def _is_kept(carry: Any, instances: int) -> bool:
    is_array = isinstance(carry, np.ndarray) and carry.size > 0 and carry.dtype.kind in _KINDS
    return is_array and carry.shape[:1] == (instances,)


def _unpacked(name: str, arrays: State) -> Any:
    if name in arrays:
        return arrays[name] if arrays[name].size else None
    parts = {key[len(name) + 1 :].split(".")[0] for key in arrays if key.startswith(f"{name}.")}
    if not parts:
        raise ValueError(f"channel/{name} is missing")
    return tuple(_unpacked(f"{name}.{k}", arrays) for k in range(len(parts)))


def _instances(arrays: State) -> int:
    return len(next(iter(arrays.values())))
