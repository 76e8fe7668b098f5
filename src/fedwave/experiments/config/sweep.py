"""One field changed at a time: overrides, and the points of a sweep, which are overrides too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from itertools import product
from typing import Any

from fedwave.errors import FedwaveError, MissingExtra, short_repr
from fedwave.experiments.config.experiment import Experiment, TaskConfig
from fedwave.experiments.config.parts import PART_LISTS, PARTS, Part, plain
from fedwave.experiments.config.schema import field_names, no_field, typed
from fedwave.parts import registry

Point = dict[str, Any]  # the value of every axis
Check = Callable[[Experiment, Experiment], None]  # refuses the first, where it is not the second, already checked


def to_mapping(experiment: Any) -> dict[str, Any]:
    """Every field that has a value as plain nested values, for YAML and JSON; a part without parameters is its name."""
    return {
        name: to_mapping(value) if is_dataclass(value) else plain(value)
        for name, value in _values(experiment).items()
        if value is not None
    }


def with_override(content: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The mapping with one field changed, as ``network.slots=10`` asks; the value is read as YAML."""
    from fedwave.files.yaml_text import read_yaml

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise FedwaveError(f"override {short_repr(text)} must read field=value, such as network.slots=10.")
    changed = _with(content, key.strip(), read_yaml(value, f"override {short_repr(key.strip())}: the value"))
    return {name: plain(one) for name, one in changed.items()}


def points(experiment: Experiment) -> list[tuple[Point, Experiment]]:
    """Every point of the sweep: the values of its axes, and the experiment there. One where nothing is swept.

    They are made once for an experiment.
    """
    known = vars(experiment)
    if "_points" not in known:
        known["_points"] = _points(experiment)
    found: list[tuple[Point, Experiment]] = known["_points"]
    return found


def check_points(experiment: Experiment, check: Check) -> None:
    """Refuse a sweep with a point that is wrong, or with one that is the same as another."""
    swept = [part for part in PARTS if any(_meet(part, axis) for axis in experiment.sweep)]
    for point, at in points(experiment):
        try:
            check(at, experiment)
        except FedwaveError as error:
            raise FedwaveError(f"{_culprits(experiment, point, check)}{error}") from None
    if swept:  # else the values of an axis, which differ, tell the points apart
        names = (", ".join(f"{axis} = {value}" for axis, value in point.items()) for point, _ in points(experiment))
        identities = (_identity(at, swept) for _, at in points(experiment))
        registry.check_different("sweep", zip(names, identities, strict=True), "give each once")


def _points(experiment: Experiment) -> list[tuple[Point, Experiment]]:
    if not experiment.sweep:
        return [({}, experiment)]
    for axis in experiment.sweep:
        _check_axis(axis)
    found = []
    for values in product(*experiment.sweep.values()):
        point = dict(zip(experiment.sweep, values, strict=True))
        try:
            found.append((point, _at(experiment, point)))
        except FedwaveError as error:
            raise FedwaveError(f"{_culprits(experiment, point)}{error}") from None
    return found


def _at(experiment: Experiment, point: Point) -> Experiment:
    """The experiment at a point. What no axis changes is the same object."""
    content = {**_values(experiment), "sweep": {}}
    # A field before the fields inside it: it would replace them.
    for axis in sorted(point, key=lambda axis: axis.count(".")):
        content = _with(content, axis, plain(point[axis]), labelled=True)
    return typed(content)


def _culprits(experiment: Experiment, point: Point, check: Check = lambda at, checked: None) -> str:
    """The axis whose value is refused even alone; else all of them, with their values."""
    for axis, value in point.items():
        try:
            check(_at(experiment, {axis: value}), experiment)
        except FedwaveError:
            return f"sweep.{axis} at {short_repr(plain(value))}: "
    return " and ".join(f"sweep.{axis} at {short_repr(plain(value))}" for axis, value in point.items()) + ": "


def _meet(part: str, axis: str) -> bool:
    """Does the axis change this part, or a mapping that holds it, or a parameter of it?"""
    return f"{part}.".startswith(f"{axis}.") or axis.startswith(f"{part}.")


def _identity(experiment: Experiment, parts: Sequence[str]) -> str:
    """Equal for two experiments that only write these parts in two ways."""
    content = to_mapping(experiment)
    for dotted in parts:
        where, _, name = dotted.rpartition(".")
        place = content.get(where) if where else content
        if place is not None and name in place:
            several = place[name] if dotted in PART_LISTS else [place[name]]
            with suppress(MissingExtra):  # without torch a model is what is written
                place[name] = [
                    registry.full_text(PARTS[dotted], Part.of(PARTS[dotted], one, dotted)) for one in several
                ]
    return repr(content)


