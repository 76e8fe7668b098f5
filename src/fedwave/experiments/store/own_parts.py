"""The parts of an experiment that no file or module under ``imports`` registered.

A script or a notebook defined them, and they are named in the record of the run; or they come from an installed
package, and its version is recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.parts import PARTS, Part
from fedwave.experiments.config.sweep import points
from fedwave.parts import registry
from fedwave.parts.user_code import find_importer, is_module, is_package_file


def script_parts(experiment: Experiment) -> list[str]:
    """The parts, such as "scheduler mine", that a script or a notebook defined. A dataset is pinned by its arrays."""
    return [
        part_title(family, name)
        for family, name, part in _registered(experiment)
        if family != "dataset" and find_importer(part) is None and not _package_module(part)
    ]


def own_packages(experiment: Experiment) -> dict[str, str]:
    """The versions of the installed packages that an experiment has parts from, by name."""
    modules = {_package_module(part) for _, _, part in _registered(experiment)} - {""}
    known = metadata.packages_distributions() if modules else {}
    names = {name for module in modules for name in known.get(module.partition(".")[0], ())}
    return {name: metadata.version(name) for name in sorted(names)}


def part_title(family: str, name: str) -> str:
    """A part in the record of a run."""
    return f"{registry.word(family)} {name}"


def _package_module(part: Any) -> str:
    """The module of an installed package that registered or defines the part; empty if there is none."""
    source = find_importer(part)
    for module in (source, getattr(part, "__module__", None)):
        file = getattr(sys.modules.get(module or ""), "__file__", None)
        if module and file and is_module(module) and is_package_file(file) and not module.startswith("fedwave"):
            return str(module)
    return ""


def _registered(experiment: Experiment) -> Iterator[tuple[str, str, Any]]:
    used = dict.fromkeys(one for _, point in points(experiment) for one in _used(point))
    for family, name in used:
        part = registry.own()[family].get(name)
        if part is not None:
            yield family, name, part


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
