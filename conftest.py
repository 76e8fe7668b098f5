"""For tests and for the examples in docstrings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import ModuleType

import pytest

import fedwave as fw
from fedwave.parts import registry


@pytest.fixture(autouse=True)
def _registry_as_shipped() -> Iterator[None]:
    """A part that one test or example registers must not be met by another."""
    before = {family: dict(parts) for family, parts in registry.own().items()}
    yield
    for family, parts in before.items():
        registry.own()[family].clear()
        registry.own()[family].update(parts)


@pytest.fixture(autouse=True)
def _fresh_interpreter(request: pytest.FixtureRequest) -> None:
    """An example of a public name finds only the names that it makes itself, as in a new interpreter."""
    if isinstance(request.node, pytest.DoctestItem) and _is_public(request.node.name):
        request.node.dtest.globs.clear()
        request.node.dtest.globs["__name__"] = "__main__"


def _is_public(item: str) -> bool:
    if item.rpartition(".")[2].startswith("_"):
        return False
    return item == "fedwave" or any(item == name or item.startswith(f"{name}.") for name in _public_names())


@cache
def _public_names() -> list[str]:
    """Where the public names are defined; a namespace such as ``fw.fading`` stands for all names in its module."""
    found = [getattr(fw, name) for name in fw.__all__]
    modules = [one.__name__ for one in found if isinstance(one, ModuleType)]
    return modules + [f"{one.__module__}.{one.__qualname__}" for one in found if hasattr(one, "__qualname__")]
