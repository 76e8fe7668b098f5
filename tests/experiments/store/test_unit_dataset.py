"""One Dataset from worker to figure: made from traces, cut, joined, assembled and stored without loss."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from refusals import refused

import fedwave as fw
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.units import Unit
from fedwave.experiments.store.dataset import (
    curves_of,
    join_points,
    join_units,
    long_name,
    metrics_of,
    series,
    unit_dataset,
)
from fedwave.experiments.store.load import write_netcdf
from fedwave.experiments.store.parquet import dataset_from, tables
from fedwave.learning.curves import Curves
from fedwave.metrics import Description

NAMES = ["w-max", "alsa-pi", "age"]
OWN = Description("surprise", "surprise (bits)", "max")


def trace_of(name: str, instances: list[int] | int, rounds: int = 7, devices: int = 4) -> fw.Trace:
    return fw.simulate(fw.random_network(devices, 2), name, rounds, instances, 5)


def curves(name: str, instances: int = 3, rounds: int = 7) -> Curves:
    rng = np.random.default_rng(len(name))
    loss, accuracy, on_all = rng.random((3, rounds, instances))
    loss[4:, 1] = accuracy[4:, 1] = np.nan  # diverged
    return Curves(name, loss, accuracy, rng.random((rounds, instances, 10)), {}, on_all)


@pytest.fixture(scope="module")
def traces() -> dict[str, fw.Trace]:
    return {name: trace_of(name, 3) for name in NAMES}


@pytest.fixture(scope="module")
def data(traces: dict[str, fw.Trace]) -> xr.Dataset:
    """With curves, and a metric of a user's own in whole numbers."""
    own = {
        name: replace(
            trace,
            series={**trace.series, "surprise": np.arange(21, dtype=np.int32).reshape(7, 3)},
            metrics={**trace.metrics, "surprise": OWN},
        )
        for name, trace in traces.items()
    }
    return unit_dataset(own, {name: curves(name) for name in NAMES})


def test_everything_of_the_traces_is_there(data: xr.Dataset, traces: dict[str, fw.Trace]) -> None:
    assert data.score.dims == ("scheduler", "instance", "round")
    assert data.device_uploads.dims == ("scheduler", "instance", "device")
    assert data.class_accuracy.dims == ("scheduler", "instance", "round", "class")
    assert [data[k].values.tolist() for k in ("round", "device", "class")] == [
        list(range(1, 8)),
        list(range(1, 5)),
        list(range(10)),
    ]
    for name, trace in traces.items():
        for metric, values in trace.series.items():
            np.testing.assert_array_equal(series(data, name, metric), values)
            assert data[metric].dtype == values.dtype  # counts stay counts
        here = data.sel(scheduler=name)
        np.testing.assert_array_equal(here.device_uploads, trace.totals["device_uploads"])
        np.testing.assert_array_equal(here.device_shards, trace.final.learned)
        found, made = curves_of(data, name), curves(name)
        for what in ("loss", "accuracy", "class_accuracy", "accuracy_on_all"):
            np.testing.assert_array_equal(getattr(found, what), getattr(made, what))


def test_metrics_describe_themselves(data: xr.Dataset) -> None:
    assert data.surprise.attrs == {"long_name": "surprise (bits)", "over_rounds": "max"}
    assert long_name(data, "surprise") == "surprise (bits)"
    assert data.backlog.attrs["better"] == "lower"
    assert data.accuracy.attrs["over_rounds"] == "last"
    names = metrics_of(data)
    assert {"score", "surprise", "loss", "worst_class"} <= set(names)
    assert {"class_accuracy", "device_uploads"}.isdisjoint(names)


def test_blocks_are_joined_in_any_order() -> None:
    whole = unit_dataset({name: trace_of(name, 5) for name in NAMES})
    blocks = [
        unit_dataset({name: trace_of(name, instances) for name in group})
        for group in (["alsa-pi"], ["age", "w-max"])
        for instances in ([0, 1], [2, 3], [4])
    ]
    for order in list(permutations(blocks))[::97]:
        found = join_units(order, NAMES, range(5))
        assert found.identical(whole)
        assert {k: v.dtype for k, v in found.items()} == {k: v.dtype for k, v in whole.items()}


