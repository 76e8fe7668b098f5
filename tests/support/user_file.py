"""A user's file with parts of its own, and a clean registry after each test that uses it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fedwave.parts import registry, user_code

TEXT = """
from dataclasses import dataclass
import numpy as np
import fedwave as fw

@fw.register
@dataclass(frozen=True)
class {kind}(fw.Scheduler):
    name = "{name}"
    weight: float = {weight}

    def priority(self, state, seen, draws):
        return self.weight * seen.delay

@fw.register
class Steady(fw.fading.Rayleigh):
    name = "steady-test"
"""


def text(weight: float = 1.0, kind: str = "Heavy", name: str = "heavy-test") -> str:
    return TEXT.format(kind=kind, name=name, weight=weight)


@contextmanager
def forgotten() -> Iterator[None]:
    """Parts that are registered meanwhile are removed afterwards."""
    before = {family: dict(parts) for family, parts in registry.own().items()}
    done, modules = dict(user_code._imports), set(sys.modules)
    try:
        yield
    finally:
        registry.own().update(before)
        user_code._imports.clear()
        user_code._imports.update(done)
        for name in set(sys.modules) - modules:
            if name.startswith("fedwave_parts_"):
                del sys.modules[name]
