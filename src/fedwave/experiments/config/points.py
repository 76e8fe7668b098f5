"""Overrides, one field at a time, and the points of a sweep, which are overrides too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import product
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.rules import shown
from fedwave.experiments.config.types import field_names, no_field
from fedwave.experiments.config.validation import build_experiment
from fedwave.experiments.config.yaml_text import read_yaml

Point = dict[str, Any]  # the value of every axis
Build = Callable[[Mapping[str, Any]], Experiment]


def to_mapping(experiment: Experiment) -> dict[str, Any]:
    """Every field as plain nested values, for YAML and JSON."""
    mapping: dict[str, Any] = _lists(asdict(experiment))
    return mapping


def with_override(content: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The mapping with one field changed, as ``network.slots=10`` asks; the value is read as YAML."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise FedwaveError(
            f"override {shown(text)} must read field=value, such as network.slots=10."
        )
    return _with(
        content, key.strip(), read_yaml(value, f"override {shown(key.strip())}: the value")
    )


def points(
    experiment: Experiment, build: Build = build_experiment
) -> list[tuple[Point, Experiment]]:
    """Every point of the sweep: the values of its axes, and the experiment there. One where nothing is swept."""
    for axis in experiment.sweep:
        _check_axis(axis)
    base = to_mapping(experiment) | {"sweep": {}}
    found = []
    for values in product(*experiment.sweep.values()):
        point = dict(zip(experiment.sweep, values, strict=True))
        try:
            found.append((point, _at(base, point, build)))
        except FedwaveError as error:
            raise FedwaveError(f"{_culprits(base, point)}: {error}") from None
    return found


def _at(base: Mapping[str, Any], point: Point, build: Build = build_experiment) -> Experiment:
    content = dict(base)
    for axis, value in point.items():
        content = _with(content, axis, value)
    return build(content)


def _culprits(base: Mapping[str, Any], point: Point) -> str:
    """The axis whose value is refused even alone; else all of them, with their values."""
    for axis, value in point.items():
        try:
            _at(base, {axis: value})
        except FedwaveError:
            return f"sweep.{axis} at {shown(value)}"
    return " and ".join(f"sweep.{axis} at {shown(value)}" for axis, value in point.items())


def _check_axis(axis: str) -> None:
    known = axis in field_names() or axis.startswith("network.set.")
    if not known or axis.partition(".")[0] == "sweep":
        raise FedwaveError(f"sweep.{axis}: {no_field(axis)}")


def _with(content: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy with the field at the dots set. Mappings that are missing or null are made on the way."""
    first, dot, rest = key.partition(".")
    if not first or (dot and not rest):
        raise no_field(key)
    inside = content.get(first)
    if not dot:
        return {**content, first: value}
    if inside is not None and not isinstance(inside, Mapping):
        raise FedwaveError(f"there is no field {shown(key)}; {first} is {shown(inside)}.")
    if first == "sweep":  # an axis has dots of its own
        return {**content, first: {**(inside or {}), rest: value}}
    return {**content, first: _with(inside or {}, rest, value)}


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value
