"""Infinite values of a sweep survive every file of a run folder, and NaN is refused before the run."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from small_run import cut

import fedwave as fw
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.store.verify import sound, verify

SWEPT: dict[str, list[float]] = {
    "network.set.buffer_limit": [2, math.inf],
    "network.set.interference_dbm": [-math.inf, -90],
}
SMALL: dict[str, Any] = {
    "network": {"kind": "random", "devices": 4, "slots": 1},
    "schedulers": ["age", "random"],
    "rounds": 8,
    "instances": 2,
    "sweep": SWEPT,
}


@pytest.fixture
def taker() -> None:
    @fw.register
    @dataclass(frozen=True)
    class Taker(fw.Scheduler):
        name = "taker"
        taken: Any = 1

        def priority(self, state: Any, seen: Any, draws: Any) -> Any:
            return 1.0 * seen.delay


@pytest.fixture(autouse=True)
def _quick(no_figures: None) -> None: ...


def direct(point: dict[str, float]) -> np.ndarray:
    """The backlogs at a point, simulated without any file."""
    changes = {axis.removeprefix("network.set."): value for axis, value in point.items()}
    network = fw.random_network(4, slots=1, **changes)
    traces = (fw.simulate(network, label, 8, 2) for label in SMALL["schedulers"])
    return np.stack([trace.series["backlog"].T for trace in traces])


def check_data(data: xr.Dataset) -> None:
    for axis, values in SWEPT.items():
        assert data[axis].values.tolist() == values
    for limit in SWEPT["network.set.buffer_limit"]:
        for noise in SWEPT["network.set.interference_dbm"]:
            point = dict(zip(SWEPT, (limit, noise), strict=True))
            assert np.array_equal(data["backlog"].sel(point).values, direct(point))
    assert len(np.unique(data["backlog"].values)) > 8  # the points differ


def test_a_sweep_over_infinite_values_is_run_read_resumed_and_merged(tmp_path: Path) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    check_data(fw.run(SMALL, first, workers=1))
    check_data(fw.load(first))
    assert sound(verify(first))
    check_data(fw.run(first / "config.yaml", first, workers=1))  # goes on: it is the same experiment
    cut(first / "done.jsonl")
    check_data(fw.run(SMALL, first, workers=1))
    fw.run({**SMALL, "first_instance": 2}, again, workers=1)
    merged = fw.merge([first, again], tmp_path / "merged")
    assert merged.sizes["instance"] == 4
    check_data(fw.load(tmp_path / "merged").isel(instance=slice(2)))


def test_tables_for_others_name_infinite_values(tmp_path: Path) -> None:
    fw.run(SMALL, tmp_path / "a", workers=1)
    said = json.loads((tmp_path / "a/summary.json").read_text(), parse_constant=pytest.fail)
    places = [point["where"] for point in said["points"]]
    assert [[float(place[axis]) for axis in SWEPT] for place in places] == [
        [2, -math.inf],
        [2, -90],
        [math.inf, -math.inf],
        [math.inf, -90],
    ]
    assert experiment_from(said["experiment"]).sweep == experiment_from(SMALL).sweep
    with (tmp_path / "a/summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {float(row["network.set.buffer_limit"]) for row in rows} == {2, math.inf}
    with xr.open_dataset(tmp_path / "a/results.nc", engine="scipy") as found:
        assert found["network.set.buffer_limit"].values.tolist() == [2, math.inf]
        assert found["network.set.interference_dbm"].values.tolist() == [-math.inf, -90]


@pytest.mark.parametrize(
    "change",
    [
        {"sweep": {"network.set.buffer_limit": [5, math.nan]}},
        {"schedulers": [{"name": "taker", "taken": [1.0, {"x": math.nan}]}]},
        {"sweep": {"network.fading": ["rayleigh", "rician:k_factor=nan"]}},
    ],
    ids=str,
)
def test_nan_is_refused_before_the_run(change: dict[str, Any], taker: None, tmp_path: Path) -> None:
    with pytest.raises(fw.FedwaveError, match="nan"):
        fw.run(change, tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists()


def test_infinite_parameters_of_own_parts_are_kept(taker: None, tmp_path: Path) -> None:
    several = {"name": "taker", "taken": [1, -math.inf]}
    asked = {**SMALL, "sweep": {}, "schedulers": [several, "taker:taken=inf"]}
    made = fw.run(asked, tmp_path / "out", workers=1)
    assert fw.run(asked, tmp_path / "out", workers=1).identical(made)
    assert fw.load(tmp_path / "out").identical(made)
