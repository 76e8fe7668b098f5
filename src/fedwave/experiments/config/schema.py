"""The base of all configurations: pydantic checks their fields by their types, and makes the JSON schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Self, get_type_hints

import numpy as np
from annotated_types import Ge, Gt, Le

from fedwave.errors import FedwaveError, did_you_mean, is_whole, short_repr
from fedwave.experiments.config.parts import PART_LISTS, PARTS, Part
from fedwave.metrics import metric_names
from fedwave.parts import registry

# For pydantic, which is slow to load and therefore imported late.
_RULES: dict[str, Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False, "use_attribute_docstrings": True}
_INFINITE = {"inf": float("inf"), "-inf": -float("inf")}  # the texts for them in JSON, which has no infinity


class _AnyNumber:
    """Marks a number that may be infinite."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        number = core_schema.float_schema(strict=True, allow_inf_nan=True)
        return core_schema.no_info_before_validator_function(_as_number, number)


Count = Annotated[int, Ge(1)]
Whole = Annotated[int, Ge(0)]
Amount = Annotated[float, Ge(0)]
Positive = Annotated[float, Gt(0)]
Share = Annotated[float, Gt(0), Le(1)]
AnyNumber = Annotated[float, _AnyNumber()]

# Our words for pydantic's, in this order.
_WORDS = {
    r"Input should be ": "",
    r"an instance of Part": "a name or a mapping",
    r"an instance of \w+|a valid dictionary": "a mapping",
    r"a valid tuple": "a list",
    r"a valid integer": "a whole number",
    r"a valid number": "a number",
    r"a valid string": "text",
    r"greater than or equal to": ">=",
    r"less than or equal to": "<=",
    r"greater than": ">",
    r"less than": "<",
}


class Checked:
    """Base of the configurations: every field of a new object is converted and checked."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _RULES
    prefix: ClassVar[str] = ""  # before its fields in an experiment: "network."

    def __post_init__(self) -> None:
        kind: Any = type(self)
        given = {}
        for name, usual in _defaults(kind).items():
            value = getattr(self, name)
            if type(value) is not type(usual) or value != usual:  # a default needs no check: pydantic is slow to load
                given[name] = _converted(self.prefix + name, value)
        if given:
            vars(self).update(_validated(kind, given))
        self.check()

    def check(self) -> None:
        """Raises FedwaveError for fields that do not fit each other."""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Makes one from a mapping, such as the content of a file. Raises FedwaveError that names a wrong field."""
        kind: Any = cls
        for name in content:
            if name not in _defaults(kind):
                raise no_field(cls.prefix + name)
        return cls(**content)


def _as_number(value: Any) -> Any:
    """The number that the text "inf" or "-inf" stands for; any other value as it is."""
    return _INFINITE.get(value, value) if isinstance(value, str) else value


def as_value(field: str, value: Any, where: str) -> Any:
    """A value of a field, or of an axis: a Part if the field is one. Lists of parts stay as they are."""
    if field.startswith("network.set."):
        return _as_number(value)
    if value is None or field in PART_LISTS or field not in PARTS:
        return value
    return Part.of(PARTS[field], value, where)


def field_names() -> tuple[str, ...]:
    """Every field of an experiment, with its dots."""
    kinds: list[Any] = Checked.__subclasses__()
    return tuple(f"{kind.prefix}{name}" for kind in kinds for name in _defaults(kind))


def no_field(dotted: str) -> FedwaveError:
    """The refusal of a field that does not exist."""
    parent, _, last = dotted.rpartition(".")
    names = field_names()
    elsewhere = [name for name in names if name.rpartition(".")[2] == last]
    beside = [name.rpartition(".")[2] for name in names if name.rpartition(".")[0] == parent]
    if dotted in names:  # a key with a dot in it
        hint = f"write {last} below {parent}."
    elif elsewhere:
        hint = f"did you mean {elsewhere[0]!r}?"
    else:
        hint = did_you_mean(last, beside or [name for name in names if "." not in name])
    return FedwaveError(f"there is no field {short_repr(dotted)}; {hint}")


