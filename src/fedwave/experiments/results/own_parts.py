"""The code of parts that a script, a module or a notebook registered before it called for a run, without `imports`.

That is the code of the part and the code that registered it: a `functools.partial` of a built-in part has its numbers
from there. Of a part from an installed package it is the version of the package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.parts import PARTS, Part
from fedwave.experiments.config.points import points
from fedwave.parts import registry
from fedwave.parts.registering import callers
from fedwave.parts.user_code import is_package_file, own_source


@dataclass(frozen=True)
class OwnPart:
    """Code of a part of the user's own that an experiment uses."""

    name: str  # of the input, such as "code of scheduler mine"
    source: str  # the name of its module, or the file of a script
    file: str | None  # None: a notebook or standard input


def own_parts(experiment: Experiment) -> list[OwnPart]:
    """The code of the registered parts that an experiment uses at any point of its sweep, but for that of packages."""
    found = []
    for family, name, part in _registered(experiment):
        sources = [own_source(*one) or _stray(*one) for one in _modules(family, name, part)]
        files = {one[1]: one for one in sources if one is not None}  # each file once
        for number, source in enumerate(files.values(), 1):
            which = f" ({number})" if number > 1 else ""
            found.append(OwnPart(code_name(family, name) + which, *source))
    return found


def own_packages(experiment: Experiment) -> dict[str, str]:
    """The versions of the installed packages that an experiment has parts from, by name."""
    found: dict[str, str] = {}
    for family, name, part in _registered(experiment):
        # Only what registered it, and not what called that: a program may be run by any package.
        for module, file in _modules(family, name, part)[:2]:
            if file is not None and is_package_file(file) and not _is_ours(module):
                found |= _packages(module, file)
    return dict(sorted(found.items()))


def code_name(family: str, name: str) -> str:
    """The name of the input that is the code of a part."""
    return f"code of {registry.word(family)} {name}"


def _registered(experiment: Experiment) -> Iterator[tuple[str, str, Any]]:
    used = dict.fromkeys(one for _, point in points(experiment) for one in _used(point))
    for family, name in used:
        part = registry.own()[family].get(name)
        if part is not None:
            yield family, name, part


def _modules(family: str, name: str, part: Any) -> list[tuple[str, str | None]]:
    """The module that defines a part, and those that registered it, with their files."""
    kind = getattr(part, "func", part)  # of functools.partial
    module = str(getattr(kind, "__module__", None) or "__main__")
    file = getattr(sys.modules.get(module), "__file__", None)
    return [(module, file), *callers(family, name, part)]


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "fedwave"


def _stray(module: str, file: str | None) -> tuple[str, str] | None:
    """A file among the installed packages that belongs to none of them is pinned as if it were the user's."""
    if file is None or not is_package_file(file) or _is_ours(module) or _packages(module, file):
        return None
    return module, file


@lru_cache(maxsize=256)
def _packages(module: str, file: str) -> dict[str, str]:
    """The installed packages, with their versions, that a module is from: one, but for shared namespaces."""
    names = set(metadata.packages_distributions().get(module.partition(".")[0], ()))
    if len(names) > 1:
        owners = {name for name in names if _has(name, file)}
        names = owners or names
    return {name: metadata.version(name) for name in names}


def _has(name: str, file: str) -> bool:
    real = Path(file).resolve()
    files = metadata.files(name) or ()
    return any(one.name == real.name and Path(str(one.locate())).resolve() == real for one in files)


def _used(point: Experiment) -> Iterator[tuple[str, str]]:
    yield "metric", point.metric
    for place, family in PARTS.items():
        value: object = point
        for step in place.split("."):
            value = getattr(value, step, None)
        for part in value if isinstance(value, tuple) else [value]:
            if isinstance(part, Part):
                yield from _within(family, part)


def _within(family: str, part: Part) -> Iterator[tuple[str, str]]:
    yield family, part.name
    for parameter, its_family in registry.inner_families(family, part.name).items():
        inner = part.parameters.get(parameter)
        if isinstance(inner, Part):
            yield from _within(its_family, inner)
