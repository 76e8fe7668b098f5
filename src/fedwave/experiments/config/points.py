"""Overrides, one field at a time, and the points of a sweep, which are overrides too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import product
from typing import Any

from fedwave.errors import FedwaveError, MissingExtra, short_repr
from fedwave.experiments.config.experiment import Experiment, TaskConfig
from fedwave.experiments.config.parts import PART_LISTS, PARTS, Part
from fedwave.experiments.config.schema import field_names, no_field, typed
from fedwave.parts import registry

Point = dict[str, Any]  # the value of every axis
Check = Callable[[Experiment], None]  # refuses an experiment that cannot be built
_DEFAULTS = {"task": TaskConfig()}  # whose parts have names before any is given


def to_mapping(experiment: Experiment) -> dict[str, Any]:
    """Every field as plain nested values, for YAML and JSON; a part without parameters is its name."""
    mapping: dict[str, Any] = _plain(asdict(experiment))
    return mapping


def with_override(content: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The mapping with one field changed, as ``network.slots=10`` asks; the value is read as YAML."""
    from fedwave.files.yaml_text import read_yaml

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise FedwaveError(f"override {short_repr(text)} must read field=value, such as network.slots=10.")
    return _with(content, key.strip(), read_yaml(value, f"override {short_repr(key.strip())}: the value"))


def points(experiment: Experiment, check: Check = lambda at: None) -> list[tuple[Point, Experiment]]:
    """Every point of the sweep: the values of its axes, and the experiment there. One where nothing is swept."""
    for axis in experiment.sweep:
        _check_axis(axis)
    base = to_mapping(experiment) | {"sweep": {}}
    found = []
    for values in product(*experiment.sweep.values()):
        point = dict(zip(experiment.sweep, values, strict=True))
        try:
            found.append((point, _at(base, point, check)))
        except FedwaveError as error:
            raise FedwaveError(f"{_culprits(base, point, check)}{error}") from None
    return found


def check_points(experiment: Experiment, check: Check) -> None:
    """Refuse a sweep with a point that is wrong, or with one that is the same as another."""
    found = points(experiment, check)
    swept = [part for part in PARTS if any(_meet(part, axis) for axis in experiment.sweep)]
    if swept:  # else the values of an axis, which differ, tell the points apart
        names = (", ".join(f"{axis} = {value}" for axis, value in at.items()) for at, _ in found)
        identities = (_identity(at, swept) for _, at in found)
        registry.check_different("sweep", zip(names, identities, strict=True), "give each once")


def _meet(part: str, axis: str) -> bool:
    """Does the axis change this part, or a mapping that holds it, or a parameter of it?"""
    return f"{part}.".startswith(f"{axis}.") or axis.startswith(f"{part}.")


def _identity(experiment: Experiment, parts: Sequence[str]) -> str:
    """Equal for two experiments that only write these parts in two ways."""
    content = to_mapping(experiment)
    for dotted in parts:
        where, _, name = dotted.rpartition(".")
        place = content[where] if where else content
        if place is not None and place[name] is not None:
            several = place[name] if dotted in PART_LISTS else [place[name]]
            with suppress(MissingExtra):  # without torch a model is what is written
                place[name] = [registry.full_text(PARTS[dotted], part) for part in several]
    return repr(content)


def _at(base: Mapping[str, Any], point: Point, check: Check) -> Experiment:
    content = dict(base)
    # A field before the fields inside it: it would replace them.
    for axis in sorted(point, key=lambda axis: axis.count(".")):
        content = _with(content, axis, _plain(point[axis]))
    experiment = typed(content)
    check(experiment)
    return experiment


def _culprits(base: Mapping[str, Any], point: Point, check: Check) -> str:
    """The axis whose value is refused even alone; else all of them, with their values."""
    for axis, value in point.items():
        try:
            _at(base, {axis: value}, check)
        except FedwaveError:
            return f"sweep.{axis} at {short_repr(_plain(value))}: "
    both = (f"sweep.{axis} at {short_repr(_plain(value))}" for axis, value in point.items())
    return " and ".join(both) + (": " if point else "")


def _check_axis(axis: str) -> None:
    inside = axis.startswith("network.set.") or any(
        axis.startswith(f"{part}.") for part in PARTS if part not in PART_LISTS
    )
    if not (inside or axis in field_names()) or axis.partition(".")[0] in ("sweep", "imports"):
        raise FedwaveError(f"sweep.{axis}: {no_field(axis)}")
    if axis == "first_instance":
        raise FedwaveError(
            "sweep.first_instance varies the numbers of the instances, but every point must have the same ones to be "
            "compared: leave it out, or run an experiment for each."
        )


def _with(content: Mapping[str, Any], key: str, value: Any, where: str = "") -> dict[str, Any]:
    """A copy with the field at the dots set. Mappings that are missing or null are made on the way."""
    first, dot, rest = key.partition(".")
    if not first or (dot and not rest):
        raise no_field(where + key)
    if not dot:
        return {**content, first: value}
    inside, place = content.get(first), where + first
    if any(f"{place}.".startswith(f"{part}.") for part in PARTS if part not in PART_LISTS):
        inside = _part(inside, place)
    if inside is not None and not isinstance(inside, Mapping):
        raise FedwaveError(f"there is no field {short_repr(where + key)}; {place} is {short_repr(inside)}.")
    if place == "sweep":  # an axis has dots of its own
        return {**content, first: {**(inside or {}), rest: value}}
    return {**content, first: _with(inside or {}, rest, value, f"{place}.")}


def _part(given: Any, place: str) -> Any:
    """What is written there as a mapping, into which a parameter can be put."""
    if isinstance(given, str):
        return registry.parse(PARTS.get(place, "fading"), given)
    where, _, name = place.rpartition(".")
    default = getattr(_DEFAULTS.get(where), name, None)
    return dict(default) if given is None and default is not None else given


def _plain(value: Any) -> Any:
    if isinstance(value, Part):
        return {k: _plain(v) for k, v in value.items()} if value.parameters else value.name
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
