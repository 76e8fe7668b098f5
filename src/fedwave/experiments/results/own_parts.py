"""The code of parts that a script, a module or a notebook registered before it called for a run, without `imports`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fedwave import registry
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.parts import PARTS, Part
from fedwave.experiments.config.points import points
from fedwave.parts_import import defining_source


@dataclass(frozen=True)
class OwnPart:
    """A part of the user's own that an experiment uses."""

    name: str  # of the input, such as "code of scheduler mine"
    source: str  # the name of its module, or the file of a script
    file: str | None  # None: a notebook or standard input


def own_parts(experiment: Experiment) -> list[OwnPart]:
    """The registered parts that an experiment uses at any point of its sweep, but for those of installed packages."""
    used = dict.fromkeys(one for _, point in points(experiment) for one in _used(point))
    found = []
    for family, name in used:
        part = registry.own()[family].get(name)
        source = defining_source(part) if part is not None else None
        if source is not None:
            found.append(OwnPart(f"code of {registry.word(family)} {name}", *source))
    return found


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
