"""An experiment as a run folder describes it, read without the user's parts.

Its results can be read where these parts are not installed, and reading them executes no code. The experiment was
checked when it was run; it is not checked again, so it must not be built or run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.validation import plain_copy
from fedwave.experiments.config.yaml_text import read_yaml

C = TypeVar("C")


def stored_experiment(path: Path) -> Experiment:
    """The experiment in a config.yaml that fedwave wrote."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise FedwaveError(f"{path} cannot be read: {reason}.") from None
    return unchecked(plain_copy(read_yaml(text, str(path))))


def unchecked(content: Mapping[str, Any]) -> Experiment:
    """The experiment with these fields; a field that is not there has its default."""
    return _made(Experiment, content)


def _made(kind: type[C], content: Mapping[str, Any]) -> C:
    """A frozen dataclass without its checks; fields that are dataclasses are made in the same way."""
    hints, made = get_type_hints(kind), object.__new__(kind)
    for field in fields(kind):  # type: ignore[arg-type]
        inner = [h for h in (hints[field.name], *get_args(hints[field.name])) if is_dataclass(h)]
        if field.name not in content:
            factory: Any = field.default_factory
            value = field.default if factory is MISSING else factory()
        elif inner and isinstance(content[field.name], Mapping):
            value = _made(inner[0], content[field.name])  # type: ignore[arg-type]
        else:
            value = _tuples(content[field.name])
        object.__setattr__(made, field.name, value)
    return made


def _tuples(value: Any) -> Any:
    """YAML has lists where an experiment has tuples."""
    if isinstance(value, Mapping):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
