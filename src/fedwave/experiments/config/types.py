"""The fields of an experiment, and a plain check of their types that needs no library.

It makes the same objects as pydantic (validation.py), and words the refusals of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.rules import choice_of, shown

_WORDS: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"), float: ("a number", "numbers"), str: ("text", "texts"),
    NoneType: ("null", "nulls"), Any: ("anything", "values"),
}  # fmt: skip


def checked_experiment(mapping: Mapping[str, Any]) -> Experiment:
    """The experiment that a mapping of plain values describes."""
    made: Experiment = _object(mapping, Experiment, "")
    return made


@cache
def field_names() -> tuple[str, ...]:
    """Every field of an experiment, with its dots."""
    return tuple(_names(Experiment, ""))


def no_field(dotted: str) -> FedwaveError:
    """The refusal of a field that there is not."""
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
    return FedwaveError(f"there is no field {shown(dotted)}; {hint}")


def _names(kind: Any, where: str) -> list[str]:
    found = []
    for name, hint in _hints(kind).items():
        found.append(where + name)
        for option in (hint, *get_args(hint)):
            if is_dataclass(option):
                found += _names(option, f"{where}{name}.")
    return found


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}


def _object(mapping: Mapping[str, Any], kind: Any, where: str) -> Any:
    hints = _hints(kind)
    for key in mapping:
        if key not in hints:
            raise no_field(where + key)
    return kind(**{key: _typed(value, hints[key], where + key) for key, value in mapping.items()})


def _typed(value: Any, hint: Any, where: str) -> Any:
    """The value as the hint wants it, or a sentence."""
    options = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    for option in options:
        if _fits(value, option):
            return _converted(value, option, where)
    raise FedwaveError(f"{where} is {shown(value)}, must be {_wanted(options, value)}")


def _fits(value: Any, kind: Any) -> bool:
    """Is it of that type, seen from outside?"""
    origin = get_origin(kind)
    if kind is Any:
        return True
    if origin is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if origin is tuple:
        return isinstance(value, list)
    if origin is dict or is_dataclass(kind):
        return isinstance(value, dict)
    if isinstance(value, bool):  # a bool is an int for Python
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _converted(value: Any, kind: Any, where: str) -> Any:
    if is_dataclass(kind):
        return _object(value, kind, f"{where}.")
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        return tuple(_typed(item, inner, f"{where}[{i}]") for i, item in enumerate(value))
    if get_origin(kind) is dict:
        inner = get_args(kind)[1]
        return {key: _typed(item, inner, f"{where}.{key}") for key, item in value.items()}
    return float(value) if kind is float else value


def _wanted(options: tuple[Any, ...], value: Any) -> str:
    """What a field must be: the end of a sentence."""
    if get_origin(options[0]) is Literal:
        return choice_of(get_args(options[0]), value)
    words = []
    for option in options:
        if get_origin(option) is tuple:
            words.append(f"a list of {_WORDS[get_args(option)[0]][1]}")
        else:
            words.append(_WORDS.get(option, ("a mapping",))[0])
    return f"{' or '.join(words)}."
