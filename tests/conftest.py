from __future__ import annotations

from collections.abc import Iterator

import pytest

from fedwave.schedulers import registry


@pytest.fixture(autouse=True)
def _registry_as_shipped() -> Iterator[None]:
    """A scheduler that one test registers must not be met by another."""
    shipped = dict(registry._SCHEDULERS)
    yield
    registry._SCHEDULERS.clear()
    registry._SCHEDULERS.update(shipped)


# Fixtures hold no doctests; imported as modules, all would be called "conftest" and collide.
collect_ignore_glob = ["*conftest.py"]
