"""One field changed at a time: overrides, and the points of a sweep, which are overrides too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import product
from typing import Any

from fedwave.errors import FedwaveError, short_repr
from fedwave.experiments.config.experiment import Experiment, TaskConfig
from fedwave.experiments.config.parts import PART_LISTS, PARTS, Part, plain, refusals_at
from fedwave.experiments.config.schema import field_names, no_field
from fedwave.parts import registry

Values = dict[str, Any]  # field values, by dotted name
# Raises if the first experiment is invalid; skips fields that equal those of the second.
Check = Callable[[Experiment, Experiment], None]

# Fields that every point must have the same, to be compared in one table.
_SAME = ("schedulers", "metrics", "metric", "against", "first_instance", "imports", "sweep")


def to_mapping(experiment: Any) -> dict[str, Any]:
    """Every field that has a value as plain nested values, for YAML and JSON; a part without parameters is its name."""
    return {
        name: to_mapping(value) if is_dataclass(value) else plain(value)
        for name, value in _values(experiment).items()
        if value is not None
    }


def points(experiment: Experiment) -> list[tuple[Values, Experiment]]:
    """Every point of the sweep: the values of its axes, and the experiment there. One where nothing is swept.

    They are made once for an experiment.
    """
    known = vars(experiment)
    if "_points" not in known:
        known["_points"] = _points(experiment)
    found: list[tuple[Values, Experiment]] = known["_points"]
    return found


def check_points(experiment: Experiment, check: Check) -> None:
    """Raises FedwaveError, with the name of the point, if a point of the sweep is invalid."""
    for where, at in points(experiment):
        with refusals_at(_name(where)):
            check(at, experiment)


def with_fields(experiment: Experiment, values: Mapping[str, Any], labelled: bool = False) -> Experiment:
    """The experiment with other values for some fields, by dotted name. Unchanged parts are the same objects.

    ``labelled``: a scheduler keeps its label when a parameter of it is set.
    """
    if not values:
        return experiment
    content = _values(experiment)
    # A field before the fields inside it: it would replace them.
    for field in sorted(values, key=lambda field: field.count(".")):
        content = with_value(content, field, values[field], labelled=labelled)
    return Experiment.of(content)


def with_value(
    content: Mapping[str, Any], key: str, value: Any, where: str = "", labelled: bool = False
) -> dict[str, Any]:
    """A copy with the field at the dots set. Mappings that are missing or null are made on the way."""
    first, dot, rest = key.partition(".")
    if not first or (dot and not rest):
        raise no_field(where + key)
    if not dot:
        return {**content, first: value}
    inside, field = content.get(first), where + first
    if field in PART_LISTS:
        return {**content, first: _with_parameter(inside, field, rest, value, labelled)}
    if is_dataclass(inside):
        inside = _values(inside)
    if any(f"{field}.".startswith(f"{part}.") for part in PARTS):
        inside = _part(inside, field)
    if inside is not None and not isinstance(inside, Mapping):
        raise FedwaveError(f"there is no field {short_repr(where + key)}; {field} is {short_repr(inside)}.")
    if field == "sweep":  # an axis has dots of its own
        return {**content, first: {**(inside or {}), rest: value}}
    return {**content, first: with_value(inside or {}, rest, value, f"{field}.")}


def _points(experiment: Experiment) -> list[tuple[Values, Experiment]]:
    if not experiment.sweep:
        return [({}, experiment)]
    for axis in experiment.sweep:
        if axis in _SAME:
            fix = f"to vary a parameter, write sweep.{axis}.NAME.PARAMETER" if axis in PART_LISTS else "leave it out"
            raise FedwaveError(f"sweep.{axis}: every point must have the same {axis} to be compared: {fix}.")
        inside = axis.startswith("network.set.") or any(axis.startswith(f"{part}.") for part in PARTS)
        if not inside and axis not in field_names():
            names = {name for part in experiment.schedulers for name in (str(part), part.name)}
            if any(axis.startswith(f"{name}.") for name in names):
                raise FedwaveError(f"sweep.{axis}: there is no field {axis!r}; write sweep.schedulers.{axis}.")
            raise FedwaveError(f"sweep.{axis}: {no_field(axis)}")
    found = []
    for values in product(*experiment.sweep.values()):
        where = dict(zip(experiment.sweep, values, strict=True))
        with refusals_at(_name(where)):
            at = with_fields(experiment, {**where, "sweep": {}}, labelled=True)
            if (at.task is None) != (experiment.task is None):
                raise FedwaveError(
                    "task is null in the experiment or at this point, but not in both, so points cannot be compared: "
                    "give a task, such as task.dataset=mnist, or leave the axis out."
                )
        found.append((where, at))
    return found


def _name(where: Values) -> str:
    """The point in a refusal."""
    return " and ".join(f"sweep.{axis} at {short_repr(plain(value))}" for axis, value in where.items())


def _with_parameter(given: Any, field: str, key: str, value: Any, labelled: bool) -> list[Any]:
    """The schedulers or metrics with a parameter of one of them set, which its label or its name selects."""
    given = getattr(Experiment(), field) if given is None else given
    if not isinstance(given, (list, tuple)):
        raise FedwaveError(f"there is no field {short_repr(f'{field}.{key}')}; {field} is {short_repr(given)}.")
    parts = [Part.of(PARTS[field], one, f"{field}[{i}]") for i, one in enumerate(given)]
    number, name = _selected(parts, key)
    if number is None:
        raise FedwaveError(
            f"there is no field {short_repr(f'{field}.{key}')}; write {field}.NAME.PARAMETER, where NAME selects one "
            f"of {', '.join(map(str, parts))}."
        )
    parameter = key[len(name) + 1 :]
    part = parts[number]
    content = {**part, **with_value(part, parameter, value, f"{field}.{name}.")}
    if labelled and field == "schedulers":
        if part.label is None and _has(part, parameter):
            raise FedwaveError(
                f"{parameter} is already in the label {short_repr(str(part))} of the scheduler: leave it out there, "
                "or give the scheduler a label of its own with `as`."
            )
        content["as"] = str(part)
    return [*parts[:number], Part.of(PARTS[field], content, f"{field}[{number}]"), *parts[number + 1 :]]


def _has(part: Any, parameter: str) -> bool:
    """Is a parameter, also one of a part within the part, given?"""
    first, _, rest = parameter.partition(".")
    return isinstance(part, Mapping) and first in part and (not rest or _has(part[first], rest))


def _selected(parts: Sequence[Part], key: str) -> tuple[int | None, str]:
    """The part whose label, or else name, stands before the parameter in ``key``; no number if it is not one part."""
    for names in (list(map(str, parts)), [part.name for part in parts]):
        longest = max((name for name in names if key.startswith(f"{name}.")), key=len, default="")
        if names.count(longest) == 1:
            return names.index(longest), longest
    return None, ""


def _part(given: Any, field: str) -> Any:
    """The given part as a mapping, into which a parameter can be put."""
    if isinstance(given, str):
        return registry.parse(PARTS.get(field, "fading"), given)
    where, _, name = field.rpartition(".")
    default = getattr(TaskConfig(), name, None) if where == "task" else None
    return dict(default) if given is None and default is not None else given


def _values(config: Any) -> dict[str, Any]:
    return {one.name: getattr(config, one.name) for one in fields(config)}
