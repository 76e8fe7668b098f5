"""The Dataset of a unit as two plain tables (Parquet) that pandas and DuckDB read without fedwave, and back.

Rounds: a row per scheduler, instance and round; a column per metric, and ``accuracy_class_k`` for class k. Devices: a
row per scheduler, instance and device. The description of a metric is the metadata of its column, the attributes of the
Dataset are in the metadata of the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.experiments.results.container import labels, with_counts
from fedwave.types import Array

if TYPE_CHECKING:
    import xarray as xr

_CLASS = "accuracy_class_"
_Columns = dict[str, tuple[Array, dict[str, str]]]  # with the attributes of the metric


def tables(where: Mapping[str, Any], data: xr.Dataset) -> dict[str, bytes]:
    """The tables "rounds" and "devices"; ``where`` says the place on every axis of the sweep, a column each."""
    return {
        "rounds": _parquet(where, data, "round", _columns(data, "round")),
        "devices": _parquet(where, data, "device", _columns(data, "device")),
    }


def dataset_from(rounds: bytes, devices: bytes) -> xr.Dataset:
    """The Dataset that a pair of tables was made from."""
    import xarray as xr

    coordinates, by_round, about = _read(rounds, "round")
    of_devices, by_device, _ = _read(devices, "device")
    if by_device:
        coordinates["device"] = of_devices["device"]
    before = ("scheduler", "instance")
    classes = [name for name in by_round if re.fullmatch(rf"{_CLASS}\d+", name)]
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
            found |= {f"{_CLASS}{k}": (array[..., k].ravel(), about) for k in range(array.shape[-1])}  # fmt: skip
    return found


def _parquet(where: Mapping[str, Any], data: xr.Dataset, last: str, columns: _Columns) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schedulers, instances, size = labels(data), data["instance"].values, data.sizes[last]
    rows = len(instances) * size
    keys = {axis: _repeated(value, rows * len(schedulers)) for axis, value in where.items()}
    keys["scheduler"] = pa.concat_arrays([_repeated(label, rows) for label in schedulers])
    keys["instance"] = pa.array(np.tile(np.repeat(instances, size), len(schedulers)))
    keys[last] = pa.array(np.tile(data[last].values, len(instances) * len(schedulers)))
    fields = [pa.field(name, array.type) for name, array in keys.items()]
    arrays = list(keys.values())
    for name, (values, about) in columns.items():
        arrays.append(pa.array(values))
        fields.append(pa.field(name, arrays[-1].type, metadata=about))
    file, about = BytesIO(), {"fedwave": json.dumps(data.attrs)}
    schema = pa.schema(fields, metadata=about)
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), file, compression="zstd")
    return file.getvalue()


def _repeated(value: Any, size: int) -> Any:
    import pyarrow as pa

    # An axis may run over lists or nothing at all (None): its text stands for it.
    plain = isinstance(value, (bool, int, float, str))
    return pa.repeat(pa.scalar(value if plain else str(value)), size)


def _read(content: bytes, last: str) -> tuple[dict[str, list[Any]], _Columns, dict[str, Any]]:
    """The labels of the axes, the columns as ``[scheduler, instance, last]``, and the attributes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(content))
    keys = ("scheduler", "instance")
    found = {name: list(dict.fromkeys(table[name].to_pylist())) for name in keys}
    shape = (*(len(values) for values in found.values()), -1)
    if last == "device":
        size = table.num_rows // max(1, len(found["scheduler"]) * len(found["instance"]))
        found[last] = table[last][:size].to_pylist()
    columns: _Columns = {}
    for field in list(table.schema)[table.column_names.index(last) + 1 :]:
        about = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
        about = {k: v for k, v in about.items() if not k.startswith("PARQUET:")}
        columns[field.name] = (table[field.name].to_numpy().reshape(shape), about)
    made_with: dict[str, Any] = json.loads((table.schema.metadata or {}).get(b"fedwave", b"{}"))
    return found, columns, made_with