def _check_axis(axis: str) -> None:
    inside = axis.startswith("network.set.") or any(axis.startswith(f"{part}.") for part in PARTS)
    if not (inside or axis in field_names()) or axis.partition(".")[0] in ("sweep", "imports"):
        raise FedwaveError(f"sweep.{axis}: {no_field(axis)}")
    if axis == "first_instance":
        raise FedwaveError(
            "sweep.first_instance varies the numbers of the instances, but every point must have the same ones to be "
            "compared: leave it out, or run an experiment for each."
        )


def _with(content: Mapping[str, Any], key: str, value: Any, where: str = "", labelled: bool = False) -> dict[str, Any]:
    """A copy with the field at the dots set. Mappings that are missing or null are made on the way.

    ``labelled``: a scheduler keeps its label when a parameter of it is set.
    """
    first, dot, rest = key.partition(".")
    if not first or (dot and not rest):
        raise no_field(where + key)
    if not dot:
        return {**content, first: value}
    inside, place = content.get(first), where + first
    if place in PART_LISTS:
        return {**content, first: _with_parameter(inside, place, rest, value, labelled)}
    if is_dataclass(inside):
        inside = _values(inside)
    if any(f"{place}.".startswith(f"{part}.") for part in PARTS):
        inside = _part(inside, place)
    if inside is not None and not isinstance(inside, Mapping):
        raise FedwaveError(f"there is no field {short_repr(where + key)}; {place} is {short_repr(inside)}.")
    if place == "sweep":  # an axis has dots of its own
        return {**content, first: {**(inside or {}), rest: value}}
    return {**content, first: _with(inside or {}, rest, value, f"{place}.")}


def _with_parameter(given: Any, field: str, key: str, value: Any, labelled: bool) -> list[Any]:
    """The schedulers or metrics with a parameter of one of them set, which its label or its name selects."""
    given = getattr(Experiment(), field) if given is None else given
    if not isinstance(given, (list, tuple)):
        raise FedwaveError(f"there is no field {short_repr(f'{field}.{key}')}; {field} is {short_repr(given)}.")
    parts = [Part.of(PARTS[field], one, f"{field}[{i}]") for i, one in enumerate(given)]
    place, name = _selected(parts, key)
    if place is None:
        raise FedwaveError(
            f"there is no field {short_repr(f'{field}.{key}')}; write {field}.NAME.PARAMETER, where NAME selects one "
            f"of {', '.join(map(str, parts))}."
        )
    parameter = key[len(name) + 1 :]
    part = parts[place]
    content = {**part, **_with(part, parameter, value, f"{field}.{name}.")}
    if labelled and field == "schedulers":
        if part.label is None and _has(part, parameter):
            raise FedwaveError(
                f"{parameter} is already in the label {short_repr(str(part))} of the scheduler: leave it out there, "
                "or give the scheduler a label of its own with `as`."
            )
        content["as"] = str(part)
    return [*parts[:place], Part.of(PARTS[field], content, f"{field}[{place}]"), *parts[place + 1 :]]


def _has(part: Any, parameter: str) -> bool:
    """Is a parameter, also one of a part within the part, given?"""
    first, _, rest = parameter.partition(".")
    return isinstance(part, Mapping) and first in part and (not rest or _has(part[first], rest))


def _selected(parts: Sequence[Part], key: str) -> tuple[int | None, str]:
    """The part whose label, or else name, stands before the parameter in ``key``; no place if it is not one part."""
    for names in (list(map(str, parts)), [part.name for part in parts]):
        longest = max((name for name in names if key.startswith(f"{name}.")), key=len, default="")
        if names.count(longest) == 1:
            return names.index(longest), longest
    return None, ""


def _part(given: Any, place: str) -> Any:
    """What is written there as a mapping, into which a parameter can be put."""
    if isinstance(given, str):
        return registry.parse(PARTS.get(place, "fading"), given)
    where, _, name = place.rpartition(".")
    default = getattr(TaskConfig(), name, None) if where == "task" else None
    return dict(default) if given is None and default is not None else given


def _values(config: Any) -> dict[str, Any]:
    return {one.name: getattr(config, one.name) for one in fields(config)}
