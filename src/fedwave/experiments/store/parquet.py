"""The Dataset of a unit as two plain tables (Parquet) that pandas and DuckDB read without fedwave, and back.

Rounds: a row per scheduler, instance and round; a column per metric, and ``accuracy_class_k`` for class k. Devices: a
row per scheduler, instance and device. The description of a metric is the metadata of its column; the metadata of the
table are the run id, the unit and the attributes of the Dataset.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.experiments.config.units import Unit
from fedwave.experiments.store.dataset import scheduler_labels, with_counts
from fedwave.types import Array

if TYPE_CHECKING:
    import xarray as xr

CLASS = "accuracy_class_"
_RUN = ("scheduler", "instance")


def tables(unit: Unit, data: xr.Dataset) -> dict[str, bytes]:
    """The tables "rounds" and "devices"."""
    return {f"{last}s": _parquet(unit, data, last) for last in ("round", "device")}


def dataset_from(rounds: bytes, devices: bytes, unit: Unit) -> xr.Dataset:
    """The Dataset that a pair of tables was made from; raises ValueError if they are from another unit."""
    import xarray as xr

    found, about, _ = _read(rounds, "round", unit)
    by_device, _, names = _read(devices, "device", unit)
    classes = [found.pop(name) for name in list(found) if name.startswith(CLASS)]
    if classes:
        _, _, described = classes[0]
        found["class_accuracy"] = ((*_RUN, "round", "class"), np.stack([one[1] for one in classes], -1), described)
    coordinates: dict[str, Any] = {"scheduler": list(unit.schedulers), "instance": list(unit.instances)}
    if by_device:
        coordinates["device"] = names
    return with_counts(xr.Dataset(found | by_device, coords=coordinates, attrs=about))


def _parquet(unit: Unit, data: xr.Dataset, last: str) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, tuple[Array, dict[str, str]]] = {}
    for name, variable in data.data_vars.items():
        array, about = variable.values, dict(variable.attrs)
        if variable.dims[-1] == last:
            columns[str(name)] = (array.ravel(), about)
        elif variable.dims[-1] == "class" and last == "round":
            columns |= {f"{CLASS}{k}": (array[..., k].ravel(), about) for k in range(array.shape[-1])}
    axes: dict[str, Any] = {
        "scheduler": scheduler_labels(data),
        "instance": data["instance"].values,
        last: data[last].values,
    }
    places = np.indices([len(values) for values in axes.values()]).reshape(len(axes), -1)
    # An axis of a sweep may run over lists or nothing at all (None): its text stands for it.
    where = {k: v if isinstance(v, (bool, int, float, str)) else str(v) for k, v in unit.where.items()}
    arrays = {axis: pa.repeat(pa.scalar(value), places.shape[1]) for axis, value in where.items()}
    arrays |= {axis: pa.array(axes[axis]).take(pa.array(place)) for axis, place in zip(axes, places, strict=True)}
    arrays |= {name: pa.array(values) for name, (values, _) in columns.items()}
    described = {name: about for name, (_, about) in columns.items()}
    fields = [pa.field(name, array.type, metadata=described.get(name)) for name, array in arrays.items()]
    metadata = {"fedwave": json.dumps(data.attrs), "run": unit.run_id, "unit": unit.name}
    table = pa.Table.from_arrays([*arrays.values()], schema=pa.schema(fields, metadata=metadata))
    file = pa.BufferOutputStream()
    pq.write_table(table, file, compression="zstd")
    content: bytes = file.getvalue().to_pybytes()
    return content


def _read(content: bytes, last: str, unit: Unit) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """The variables ``[scheduler, instance, last]``, the attributes, and the labels along the last axis."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Without threads: one that drops the last reference to the content while Python shuts down aborts the process.
    table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    metadata = table.schema.metadata or {}
    if (metadata.get(b"run"), metadata.get(b"unit")) != (unit.run_id.encode(), unit.name.encode()):
        raise ValueError("it is from another run or another unit")
    runs = len(unit.schedulers) * len(unit.instances)
    size = unit.experiment.rounds if last == "round" else table.num_rows // runs
    if table.num_rows != runs * size:
        raise ValueError(f"it has {table.num_rows} rows, but its unit has {runs * size}")
    variables = {}
    for field in list(table.schema)[len(unit.where) + 3 :]:  # behind the axes, scheduler, instance and the last one
        described = {key.decode(): text.decode() for key, text in (field.metadata or {}).items()}
        described = {key: text for key, text in described.items() if not key.startswith("PARQUET:")}
        values = table[field.name].to_numpy().reshape(len(unit.schedulers), len(unit.instances), size)
        variables[field.name] = ((*_RUN, last), values, described)
    return variables, json.loads(metadata[b"fedwave"]), table[last][:size].to_pylist()
