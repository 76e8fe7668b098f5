"""What a model keeps beside its parameters and buffers: plain attributes, and the states of random generators."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_KNOWN = ("_parameters", "_buffers", "_modules", "training")
_DEEP = 4  # levels of lists and mappings that are looked into


def random_states() -> dict[str, Any]:
    """The states of the generators that anything can draw from."""
    numpy: Any = np.random.get_state()  # noqa: NPY002 (a model might use it)
    return {
        "torch's generator": torch.random.get_rng_state(),
        "NumPy's generator": np.append(numpy[1], numpy[2]),
        "Python's random module": random.getstate(),
    }


def kept(model: nn.Module) -> dict[str, Any]:
    """Plain attributes of a model and its layers, by name, as they are now."""
    found: dict[str, Any] = {}
    for place, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in _KNOWN and "hooks" not in name:
                found[f"{place}.{name}" if place else name] = _copied(value, _DEEP)
    return found


def different(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The name of the first value that differs; "" if none does."""
    names = dict.fromkeys([*before, *after])
    return next((name for name in names if not _same(before.get(name), after.get(name))), "")


def _copied(value: Any, deep: int) -> Any:
    """A value that can be compared later; None for what cannot change or cannot be looked into."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    if isinstance(value, np.random.Generator):
        return str(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return str(value.get_state())
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, torch.Generator):
        return value.get_state()
    if deep and isinstance(value, nn.Module):
        return {name: p.detach().clone() for name, p in value.state_dict().items()}
    if deep and isinstance(value, (list, tuple)):
        return [_copied(one, deep - 1) for one in value]
    if deep and isinstance(value, Mapping):
        return {str(name): _copied(one, deep - 1) for name, one in value.items()}
    return None


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return not different(one, other)
    same: bool = one == other or one != one  # NaN
    return same
