"""For tests and for the examples in docstrings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fedwave.parts import registry


@pytest.fixture(autouse=True)
def _registry_as_shipped() -> Iterator[None]:
    """A part that one test or example registers must not be met by another."""
    before = {family: dict(parts) for family, parts in registry.own().items()}
    yield
    for family, parts in before.items():
        registry.own()[family].clear()
        registry.own()[family].update(parts)
