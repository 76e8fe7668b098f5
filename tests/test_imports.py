"""Imports point one way, and importing fedwave stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import fedwave

SOURCE = Path(__file__).parents[1] / "src" / "fedwave"

# A module may import from its own layer and from lower ones.
LAYERS = {
    "errors": 0,
    "version": 0,
    "memory": 0,
    "plain_text": 0,
    "types": 1,
    "files": 2,
    "parts": 3,
    "rng": 3,
    "counter_rng": 3,
    "aggregation": 4,
    "network": 5,
    "planning": 6,
    "schedulers": 7,
    "metrics": 8,
    "trace": 9,
    "simulation": 10,
    "live": 11,
    "environment": 11,
    "learning": 11,
    "checks": 12,
    "theory": 12,
    "experiments": 13,
    "adapters": 14,
    "paper": 15,
    "cli": 16,
    "__main__": 17,
    "__init__": 17,
}
# The rooms of experiments/, lowest first; merge and api use all of them.
ROOMS = ("config", "store", "run", "analysis", "report", "")
# Libraries and the only parts that may import them; duckdb reads results, but nothing here needs it.
PLACES: dict[str, str | tuple[str, ...]] = {
    "matplotlib": ("experiments", "paper"),
    "pyarrow": "experiments",
    "pydantic": "experiments",
    "filelock": "experiments",
    "torch": "learning",
    "safetensors": "learning",
    "rich": "cli",
    "typer": "cli",
    "ray": "adapters",
    "gymnasium": "adapters",
    "stable_baselines3": "nowhere",
    "pandas": ("experiments", "network"),  # reads measured logs
    "duckdb": "nowhere",
    "ruamel": "files",
    "platformdirs": "files",
    "pooch": "learning",
    "requests": "learning",
    "yaml": "nowhere",
}
# Parts whose modules must be loaded without these: what needs them is imported when it is used.
LIGHT = {
    "experiments": (
        "fedwave.learning",
        "torch",
        "matplotlib",
        "fedwave.experiments.report.figures.literal",  # a kind of matplotlib's Figure
        "pandas",
        "xarray",
        "pyarrow",
        "pydantic",
        "scipy",
        "fedwave.files.yaml_text",
    ),
    "adapters": ("fedwave.learning", "torch", "ray"),
    "paper": ("matplotlib", "xarray"),
    "trace.py": ("xarray",),
}
MODULES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    return _names(ast.parse(path.read_text()))


def imported_at_once(path: Path) -> set[str]:
    """What the module imports when it is loaded: not in functions, not for the type checker only."""
    tree = ast.parse(path.read_text())
    later = (ast.FunctionDef, ast.ClassDef, ast.If)
    tree.body = [node for node in tree.body if not isinstance(node, later)]
    return _names(tree)


def _names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def module_name(path: Path) -> str:
    return ".".join(("fedwave", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def import_graph(paths: dict[str, Path]) -> dict[str, set[str]]:
    """The modules and those of them that each loads: also later, within a function or by name."""
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = [ast.Pass()]
        texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        found = {one if one in paths else one.rpartition(".")[0] for one in _names(tree)}
        graph[name] = ((found | texts) & paths.keys()) - {name}
    return graph


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
        if mine in ("planning", "schedulers"):  # a scheduler is carried into a deployment
            light = {"types", "parts", "rng", "errors", "memory", "aggregation"}
            assert theirs in {mine, "planning", *light}
        if mine == "network":
            assert theirs in {"network", "types", "parts", "files", "rng", "counter_rng", "errors", "memory"}


def room(module: str) -> int:
    """The place of a module of experiments/ in ROOMS."""
    name = module.split(".")[2]
    return ROOMS.index(name if name in ROOMS else "")


@pytest.mark.parametrize(
    "path", sorted((SOURCE / "experiments").rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE))
)
def test_rooms_of_experiments_import_downwards(path: Path) -> None:
    mine = module_name(path)
    for name in imported(path):
        if name.startswith("fedwave.experiments."):
            assert room(name) <= room(f"{mine}.x"), f"{mine} must not import {name}"


@pytest.mark.parametrize("rooms", [(), ROOMS[:4]], ids=["below experiments", "experiments below report"])
def test_no_modules_load_each_other_not_even_later(rooms: tuple[str, ...]) -> None:
    if rooms:
        there = [path for name in rooms for path in (SOURCE / "experiments" / name).rglob("*.py")]
    else:
        there = [path for path in MODULES if LAYERS[part(path)] < LAYERS["experiments"]]
    TopologicalSorter(import_graph({module_name(path): path for path in there})).prepare()  # or it raises CycleError


@pytest.mark.parametrize("path", sorted((SOURCE / "paper").glob("*.py")), ids=lambda p: p.name)
def test_the_paper_is_written_on_the_public_names(path: Path) -> None:
    """``import fedwave as fw``, the names in ``fw.__all__``, and its own modules."""
    tree = ast.parse(path.read_text())
    for name in _names(tree):
        assert name == "fedwave" or not name.startswith("fedwave.") or name.startswith("fedwave.paper."), name
    used = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "fw"}
    assert used <= set(fedwave.__all__)


def test_only_the_command_line_imports_the_paper() -> None:
    users = {part(path) for path in MODULES if any(f"{name}.".startswith("fedwave.paper.") for name in imported(path))}
    assert users == {"paper", "cli"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_heavy_libraries_stay_in_their_places(path: Path) -> None:
    for name in imported(path):
        library = name.split(".")[0]
        places = PLACES.get(library, part(path))
        assert part(path) in ((places,) if isinstance(places, str) else places), f"{path.name} imports {name}"
    for name in imported_at_once(path) if path.name != "literal.py" else ():
        for heavy in LIGHT.get(part(path), ()):
            assert not f"{name}.".startswith(f"{heavy}."), f"{path.name} imports {name} at once"
    if "figures" not in path.parts and part(path) != "paper":
        assert not any(name.startswith("matplotlib") for name in imported(path))


HEAVY = {
    "torch",
    "gymnasium",
    "matplotlib",
    "pandas",
    "xarray",
    "pyarrow",
    "pydantic",
    "ray",
    "duckdb",
    "ruamel",
    "ruamel.yaml",
    "scipy.special",
    "pooch",
    "requests",
}


def loaded_by(code: str) -> set[str]:
    code = f"{code}\nimport sys; print('loaded', *sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(answer.stdout.rpartition("loaded ")[2].split())


def test_importing_fedwave_loads_nothing_heavy() -> None:
    loaded = loaded_by("import fedwave")
    assert loaded.isdisjoint(HEAVY | {"filelock", "rich", "typer"})
    assert not any(name.startswith("fedwave.experiments") for name in loaded)


@pytest.mark.parametrize("module", ["cli.app", "experiments.store.load", "learning.datasets.mnist_cifar"])
def test_a_command_waits_for_no_library_that_it_may_not_need(module: str) -> None:
    assert loaded_by(f"import fedwave.{module}").isdisjoint(HEAVY)
