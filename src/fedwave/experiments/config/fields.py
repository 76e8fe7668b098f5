"""The fields of a configuration: their types say the rules, pydantic checks them, a refusal is one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from annotated_types import Ge, Gt, Le

from fedwave.errors import FedwaveError, is_whole, short_repr
from fedwave.experiments.config.parts import PART_LISTS, PARTS, Part

# pydantic reads this from the classes, which therefore need not import it.
PYDANTIC: dict[str, Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False, "use_attribute_docstrings": True}


class _Infinite:
    """Marks a number that may be infinite."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.float_schema(strict=True, allow_inf_nan=True)


Count = Annotated[int, Ge(1)]
Whole = Annotated[int, Ge(0)]
Amount = Annotated[float, Ge(0)]
Positive = Annotated[float, Gt(0)]
Share = Annotated[float, Gt(0), Le(1)]
AnyNumber = Annotated[float, _Infinite()]

_WORDS: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("text", "texts"),
    Any: ("anything", "values"),
    Part: ("a name or a mapping", "names or mappings"),
}
_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}  # by the name of a rule's only attribute


class Checked:
    """Base of the configurations: every field of a new object is converted and checked."""

    place: ClassVar[str] = ""  # of its fields in an experiment: "network."

    def __post_init__(self) -> None:
        kind: Any = type(self)
        given = {}
        for one in fields(kind):
            value = getattr(self, one.name)
            if type(value) is rooms(kind).get(one.name) or value is one.default:  # these have been checked
                continue
            usual = None if one.default_factory is MISSING else one.default_factory()
            if usual is None or not (value is usual or value == usual == {}):
                given[one.name] = _converted(self.place + one.name, value)
        for name, value in _validated(kind, given).items():
            object.__setattr__(self, name, value)
        self.check()

    def check(self) -> None:
        """Raises FedwaveError for fields that do not fit each other."""


def as_part(field: str, value: Any, where: str) -> Any:
    """A value of a field: a Part if the field is one. Lists of parts stay as they are."""
    if value is None or field in PART_LISTS or field not in PARTS:
        return value
    return Part.of(PARTS[field], value, where)


@cache
def hints(kind: Any) -> dict[str, Any]:
    """The types of the fields of a configuration, with their rules."""
    found = get_type_hints(kind, include_extras=True)
    return {one.name: found[one.name] for one in fields(kind)}


@cache
def rooms(kind: Any) -> dict[str, Any]:
    """The fields that are configurations themselves, and their classes."""
    found = {name: [one for one in _options(hint) if is_dataclass(one)] for name, hint in hints(kind).items()}
    return {name: classes[0] for name, classes in found.items() if classes}


def check_choice(where: str, value: Any, known: Iterable[str]) -> None:
    """Raises FedwaveError if the value is not one of the known names."""
    known = list(known)
    if value not in known:
        raise FedwaveError(f"{where} is {short_repr(value)}, must be {_choice(known, value)}.")


def _converted(field: str, value: Any) -> Any:
    """A value as its type has it: texts and mappings as parts, lists as tuples."""
    if isinstance(value, np.generic):
        return value.item()
    if field in PART_LISTS and isinstance(value, (list, tuple)):
        return tuple(Part.of(PARTS[field], one, f"{field}[{i}]") for i, one in enumerate(value))
    if field == "sweep" and isinstance(value, Mapping):
        return {axis: tuple(values) if isinstance(values, list) else values for axis, values in value.items()}
    made = as_part(field, value, field)
    return tuple(made) if isinstance(made, list) else made


def _validated(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    if not values:
        return {}
    from pydantic import ValidationError

    try:
        checked = _model(kind).model_validate(values)
        return {name: getattr(checked, name) for name in values}
    except ValidationError as error:
        raise _refusal(kind, error.errors()) from None


@cache
def _model(kind: Any) -> Any:
    """The pydantic model with the fields of a configuration."""
    from pydantic import create_model

    fields_: dict[str, Any] = {name: (hint, None) for name, hint in hints(kind).items()}
    return create_model(kind.__name__, __config__=PYDANTIC, **fields_)  # type: ignore[call-overload]


def _refusal(kind: Any, errors: list[Any]) -> FedwaveError:
    """The first field that pydantic refuses, with its dots, its value and its rule."""
    field = errors[0]["loc"][0]
    # Of the types that a field can have, the one that was meant: its error lies deepest.
    error = max((one for one in errors if one["loc"][0] == field), key=lambda one: len(one["loc"]))
    where, hint = f"{kind.place}{field}", hints(kind)[field]
    for step in error["loc"][1:]:
        for option in _options(hint):  # another step says which option was tried
            if get_origin(option) is tuple and isinstance(step, int):
                where, hint = f"{where}[{step}]", get_args(option)[0]
            elif get_origin(option) is dict:
                where, hint = f"{where}.{step}", get_args(option)[1]
    value, wanted = error["input"], _rule(hint, error["input"])
    if isinstance(value, float) and is_whole(value) and int in map(_bare, _options(hint)):
        wanted += f" without a point or exponent: write {int(value)}"
    return FedwaveError(f"{where} is {short_repr(value)}, must be {wanted}.")


def _rule(hint: Any, value: Any) -> str:
    """What a field can be, in words."""
    if get_origin(hint) is Literal:
        return _choice(get_args(hint), value)
    rule = " or ".join(_one_rule(option) for option in _options(hint) if option is not NoneType)
    return rule.replace("a number", "a finite number") if isinstance(value, float) and not isfinite(value) else rule


def _one_rule(hint: Any) -> str:
    if get_origin(hint) is tuple:
        inside = get_args(hint)[0]
        return f"a list of {_WORDS[_bare(inside)][1]}{_bounds(inside)}"
    return _WORDS.get(_bare(hint), ("a mapping",))[0] + _bounds(hint)


def _bounds(hint: Any) -> str:
    rules = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    limits = [f"{sign} {getattr(rule, key)}" for rule in rules for key, sign in _SIGNS.items() if hasattr(rule, key)]
    return f" {' and '.join(limits)}" if limits else ""


def _bare(hint: Any) -> Any:
    """A type without its rules."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)


def _choice(known: Iterable[str], value: Any) -> str:
    known = list(known)
    text = " or ".join(filter(None, [", ".join(known[:-1]), known[-1]]))
    near = get_close_matches(value, known, n=1, cutoff=0.7) if isinstance(value, str) else []
    return f"{text} (did you mean {near[0]!r}?)" if near else text
