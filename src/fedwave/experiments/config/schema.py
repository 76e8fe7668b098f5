"""An experiment from plain values, the names of its fields, and its JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from fedwave.errors import FedwaveError, did_you_mean, short_repr
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.fields import hints, rooms
from fedwave.experiments.config.parts import PART_LISTS, PARTS
from fedwave.metrics import metric_names
from fedwave.parts import registry


def typed(content: Mapping[str, Any]) -> Experiment:
    """The experiment that a mapping of plain values describes, or one sentence about the field that is wrong."""
    made: Experiment = _typed(Experiment, content)
    return made


def _typed(kind: Any, content: Mapping[str, Any]) -> Any:
    for name in content:
        if name not in hints(kind):
            raise no_field(kind.place + name)
    inside = {
        name: _typed(room, content[name])
        for name, room in rooms(kind).items()
        if isinstance(content.get(name), Mapping)
    }
    return kind(**{**content, **inside})


@cache
def field_names() -> tuple[str, ...]:
    """Every field of an experiment, with its dots."""
    inside = rooms(Experiment)
    return tuple(
        dotted
        for name in hints(Experiment)
        for dotted in (name, *(f"{name}.{one}" for one in (hints(inside[name]) if name in inside else ())))
    )


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
    from pydantic import TypeAdapter

    schema: dict[str, Any] = TypeAdapter(Experiment).json_schema()
    properties = {"": schema["properties"]}
    properties |= {name: schema["$defs"][room.__name__]["properties"] for name, room in rooms(Experiment).items()}
    properties[""]["metric"]["anyOf"] = [{"enum": list(metric_names(training=True))}, {"type": "string"}]
    for dotted, family in PARTS.items():
        where, _, name = dotted.rpartition(".")
        field = properties[where][name]
        if dotted in PART_LISTS:
            field["items"] = {"anyOf": _part_schema(family)}
        else:
            null = [option for option in field.get("anyOf", ()) if option.get("type") == "null"]
            field["anyOf"] = [*_part_schema(family), *null]
    heading = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "fedwave experiment"}
    return {**heading, **{key: value for key, value in schema.items() if key not in heading}}


def _part_schema(family: str) -> list[dict[str, Any]]:
    """A known name, any other text (parameters after a colon, a name of your own), or a mapping."""
    name: list[dict[str, Any]] = [{"enum": list(registry.names(family))}, {"type": "string"}]
    mapping = {"type": "object", "required": ["name"], "properties": {"name": {"anyOf": name}}}
    return [*name, mapping]
