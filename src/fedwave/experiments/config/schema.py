"""The fields of an experiment: checked by pydantic, refused in one sentence, described by a JSON schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from math import inf
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from fedwave.errors import FedwaveError, did_you_mean, is_whole, short_repr
from fedwave.experiments.config.experiment import PLACES, PRECISIONS, Experiment, choice_of
from fedwave.experiments.config.parts import PART_LISTS, PARTS, Part
from fedwave.metrics import metric_names
from fedwave.network.devices import Device
from fedwave.parts import registry

_WORDS: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("text", "texts"),
    NoneType: ("null", "nulls"),
    Any: ("anything", "values"),
    Part: ("a name or a mapping", "names or mappings"),
}

# buffer_limit: inf, interference_dbm: -inf.
_INFINITE = {f.name: f.default for f in fields(Device) if f.default in (inf, -inf)}


def typed(content: Mapping[str, Any]) -> Experiment:
    """The experiment that a mapping of plain values describes, or one sentence about the field that is wrong."""
    from pydantic import ValidationError

    content = _with_infinity(content)
    try:
        # pydantic's strict mode accepts a list for a tuple and a mapping for a class only in JSON input.
        made: Experiment = _adapter().validate_json(json.dumps(content))
    except ValidationError as error:
        raise _refusal(error.errors()[0]) from None
    return made


def _with_infinity(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Accept inf, which YAML writes .inf, for the numbers of a network that are infinite unless they are given."""

    def read(name: str, value: Any) -> Any:
        usual = _INFINITE.get(name)
        return usual if isinstance(value, str) and value == str(usual) else value

    network, sweep = content.get("network"), content.get("sweep")
    if isinstance(network, Mapping) and isinstance(network.get("set"), Mapping):
        numbers = {name: read(name, value) for name, value in network["set"].items()}
        content = {**content, "network": {**network, "set": numbers}}
    if isinstance(sweep, Mapping):
        axes = {
            axis: [read(axis.removeprefix("network.set."), v) for v in values]
            if axis.startswith("network.set.") and isinstance(values, (list, tuple))
            else values
            for axis, values in sweep.items()
        }
        content = {**content, "sweep": axes}
    return content


@cache
def field_names() -> tuple[str, ...]:
    """Every field of an experiment, with its dots."""
    return tuple(_names(Experiment, ""))


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


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12), with a description of every field and the names that it can take."""
    schema: dict[str, Any] = _adapter().json_schema()
    own = schema["properties"]
    network, task, training = (
        schema["$defs"][name]["properties"] for name in ("NetworkConfig", "TaskConfig", "TrainingConfig")
    )
    training["device"]["enum"], training["precision"]["enum"] = list(PLACES), list(PRECISIONS)
    own["metric"]["anyOf"] = [{"enum": list(metric_names(training=True))}, {"type": "string"}]
    for dotted, family in PARTS.items():
        where, _, name = dotted.rpartition(".")
        place = {"": own, "network": network, "task": task}[where][name]
        if dotted in PART_LISTS:
            place["items"] = {"anyOf": _part(family)}
        else:
            null = [option for option in place.get("anyOf", ()) if option.get("type") == "null"]
            place["anyOf"] = [*_part(family), *null]
    heading = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "fedwave experiment"}
    return {**heading, **{key: value for key, value in schema.items() if key not in heading}}


@cache
def _adapter() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Experiment)


def _refusal(error: Mapping[str, Any]) -> FedwaveError:
    """What pydantic found, as one sentence that names the field with its dots."""
    where, kind = "", Experiment
    for step in error["loc"]:
        hints = [hint for option in _options(kind) for hint in _inside(option, step)]
        if isinstance(step, int):
            where += f"[{step}]"
        elif hints or error["type"] == "unexpected_keyword_argument":
            where += f".{step}" if where else step
        kind = hints[0] if hints else kind  # else the step says which option of a union was tried
    if error["type"] == "unexpected_keyword_argument":
        return no_field(where)
    if error["type"] == "json_invalid":  # the one thing that json.dumps writes and pydantic does not read
        return FedwaveError("a path is not valid UTF-8: rename the file or folder, or choose another.")
    value, options = error["input"], _options(kind)
    if get_origin(options[0]) is Literal:
        wanted = choice_of(get_args(options[0]), value)
    else:
        wanted = f"{' or '.join(_word(option) for option in options)}."
        if int in options and isinstance(value, float) and is_whole(value):
            wanted = f"{wanted[:-1]} without a point or exponent: write {int(value)}."
    return FedwaveError(f"{where} is {short_repr(value)}, must be {wanted}")


def _inside(kind: Any, step: int | str) -> list[Any]:
    """The type of what lies at a step into a type; none if no step leads there."""
    if is_dataclass(kind):
        return [hint for name, hint in _hints(kind).items() if name == step]  # type: ignore[arg-type]
    if get_origin(kind) is tuple:
        return [get_args(kind)[0]] if isinstance(step, int) else []
    return [get_args(kind)[1]] if get_origin(kind) is dict else []


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) is UnionType else (kind,)


def _word(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"a list of {_WORDS[get_args(kind)[0]][1]}"
    return _WORDS.get(kind, ("a mapping",))[0]


def _names(kind: Any, where: str) -> list[str]:
    found = []
    for name, hint in _hints(kind).items():
        found.append(where + name)
        for option in _options(hint):
            if is_dataclass(option):
                found += _names(option, f"{where}{name}.")
    return found


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}


def _part(family: str) -> list[dict[str, Any]]:
    """A known name, any other text (parameters after a colon, a name of your own), or a mapping."""
    name: list[dict[str, Any]] = [{"enum": list(registry.names(family))}, {"type": "string"}]
    mapping = {"type": "object", "required": ["name"], "properties": {"name": {"anyOf": name}}}
    return [*name, mapping]
