"""From nested mappings, as YAML and JSON give them, to an Experiment; a refusal names the field.

pydantic checks the types. A machine without it (a bare one with a GPU, say) uses the plain checks of config_types.py.
Rules on values are in the classes themselves and hold either way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.build import labels_of
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.rules import shown
from fedwave.experiments.config.types import checked_experiment

_MOST_VALUES = 1_000_000
_DEEPEST = 10


def build_experiment(content: Mapping[str, Any]) -> Experiment:
    """The experiment that a mapping describes, or one sentence about the field that is wrong."""
    mapping = plain_copy(content)
    if isinstance(mapping.get("schedulers"), list):
        mapping["schedulers"] = list(labels_of(mapping["schedulers"]))
    adapter = experiment_adapter()
    if adapter is None:
        return checked_experiment(mapping)
    from pydantic import ValidationError

    try:
        # As JSON, since only there a strict check takes a list for a tuple and a mapping for a class.
        made: Experiment = adapter.validate_json(json.dumps(mapping))
    except ValidationError as error:
        checked_experiment(mapping)  # words the refusal
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise FedwaveError(f"{where} is {shown(first['input'])}: {first['msg']}.") from None
    return made


def experiment_adapter() -> Any:
    """pydantic's view of an Experiment; None where pydantic is not installed."""
    try:
        import pydantic  # noqa: F401
    except ImportError:
        return None
    return _adapter()


@cache
def _adapter() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Experiment)


def plain_copy(content: Any) -> dict[str, Any]:
    """A copy that holds nothing but what JSON can, and not too much of it."""
    if not isinstance(content, Mapping):
        raise FedwaveError(
            f"an experiment is {shown(content)}, must be a mapping of fields, such as `rounds: 100`."
        )
    copy: dict[str, Any] = _Copy().of(content, "", 0)
    return copy


class _Copy:
    def __init__(self) -> None:
        self._values = 0

    def of(self, value: Any, where: str, depth: int) -> Any:
        self._values += 1
        if (
            depth > _DEEPEST or self._values > _MOST_VALUES
        ):  # a few YAML aliases can stand for billions
            raise FedwaveError(
                f"{shown(where)} is nested too deeply or too large: write it more plainly."
            )
        if isinstance(value, Mapping):
            return {
                key: self.of(item, _field(where, key), depth + 1) for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.of(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
        _check_leaf(value, where)
        return value


def _field(where: str, key: Any) -> str:
    if not isinstance(key, str):
        raise FedwaveError(f"{where or 'the experiment'} has the key {shown(key)}, must be text.")
    _check_leaf(key, where or "the experiment")
    return f"{where}.{key}" if where else key


def _check_leaf(value: Any, where: str) -> None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise FedwaveError(f"{where} is a number of too many digits: give a smaller one.")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise FedwaveError(f"{where} holds {shown(value)}, which is not valid text.") from None
    elif value is not None and not isinstance(value, (bool, int, float)):
        raise FedwaveError(
            f"{where} is {shown(value)}, must be a number or text: put text in quotes."
        )
