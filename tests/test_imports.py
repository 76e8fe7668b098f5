"""Imports point one way, and importing fedwave stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fedwave"

# A module may import from its own layer and from lower ones.
LAYERS = {
    "errors": 0, "version": 0, "types": 1, "rng": 2, "files": 2, "serialize": 2,
    "network": 3, "schedulers": 3,
    "components": 4, "trace": 4, "recording": 4, "simulate": 5,
    "learning": 6, "checks": 6, "experiments": 7, "cli": 8, "__main__": 9, "__init__": 9,
}  # fmt: skip
MODULES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_downwards(path: Path) -> None:
    mine = part(path)
    for name in imported(path):
        if not name.startswith("fedwave."):
            continue
        theirs = name.split(".")[1]
        assert LAYERS[theirs] <= LAYERS[mine], f"{path.name} must not import {name}"
        if mine == "schedulers":
            assert theirs in {"schedulers", "types", "rng", "errors"}
        if mine == "network":
            assert theirs in {"network", "types", "rng", "errors", "files"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_heavy_libraries_stay_in_their_places(path: Path) -> None:
    places = {"matplotlib": "experiments", "torch": "learning", "rich": "cli", "typer": "cli"}
    for name in imported(path):
        library = name.split(".")[0]
        assert places.get(library, part(path)) == part(path)
    if part(path) == "experiments" and not path.name.endswith("figures.py"):
        assert not any(name.startswith("matplotlib") for name in imported(path))


def test_importing_fedwave_loads_nothing_heavy() -> None:
    code = "import sys, fedwave; print(' '.join(sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(answer.stdout.split())
    assert loaded.isdisjoint(
        {"torch", "matplotlib", "scipy.special", "pandas", "rich", "typer", "yaml"}
    )
