"""Are the tables of a unit those that it should have brought?

The sums of a run folder tell damage, but whoever edits a table can write its sum anew. So a table is compared with the
plan: a row for every scheduler, instance and round (or device) of the unit, in order, and a column of numbers for every
metric. Its size is looked at before it is read: a kilobyte can stand for 2^31 equal rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedwave.errors import short_repr
from fedwave.experiments.config.experiment import MOST_DEVICES, NetworkConfig
from fedwave.metrics import OVER_ROUNDS, describe
from fedwave.parts import registry
from fedwave.plain_text import brief

CLASS = "accuracy_class_"
_OF_TRAINING = ("loss", "accuracy", "accuracy_on_all", "worst_class")
_MOST_BYTES = 2**35  # of a table in memory
_ABOUT = {"long_name": None, "over_rounds": OVER_ROUNDS, "better": ("higher", "lower")}
_MADE_WITH = {
    "slots": str,
    "gamma": (int, float),
    "seed": str,
    "own_draws": str,
    "chance": str,
    "test_images": int,
    "loss_images": int,
}


class WrongTable(Exception):
    """A table is not the one of its unit; ``table`` is "rounds" or "devices"."""

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(brief(reason))
        self.table = table


@dataclass(frozen=True)
class Wanted:
    """What the plan says about the tables of a unit."""

    where: Mapping[str, Any]
    schedulers: Sequence[str]
    instances: Sequence[int]
    rounds: int
    network: NetworkConfig
    metrics: Sequence[str] = ()  # beside the built-in ones
    trained: bool = False


def open_table(content: bytes, last: str, wanted: Wanted) -> tuple[Any, int]:
    """The file, not yet read, and how many rows it has per scheduler and instance."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(content))
    rows, runs = file.metadata.num_rows, len(wanted.schedulers) * len(wanted.instances)
    size, rest = divmod(rows, runs)
    known = wanted.rounds if last == "round" else _devices(wanted.network)
    if rest or not 1 <= size <= MOST_DEVICES or size != (known or size):
        wish = f"{known or 'as many'} for each of {runs} runs"
        raise WrongTable(f"{last}s", f"it has {rows} rows, must have {wish}")
    columns = file.schema_arrow.names
    if rows * len(columns) * 8 > _MOST_BYTES:
        raise WrongTable(f"{last}s", f"{rows} rows of {len(columns)} columns would not fit into memory")
    if len(set(columns)) < len(columns):
        raise WrongTable(f"{last}s", "a column occurs twice")
    return file, size


def check_table(table: Any, last: str, keys: Mapping[str, Any], labels: Sequence[Any], wanted: Wanted) -> None:
    """Refuse other rows than the unit's, and columns that are no metrics or no numbers."""
    import pyarrow.types as kinds

    kind = f"{last}s"
    if table.column_names[: len(keys)] != list(keys):
        raise WrongTable(kind, f"its first columns are not {', '.join(keys)}")
    named = all(isinstance(one, str) and one.isprintable() for one in labels)
    if len(set(labels)) < len(labels) or not (named or list(labels) == list(range(1, len(labels) + 1))):
        raise WrongTable(kind, f"its {last}s have no names, or one twice")
    for name, rows in keys.items():
        found = table[name]
        if found.type != rows.type or not found.combine_chunks().equals(rows):
            raise WrongTable(kind, f"its column {name!r} is not that of its unit")
    values = table.column_names[len(keys) :]
    for name in values:
        column = table[name]
        number = any(is_(column.type) for is_ in (kinds.is_integer, kinds.is_floating, kinds.is_boolean))
        if not number or column.null_count:
            raise WrongTable(kind, f"its column {name!r} holds {column.type}, must be all numbers")
        _check_name(name, last, wanted)
    for name in _needed(last, wanted.trained):
        if name not in values:
            raise WrongTable(kind, f"it has no column {name!r}")


def _needed(last: str, trained: bool) -> list[str]:
    if last == "device":
        return ["device_uploads", "device_shards", "device_share"]
    return ["score", "backlog", *(["loss", "accuracy"] if trained else [])]


def _check_name(name: str, last: str, wanted: Wanted) -> None:
    """Refuse a column that is no metric of the experiment, or belongs to the other table."""
    by_class, by_round = name.startswith(CLASS), last == "round"
    if name in registry.built_in("metric"):
        fine = describe(name).per_device != by_round
    elif name in _OF_TRAINING or by_class:
        fine = wanted.trained and by_round
    else:
        fine = name in wanted.metrics or (name == "device_share" and not by_round)
    if not fine:
        raise WrongTable(f"{last}s", f"it has a column {short_repr(name)}, which is no metric of it")


def check_metrics(by_round: Sequence[str], by_device: Sequence[str], wanted: Wanted) -> None:
    """Refuse tables that lack a metric that was asked for, or a class between others."""
    for name in wanted.metrics:
        if name not in by_round and name not in by_device:
            raise WrongTable("rounds", f"it has no column {name!r}")
    classes = [name for name in by_round if name.startswith(CLASS)]
    if classes != [f"{CLASS}{k}" for k in range(len(classes))]:
        raise WrongTable("rounds", f"its columns {CLASS}... are not numbered from 0")


def check_attributes(made_with: Any, metrics: Sequence[Mapping[str, str]]) -> None:
    """Refuse descriptions of metrics and of the run that tables and figures could not use."""
    for about in metrics:
        for name, value in about.items():
            if name not in _ABOUT or (_ABOUT[name] and value not in _ABOUT[name]):  # type: ignore[operator]
                raise ValueError(f"a metric is described by {name} {short_repr(value)}")
    if not isinstance(made_with, dict):
        raise ValueError("what it was made with is missing")
    for name, value in made_with.items():
        if name not in _MADE_WITH or type(value) is bool or not isinstance(value, _MADE_WITH[name]):  # type: ignore[arg-type]
            raise ValueError(f"it was made with {name} {short_repr(value)}")
    drawing = json.loads(made_with.get("own_draws", "[]"))
    if not isinstance(drawing, list) or not all(isinstance(one, str) for one in drawing):
        raise ValueError("own_draws is no list of schedulers")


def _devices(network: NetworkConfig) -> int | None:
    """How many devices there are, if that is not in a file."""
    return {"paper": 25, "random": network.devices or 100}.get(network.kind)
