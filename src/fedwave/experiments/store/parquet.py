"""The Dataset of a unit as two plain tables (Parquet) that pandas and DuckDB read without fedwave, and back.

Rounds: a row per scheduler, instance and round; a column per metric, and ``accuracy_class_k`` for class k. Devices: a
row per scheduler, instance and device. The description of a metric is the metadata of its column, the attributes of the
Dataset are in the metadata of the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.experiments.store.dataset import labels, with_counts
from fedwave.experiments.store.parquet_check import (
    CLASS,
    Wanted,
    WrongTable,
    check_attributes,
    check_metrics,
    check_table,
    open_table,
)
from fedwave.types import Array

if TYPE_CHECKING:
    import xarray as xr

_Columns = dict[str, tuple[Array, dict[str, str]]]  # with the attributes of the metric


def tables(where: Mapping[str, Any], data: xr.Dataset) -> dict[str, bytes]:
    """The tables "rounds" and "devices"; ``where`` says the place on every axis of the sweep, a column each."""
    return {
        "rounds": _parquet(where, data, "round", _columns(data, "round")),
        "devices": _parquet(where, data, "device", _columns(data, "device")),
    }


def dataset_from(rounds: bytes, devices: bytes, wanted: Wanted) -> xr.Dataset:
    """The Dataset that a pair of tables was made from, which must be those of a unit; else WrongTable."""
    import xarray as xr

    coordinates: dict[str, Any] = {"scheduler": list(wanted.schedulers), "instance": list(wanted.instances)}
    by_round, about, _ = _read(rounds, "round", wanted)
    by_device, _, names = _read(devices, "device", wanted)
    check_metrics(list(by_round), list(by_device), wanted)
    if by_device:
        coordinates["device"] = names
    before = ("scheduler", "instance")
    classes = [name for name in by_round if name.startswith(CLASS)]
    found: dict[str, Any] = {
        name: ((*before, last), *by[name])
        for last, by in (("round", by_round), ("device", by_device))
        for name in by
        if name not in classes
    }
    if classes:
        stacked = np.stack([by_round[name][0] for name in classes], axis=-1)
        found["class_accuracy"] = ((*before, "round", "class"), stacked, by_round[classes[0]][1])
    return with_counts(xr.Dataset(found, coords=coordinates, attrs=about))


def _columns(data: xr.Dataset, last: str) -> _Columns:
    found: _Columns = {}
    for name, variable in data.data_vars.items():
        array, about = variable.values, dict(variable.attrs)
        if variable.dims[-1] == last:
            found[str(name)] = (array.ravel(), about)
        elif variable.dims[-1] == "class" and last == "round":
            found |= {f"{CLASS}{k}": (array[..., k].ravel(), about) for k in range(array.shape[-1])}
    return found


def _parquet(where: Mapping[str, Any], data: xr.Dataset, last: str, columns: _Columns) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    places = pa.array(data[last].values)
    keys = _keys(where, labels(data), data["instance"].values.tolist(), places, last)
    fields = [pa.field(name, array.type) for name, array in keys.items()]
    arrays = list(keys.values())
    for name, (values, about) in columns.items():
        arrays.append(pa.array(values))
        fields.append(pa.field(name, arrays[-1].type, metadata=about))
    file, about = BytesIO(), {"fedwave": json.dumps(data.attrs)}
    schema = pa.schema(fields, metadata=about)
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), file, compression="zstd")
    return file.getvalue()


def _keys(
    where: Mapping[str, Any], schedulers: Sequence[str], instances: Sequence[int], places: Any, last: str
) -> dict[str, Any]:
    """The columns that say what a row is of; ``places`` are the labels along the last axis."""
    import pyarrow as pa

    size = len(places)
    rows = len(instances) * size
    keys = {axis: _repeated(value, rows * len(schedulers)) for axis, value in where.items()}
    keys["scheduler"] = pa.concat_arrays([_repeated(label, rows) for label in schedulers])
    keys["instance"] = pa.array(np.tile(np.repeat(instances, size), len(schedulers)))
    keys[last] = places.take(pa.array(np.tile(np.arange(size), len(instances) * len(schedulers))))
    return keys


def _repeated(value: Any, size: int) -> Any:
    import pyarrow as pa

    # An axis may run over lists or nothing at all (None): its text stands for it.
    plain = isinstance(value, (bool, int, float, str))
    return pa.repeat(pa.scalar(value if plain else str(value)), size)


def _read(content: bytes, last: str, wanted: Wanted) -> tuple[_Columns, dict[str, Any], list[Any]]:
    """The columns as ``[scheduler, instance, last]``, the attributes, and the labels along the last axis."""
    import pyarrow as pa

    try:
        file, size = open_table(content, last, wanted)
        table = file.read()
        labels = table[last][:size].to_pylist() if last == "device" else list(range(1, size + 1))
        keys = _keys(wanted.where, wanted.schedulers, wanted.instances, pa.array(labels), last)
        check_table(table, last, keys, labels, wanted)
        shape = (len(wanted.schedulers), len(wanted.instances), size)
        columns: _Columns = {}
        for field in list(table.schema)[len(keys) :]:
            about = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
            about = {k: v for k, v in about.items() if not k.startswith("PARQUET:")}
            columns[field.name] = (table[field.name].to_numpy().reshape(shape), about)
        made_with = json.loads((table.schema.metadata or {}).get(b"fedwave", b"{}"))
        check_attributes(made_with, [about for _, about in columns.values()])
    except WrongTable:
        raise
    except Exception as error:  # its sum is right, so somebody wrote it so
        raise WrongTable(f"{last}s", str(error)) from None
    return columns, made_with, labels