def test_there_and_back_through_parquet(data: xr.Dataset) -> None:
    for part in (
        data,
        data.isel(scheduler=[1], instance=[0, 2]),
        data[["score", "backlog", "loss", "accuracy", "surprise", "device_uploads", "device_shards", "device_share"]],
    ):
        where, instances = {"network.slots": 2, "seed": "x"}, part["instance"].values.tolist()
        schedulers = tuple(part["scheduler"].values.tolist())
        unit = Unit("0000_x_0-2", 0, where, schedulers, tuple(instances), Experiment(rounds=7), run_id="a")
        made = tables(unit, part).values()
        found = dataset_from(*made, unit)
        for other in (replace(unit, run_id="b"), replace(unit, name="0000_y_0-2"), replace(unit, instances=(0,))):
            with pytest.raises(ValueError, match=r"its unit|another"):
                dataset_from(*made, other)
        assert found.identical(part[list(found)])  # values, NaN, coordinates and attributes
        assert set(found) == set(part)
        for name in part.variables:
            assert found[name].dtype == part[name].dtype, name


@pytest.mark.parametrize("seeds", [[2**53, 2**53 + 1], [2**62 - 1, 2**62], [-(2**63), 0], [0, 2**31], [2**40, 5]])
def test_netcdf_keeps_labels_apart(seeds: list[int], data: xr.Dataset, tmp_path: Path) -> None:
    """A whole number that a float would round is kept as text."""
    whole = join_points({"seed": seeds}, [data, data])
    with (tmp_path / "a.nc").open("wb") as file:
        write_netcdf(whole, file)
    with xr.open_dataset(tmp_path / "a.nc") as plain:
        assert [int(seed) for seed in plain["seed"].values] == seeds


def test_units_of_different_forms_are_not_joined() -> None:
    parts = [unit_dataset({"age": trace_of("age", [k], devices=4 + k)}) for k in range(2)]
    with refused("metrics", "devices"):
        join_units(parts, ["age"], range(2))


def test_a_sweep_is_assembled_with_its_axes_in_front() -> None:
    sizes = {(slots, devices): trace_of("age", 2, 4, devices) for slots in (5, 1) for devices in (3, 4)}
    points = [unit_dataset({"age": trace}) for trace in sizes.values()]
    found = join_points({"slots": [5, 1], "devices": [3, 4]}, points)
    assert found.score.dims == ("slots", "devices", "scheduler", "instance", "round")
    assert found.slots.values.tolist() == [5, 1]  # in the order given
    for (slots, devices), point in zip(sizes, points, strict=True):
        here = found.sel(slots=slots, devices=devices, drop=True)
        np.testing.assert_array_equal(here.score, point.score)
        filled = here.device_uploads.values
        np.testing.assert_array_equal(filled[..., :devices], point.device_uploads)
        assert np.isnan(filled[..., devices:]).all()
    assert found.backlog.dtype.kind == "i"  # nothing is missing there
    assert found.score.attrs == points[0].score.attrs
    assert join_points({}, points[:1]).identical(points[0])


def named(names: tuple[str, ...]) -> xr.Dataset:
    """A unit whose devices have these names, and uploads that tell them apart."""
    data = unit_dataset({"age": trace_of("age", 2, 4, len(names))})
    uploads = [float(sum(map(ord, name))) for name in names]
    data["device_uploads"] = data.device_uploads * 0 + xr.DataArray(uploads, dims="device")
    return data.assign_coords(device=list(names))


def test_devices_of_a_sweep_over_tables_are_aligned_by_name_or_else_numbered() -> None:
    ours = ("camera", "sensor", "meter")
    shuffled = [named(ours), named(("sensor", "camera", "meter"))]
    found = join_points({"table": ["a", "b"]}, shuffled)
    assert found.device.values.tolist() == list(ours)
    for name in ours:
        assert (found.device_uploads.sel(device=name) == sum(map(ord, name))).all()
    others = [named(("camera", "drone")), named(ours)]
    found = join_points({"table": ["a", "b"]}, others)
    assert found.device.values.tolist() == [1, 2, 3]
    for place, point in enumerate(others):
        here = found.device_uploads.isel(table=place)[..., : point.sizes["device"]]
        np.testing.assert_array_equal(here, point.device_uploads)
