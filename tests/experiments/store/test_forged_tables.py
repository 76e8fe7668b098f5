"""Parquet of a stranger, with valid sums: a table that is not its unit's is named and refused, and made again."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import mentions, refused

import fedwave as fw
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store import folder as folder_module
from fedwave.experiments.store.dataset import Results
from fedwave.experiments.store.verify import sound, verify

EXPERIMENT = experiment_from(
    {
        "network": {"kind": "random", "devices": 4, "slots": 2},
        "schedulers": ["alsa-pi", "age"],
        "rounds": 5,
        "instances": 2,
        "sweep": {"network.gamma": [0.01, 0.1]},
    }
)


def column(table: Any, name: str, values: Any) -> Any:
    return table.set_column(table.column_names.index(name), name, values)


def constant(table: Any, name: str, value: Any, kind: Any = None) -> Any:
    return column(table, name, pa.array([value] * len(table), kind))


def named(table: Any, **names: str) -> Any:
    return table.rename_columns([names.get(name, name) for name in table.column_names])


def described(table: Any, name: str, **about: str) -> Any:
    at = table.column_names.index(name)
    field = table.schema.field(at).with_metadata(about)
    return table.set_column(at, field, table[name])


def made_with(table: Any, content: Any) -> Any:
    return table.replace_schema_metadata({"fedwave": json.dumps(content)})


def bomb(table: Any) -> Any:
    """Very many rows in a small file."""
    return pa.table({name: pa.repeat(table[name][0], 3_000_000) for name in table.column_names})


Change = Callable[[Any], Any]
OF_BOTH: dict[str, Change] = {
    "a key is missing": lambda t: t.drop_columns(["instance"]),
    "no rows": lambda t: t.slice(0, 0),
    "a row is missing": lambda t: t.slice(1),
    "a row twice": lambda t: pa.concat_tables([t.slice(0, 1), t.slice(0, len(t) - 1)]),
    "rows in another order": lambda t: t.take(list(reversed(range(len(t))))),
    "all rows twice": lambda t: pa.concat_tables([t, t]),
    "very many rows": bomb,
    "another scheduler": lambda t: constant(t, "scheduler", "random"),
    "scheduler as numbers": lambda t: constant(t, "scheduler", 1),
    "scheduler as a dictionary": lambda t: column(t, "scheduler", t["scheduler"].dictionary_encode()),
    "another instance": lambda t: constant(t, "instance", 7),
    "instance as NaN": lambda t: constant(t, "instance", float("nan")),
    "instance as null": lambda t: constant(t, "instance", None, pa.int64()),
    "instance as a time": lambda t: constant(t, "instance", 0, pa.timestamp("s", tz="Asia/Tokyo")),
    "instance nested": lambda t: constant(t, "instance", [0]),
    "another place in the sweep": lambda t: constant(t, "network.gamma", 5.0),
    "a column that is no metric": lambda t: t.append_column("wheels", pa.array([1.0] * len(t))),
    "a column twice": lambda t: t.append_column("scheduler", t["scheduler"]),
}
OF_ROUNDS: dict[str, Change] = {
    "no score": lambda t: t.drop_columns(["score"]),
    "score as text": lambda t: constant(t, "score", "much"),
    "score nested": lambda t: constant(t, "score", [[1.0]]),
    "score as null": lambda t: constant(t, "score", None, pa.float64()),
    "score as decimals": lambda t: column(t, "score", t["score"].cast(pa.decimal128(38, 12), safe=False)),
    "score by another name": lambda t: named(t, score="device_uploads"),
    "another round": lambda t: constant(t, "round", 1),
    "classes without a task": lambda t: named(t, jain="accuracy_class_0"),
    "an axis as a metric": lambda t: named(t, jain="device"),
    "over_rounds is a method": lambda t: described(t, "score", over_rounds="tofile"),
    "text that is no text": lambda t: described(t, "score", long_name=b"\xff\xfe"),  # type: ignore[arg-type]
    "made with a list": lambda t: made_with(t, [1]),
    "made with nothing known": lambda t: made_with(t, {"gamma": "x", "seed": 5}),
    "own draws are no list": lambda t: made_with(t, {"own_draws": "5"}),
}
OF_DEVICES: dict[str, Change] = {
    "no shares": lambda t: t.drop_columns(["device_share"]),
    "a device twice": lambda t: constant(t, "device", 1),
    "device as null": lambda t: constant(t, "device", None, pa.int64()),
    "names without text": lambda t: constant(t, "device", ""),
    "devices from 0": lambda t: column(t, "device", pa.array(np.arange(len(t)) % 4)),
}
CASES = [
    *((kind, name, change) for kind in ("rounds", "devices") for name, change in OF_BOTH.items()),
    *(("rounds", name, change) for name, change in OF_ROUNDS.items()),
    *(("devices", name, change) for name, change in OF_DEVICES.items()),
]


@pytest.fixture(scope="module")
def wanted() -> Results:
    """What the run gives where nobody forges anything."""
    return run_experiment(EXPERIMENT, None, workers=1)


@pytest.mark.parametrize(
    ("kind", "change"),
    [(kind, change) for kind, _, change in CASES],
    ids=[f"{kind}: {name}" for kind, name, _ in CASES],
)
def test_a_forged_table_is_named_and_made_again(
    kind: str, change: Change, wanted: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables are forged before they are stored, so that all sums are those of the forged ones."""
    honest = folder_module.tables
    left = [0]  # the tables of the first unit are forged

    def forged(where: Any, data: Any) -> dict[str, bytes]:
        made, left[0] = honest(where, data), left[0] + 1
        if left[0] == 1:
            file = BytesIO()
            pq.write_table(change(pq.read_table(BytesIO(made[kind]))), file, compression="zstd")
            made[kind] = file.getvalue()
        return made

    place = tmp_path / "run"
    monkeypatch.setattr(folder_module, "tables", forged)
    with refused(f"{kind}/", ".parquet"):
        run_experiment(EXPERIMENT, place, workers=1)
    with refused(f"{kind}/", ".parquet"):
        fw.load(place)
    found = verify(place)
    assert not sound(found)
    assert any(mentions(one.text, "table", "unit") for one in found)

    events: list[Any] = []
    again = run_experiment(EXPERIMENT, place, workers=1, watch=events.append)
    assert [e["event"] for e in events].count("damaged") == 1
    for one, other in zip(again.points, wanted.points, strict=True):
        assert one.data.identical(other.data)
    fw.load(place)
