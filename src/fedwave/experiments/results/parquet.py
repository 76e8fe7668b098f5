"""Outcomes as plain tables (Parquet) that pandas and DuckDB read without fedwave, and back."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np

from fedwave.experiments.results.outcome import Outcome, Outcomes
from fedwave.types import Array

# Columns of the rounds table that come from training; the rest are series of the simulation.
_LOSS, _ACCURACY, _FULL, _CLASS = "loss", "accuracy", "accuracy_on_all", "accuracy_class_"
_KEYS = ("scheduler", "instance", "round")


def rounds_bytes(where: Mapping[str, Any], outcomes: Outcomes) -> bytes:
    """One row per scheduler, instance and round; a column per axis of the sweep first."""
    parts = []
    for label, outcome in outcomes.items():
        rounds, runs = outcome.score.shape
        columns: dict[str, Array] = {
            "instance": np.repeat(outcome.instances, rounds),
            "round": np.tile(np.arange(1, rounds + 1), runs),
        }
        columns |= {name: values.T.ravel() for name, values in outcome.series.items()}
        if outcome.curves is not None:
            curves = outcome.curves
            columns |= {_LOSS: curves.loss.T.ravel(), _ACCURACY: curves.accuracy.T.ravel()}
            columns[_FULL] = curves.accuracy_on_all.T.ravel()
            for c in range(curves.class_accuracy.shape[2]):
                columns[f"{_CLASS}{c}"] = curves.class_accuracy[:, :, c].T.ravel()
        parts.append((label, columns))
    return _parquet(where, parts)


def devices_bytes(where: Mapping[str, Any], outcomes: Outcomes) -> bytes:
    """One row per scheduler, instance and device."""
    parts = []
    for label, outcome in outcomes.items():
        runs, size = outcome.uploads.shape
        columns = {
            "instance": np.repeat(outcome.instances, size),
            "device": np.tile(np.arange(1, size + 1), runs),
            "uploads": outcome.uploads.ravel(),
            "delivered_shards": outcome.learned.ravel(),
        }
        parts.append((label, columns))
    return _parquet(where, parts)


def outcomes_from(rounds: bytes, devices: bytes, settings: Mapping[str, Any]) -> dict[str, Outcome]:
    """The outcomes that a pair of tables was made from; ``settings`` go into the curves."""
    by_round, by_device = _by_scheduler(rounds), _by_scheduler(devices)
    return {
        label: _outcome(label, by_round[label], by_device[label], settings) for label in by_round
    }


def _parquet(where: Mapping[str, Any], parts: list[tuple[str, dict[str, Array]]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    for label, columns in parts:
        size = len(columns["instance"])
        told = {axis: _repeated(value, size) for axis, value in where.items()}
        told["scheduler"] = _repeated(label, size)
        tables.append(pa.table({**told, **{k: pa.array(v) for k, v in columns.items()}}))
    file = BytesIO()
    pq.write_table(pa.concat_tables(tables), file, compression="zstd")
    return file.getvalue()


def _repeated(value: Any, size: int) -> Any:
    import pyarrow as pa

    # An axis may run over lists or nothing at all (None): its text stands for it.
    plain = isinstance(value, (bool, int, float, str))
    return pa.repeat(pa.scalar(value if plain else str(value)), size)


def _by_scheduler(content: bytes) -> dict[str, dict[str, Array]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(content))
    labels = np.asarray(table["scheduler"].to_pylist(), dtype=object)
    columns = {name: table[name].to_numpy() for name in table.column_names if name != "scheduler"}
    return {
        str(label): {name: column[labels == label] for name, column in columns.items()}
        for label in dict.fromkeys(labels.tolist())
    }


def _outcome(
    label: str, rounds: dict[str, Array], devices: dict[str, Array], settings: Mapping[str, Any]
) -> Outcome:
    instances = tuple(int(i) for i in dict.fromkeys(rounds["instance"].tolist()))
    from_training = (_LOSS, _ACCURACY, _FULL)

    def series(name: str) -> Array:
        # Laid out as a trace has it: sums over it then come out the same to the last digit.
        table: Array = np.ascontiguousarray(rounds[name].reshape(len(instances), -1).T)
        return table

    names = list(rounds)[list(rounds).index("round") + 1 :]
    simulated = [n for n in names if n not in from_training and not n.startswith(_CLASS)]
    curves = None
    if _LOSS in rounds:
        from fedwave.learning.curves import Curves

        classes = [series(n) for n in names if n.startswith(_CLASS)]
        curves = Curves(
            label, series(_LOSS), series(_ACCURACY), np.stack(classes, axis=2), settings, series(_FULL)
        )  # fmt: skip
    return Outcome(
        instances,
        {name: series(name) for name in simulated},
        devices["uploads"].reshape(len(instances), -1),
        devices["delivered_shards"].reshape(len(instances), -1),
        curves,
    )
