"""The Dataset of a unit as two plain tables (Parquet) that pandas and DuckDB read without fedwave, and back.

Rounds: a row per scheduler, instance and round; a column per metric, and ``accuracy_class_k`` for class k. Devices: a
row per scheduler, instance and device. The description of a metric is the metadata of its column; the metadata of the
table are the run id, the unit and the attributes of the Dataset.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.experiments.config.experiment import MOST_DEVICES
from fedwave.experiments.config.units import Unit
from fedwave.experiments.store.dataset import labels, with_counts
from fedwave.types import Array

if TYPE_CHECKING:
    import xarray as xr

CLASS = "accuracy_class_"
_Columns = dict[str, tuple[Array, dict[str, str]]]  # with the attributes of the metric
_MOST_BYTES = 2**35  # of a table in memory


def tables(unit: Unit, data: xr.Dataset) -> dict[str, bytes]:
    """The tables "rounds" and "devices"."""
    return {f"{last}s": _parquet(unit, data, last, _columns(data, last)) for last in ("round", "device")}


def dataset_from(rounds: bytes, devices: bytes, unit: Unit) -> xr.Dataset:
    """The Dataset that a pair of tables was made from; raises ValueError if they are not those of the unit."""
    import xarray as xr

    coordinates: dict[str, Any] = {"scheduler": list(unit.schedulers), "instance": list(unit.instances)}
    by_round, about, _ = _read(rounds, "round", unit)
    by_device, _, names = _read(devices, "device", unit)
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


def _parquet(unit: Unit, data: xr.Dataset, last: str, columns: _Columns) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    keys = _keys(unit.where, data, last)
    fields = [pa.field(name, array.type) for name, array in keys.items()]
    arrays = list(keys.values())
    for name, (values, about) in columns.items():
        arrays.append(pa.array(values))
        fields.append(pa.field(name, arrays[-1].type, metadata=about))
    about = {"fedwave": json.dumps(data.attrs), "run": unit.run_id, "unit": unit.name}
    schema, file = pa.schema(fields, metadata=about), BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), file, compression="zstd")
    return file.getvalue()


def _keys(where: Mapping[str, Any], data: xr.Dataset, last: str) -> dict[str, Any]:
    """The columns that say what a row is of."""
    import pyarrow as pa

    schedulers, instances, places = labels(data), data["instance"].values.tolist(), pa.array(data[last].values)
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


def _read(content: bytes, last: str, unit: Unit) -> tuple[_Columns, dict[str, Any], list[Any]]:
    """The columns as ``[scheduler, instance, last]``, the attributes, and the labels along the last axis."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(content))
    about = file.schema_arrow.metadata or {}
    if (about.get(b"run"), about.get(b"unit")) != (unit.run_id.encode(), unit.name.encode()):
        raise ValueError("it is of another run or another unit")
    runs, rows = len(unit.schedulers) * len(unit.instances), file.metadata.num_rows
    size = unit.experiment.rounds if last == "round" else rows // runs
    # Looked at before it is read: a kilobyte can stand for 2^31 equal rows.
    if rows != runs * size or not 1 <= size <= MOST_DEVICES or rows * len(file.schema_arrow) * 8 > _MOST_BYTES:
        raise ValueError(f"it has {rows} rows, which are not those of its unit")
    table = file.read()
    names = table[last][:size].to_pylist()
    columns: _Columns = {}
    for field in list(table.schema)[len(unit.where) + 3 :]:  # behind the axes, scheduler, instance and the last one
        described = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
        described = {k: v for k, v in described.items() if not k.startswith("PARQUET:")}
        values = table[field.name].to_numpy().reshape(len(unit.schedulers), len(unit.instances), size)
        columns[field.name] = (values, described)
    return columns, json.loads(about[b"fedwave"]), names
