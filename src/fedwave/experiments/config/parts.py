"""A part in a configuration: a mapping with its name and its parameters, given as such or as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fedwave.errors import FedwaveError, short_repr
from fedwave.parts import registry
from fedwave.plain_text import visible

# The fields of an experiment that are parts, and their families.
PARTS = {
    "network.fading": "fading",
    "network.success": "success",
    "network.arrivals": "arrivals",
    "network.availability": "availability",
    "schedulers": "scheduler",
    "metrics": "metric",
    "task.dataset": "dataset",
    "task.model": "model",
    "task.partition": "partition",
    "task.aggregation": "aggregation",
    "task.loss": "criterion",
    "task.metric": "criterion",
    "task.optimizer": "optimizer",
}
PART_LISTS = ("schedulers", "metrics")
_LABEL = "as"  # a keyword of Python, so no parameter can have this name
_NEED_TORCH = ("dataset", "model", "criterion")  # looked at when a task is built, not when a file is read


class Part(Mapping[str, Any]):
    """A name and parameters, immutable. Its text names it in the results.

    A label, ``as`` in a file, replaces the text. It is not one of the parameters.

    >>> part = Part.of("scheduler", "balsa:prior=gamma:shape=2;rate=1", "schedulers[0]")
    >>> part
    Part('balsa', prior=Part('gamma', shape=2, rate=1))
    >>> print(part)
    balsa:prior=gamma:shape=2;rate=1
    >>> print(Part.of("scheduler", {"name": "balsa", "stage_rule": "max1", "as": "fast"}, "schedulers[0]"))
    fast
    """

    __slots__ = ("_given", "_text", "label")

    def __init__(self, name: str, /, **parameters: Any) -> None:
        self.label: str | None = parameters.pop(_LABEL, None)
        self._given = {"name": name, **parameters}
        self._text = self.label or registry.text(self._given)

    @classmethod
    def of(cls, family: str, given: Any, where: str) -> Part:
        """Makes a part from a text or a mapping. Parts within it become parts too."""
        if isinstance(given, Part):
            return given
        if not isinstance(given, (str, Mapping)):
            raise FedwaveError(f"{where} is {short_repr(given)}, must be a name or a mapping.")
        with refusals_at(where):
            content = registry.parse(family, given)
        for key, value in content.items():
            if isinstance(value, float) and value != value:  # NaN equals nothing, so no run could go on with it
                raise FedwaveError(f"{where}.{key} is {value}, must be a number.")
            if isinstance(value, int) and not -(2**63) <= value < 2**63:  # no file could hold it
                raise FedwaveError(f"{where}.{key} is a number of too many digits: give a smaller one.")
        label = content.get(_LABEL, "-")
        if not (isinstance(label, str) and label.strip() and visible(label) == label):
            raise FedwaveError(f"{where}.{_LABEL} is {short_repr(label)}, must be a text of one line.")
        if len(content) > 1 and family not in _NEED_TORCH:
            for key, its_family in registry.inner_families(family, content["name"]).items():
                if isinstance(content.get(key), (str, Mapping)):
                    content[key] = cls.of(its_family, content[key], f"{where}.{key}")
        return cls(content.pop("name"), **content)

    @property
    def name(self) -> str:
        """The name alone."""
        return str(self._given["name"])

    @property
    def parameters(self) -> dict[str, Any]:
        """All but the name."""
        return {key: value for key, value in self._given.items() if key != "name"}

    @property
    def content(self) -> str | dict[str, Any]:
        """The part as written to a file: its name, or a mapping if it has parameters."""
        label = {} if self.label is None else {_LABEL: self.label}
        return {**{k: plain(v) for k, v in self._given.items()}, **label} if self.parameters or label else self.name

    def __getitem__(self, key: str) -> Any:
        return self._given[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Mapping) and dict(self) == dict(other)
        return same and (not isinstance(other, Part) or self.label == other.label)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        parameters = "".join(f", {key}={value!r}" for key, value in self.parameters.items())
        parameters += "" if self.label is None else f", {_LABEL}={self.label!r}"
        return f"Part({self.name!r}{parameters})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Accepts a Part alone, because Checked has converted texts and mappings; the JSON schema lists these."""
        from pydantic_core import core_schema

        return core_schema.json_or_python_schema(
            core_schema.union_schema([core_schema.str_schema(), core_schema.dict_schema()]),
            core_schema.is_instance_schema(cls),
            serialization=core_schema.plain_serializer_function_ser_schema(str),
        )


def plain(value: Any) -> Any:
    """A value in the types of YAML and JSON: parts become texts or mappings, tuples become lists."""
    if isinstance(value, Part):
        return value.content
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def check_part(family: str, part: Part, where: str) -> Any:
    """The part if it can be built, else raises FedwaveError; of a dataset or a model only the name is looked up."""
    with refusals_at(where):
        registry.check_known(family, part.name)
        return None if family in _NEED_TORCH else registry.build(family, part)


@contextmanager
def refusals_at(where: str) -> Iterator[None]:
    """Prefixes a FedwaveError of the block with ``where``."""
    try:
        yield
    except FedwaveError as error:
        raise FedwaveError(f"{where}: {error}") from None