def json_schema(kind: type[Checked]) -> dict[str, Any]:
    """The schema (draft 2020-12) of a configuration, with a description of every field and the names of parts."""
    from pydantic import TypeAdapter

    schema: dict[str, Any] = TypeAdapter(kind).json_schema()
    at = {one.prefix: schema["$defs"].get(one.__name__, schema)["properties"] for one in Checked.__subclasses__()}
    at[""]["metric"]["anyOf"] = [{"enum": list(metric_names(training=True))}, {"type": "string"}]
    for dotted, family in PARTS.items():
        where, dot, name = dotted.rpartition(".")
        field = at[where + dot][name]
        field = field.get("items", field)
        # A known name, any other text (parameters after a colon, a name of your own), or a mapping.
        text: list[Any] = [{"enum": list(registry.names(family))}, {"type": "string"}]
        mapping = {"type": "object", "required": ["name"], "properties": {"name": {"anyOf": text}}}
        field["anyOf"] = [*text, mapping, *({"type": "null"} for one in field["anyOf"] if one == {"type": "null"})]
    heading = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "fedwave experiment"}
    return {**heading, **{key: value for key, value in schema.items() if key not in heading}}


def _converted(field: str, value: Any) -> Any:
    """Converts a value to its type: mappings and texts to configurations and parts, lists to tuples."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        for kind in Checked.__subclasses__():
            if kind.prefix == f"{field}.":
                return kind.of(value)
    if field in PART_LISTS and isinstance(value, (list, tuple)):
        return tuple(Part.of(PARTS[field], one, f"{field}[{i}]") for i, one in enumerate(value))
    if field == "sweep" and isinstance(value, Mapping):
        return {axis: tuple(values) if isinstance(values, list) else values for axis, values in value.items()}
    made = as_value(field, value, field)
    return tuple(made) if isinstance(made, list) else made


def _validated(kind: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    from pydantic import ValidationError

    try:
        checked = _model(kind).model_validate(given)
    except ValidationError as error:
        raise _refusal(kind, error.errors()) from None
    return {name: getattr(checked, name) for name in given}


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    """The default of every field of a configuration."""
    return {one.name: one.default if one.default_factory is MISSING else one.default_factory() for one in fields(kind)}


@cache
def _model(kind: Any) -> Any:
    """The pydantic model with the fields of a configuration."""
    from pydantic import create_model

    hints = get_type_hints(kind, include_extras=True)
    fields_: dict[str, Any] = {name: (hints[name], None) for name in _defaults(kind)}
    return create_model(kind.__name__, __config__=_RULES, **fields_)  # type: ignore[call-overload]


def _refusal(kind: Any, errors: list[Any]) -> FedwaveError:
    """The first field that pydantic refuses, with its dots, its value and its rule."""
    field, *_ = errors[0]["loc"]
    mine = [one for one in errors if one["loc"][0] == field]
    # A field can have several types. The error that lies deepest belongs to the intended one.
    deepest = max(len(one["loc"]) for one in mine)
    loc, value = next((one["loc"], one["input"]) for one in mine if len(one["loc"]) == deepest)
    where = f"{kind.prefix}{field}"
    for step in loc[1:]:
        if field in ("set", "sweep"):
            where += f".{step}" if step != "[key]" else ""
        elif isinstance(step, int):  # a text is the name of a type that was tried
            where += f"[{step}]"
    wanted = " or ".join(dict.fromkeys(one["msg"] for one in mine if len(one["loc"]) == deepest))
    for theirs, ours in _WORDS.items():
        wanted = re.sub(theirs, ours, wanted)
    if isinstance(value, float) and is_whole(value) and "whole number" in wanted:
        wanted += f", without a point or exponent: write {int(value)}"
    return FedwaveError(f"{where} is {short_repr(value)}, must be {wanted}.")
