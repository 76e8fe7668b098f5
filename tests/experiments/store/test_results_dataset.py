"""Results open as one labelled Dataset, and without fedwave: netCDF with xarray, Parquet with pandas and DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import fedwave as fw
from fedwave.experiments.config.read import experiment_from, load_experiment
from fedwave.experiments.report.outputs import write_results
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.dataset import Results, curves_of, series
from fedwave.experiments.store.load import to_dataset, write_netcdf

SMALL: dict[str, Any] = {
    "name": "small",
    "network": {"kind": "random", "devices": 5, "slots": 2},
    "schedulers": ["alsa-pi", "age"],
    "rounds": 6,
    "instances": 3,
    "block": 2,
}
AXES = ["sweep.network.gamma=[0,0.5,2]", "sweep.network.slots=[1,2]"]
LEARNING = {
    **SMALL,
    "task": {"dataset": "synthetic", "model": "logistic", "epochs": 1},
    "training": {"device": "cpu", "loss_images": 50, "test_images": 50, "full_every": 3},
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    """A sweep over two axes, stored."""
    folder = tmp_path_factory.mktemp("swept")
    with pytest.MonkeyPatch.context() as patch:  # figures take the longest, and are not looked at
        patch.setattr("fedwave.experiments.report.figures.common.save_figure", lambda figure, stem: [])
        results = run_experiment(experiment_from(SMALL, AXES), folder, workers=1)
        write_results(results, folder)
    return folder, results


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    folder = tmp_path_factory.mktemp("learnt")
    return folder, run_experiment(experiment_from(LEARNING), folder, workers=1)


def test_two_axes_are_two_dimensions(swept: tuple[Path, Results]) -> None:
    folder, results = swept
    found = fw.load(folder)
    assert dict(found.sizes) == {
        "network.gamma": 3,
        "network.slots": 2,
        "scheduler": 2,
        "instance": 3,
        "round": 6,
        "device": 5,
    }
    assert found["network.gamma"].values.tolist() == [0, 0.5, 2]
    assert found["scheduler"].values.tolist() == ["alsa-pi", "age"]
    assert found["round"].values.tolist() == [1, 2, 3, 4, 5, 6]
    assert found["device"].values.tolist() == [1, 2, 3, 4, 5]
    assert found.score.dims == ("network.gamma", "network.slots", "scheduler", "instance", "round")
    assert len(results.points) == 6
    for point in results.points:
        here = found.sel(point.where, drop=True).drop_attrs(deep=False)
        assert here.identical(point.data.drop_attrs(deep=False))
    alone = fw.simulate(fw.random_network(5, 1, gamma=0.5), "age", 6, 3, 0)
    here = found.sel({"network.gamma": 0.5, "network.slots": 1, "scheduler": "age"})
    np.testing.assert_array_equal(here.score.transpose("round", "instance"), alone.score)


def test_counts_are_whole_numbers_and_the_rest_is_not(swept: tuple[Path, Results]) -> None:
    kinds = {name: array.dtype.kind for name, array in fw.load(swept[0]).items()}
    counts = ("backlog", "arrived", "lost", "uploads", "worst_age", "device_uploads", "device_shards")
    shares = ("score", "mean_age", "delivered_share", "jain", "device_share")
    assert (dict.fromkeys(counts, "i") | dict.fromkeys(shares, "f")).items() <= kinds.items()


def test_it_says_what_it_is_of(swept: tuple[Path, Results], tmp_path: Path) -> None:
    found = fw.load(swept[0])
    assert (found.attrs["title"], found.attrs["fedwave"]) == ("small", fw.__version__)
    (tmp_path / "again.yaml").write_text(found.attrs["config"])
    assert load_experiment(tmp_path / "again.yaml") == swept[1].experiment


def test_netcdf_opens_with_plain_xarray(swept: tuple[Path, Results]) -> None:
    folder, results = swept
    with xr.open_dataset(folder / "results.nc") as plain:
        wanted = to_dataset(results)
        assert set(plain.data_vars) == set(wanted.data_vars)
        for name in wanted.variables:
            np.testing.assert_array_equal(plain[name], wanted[name])
            assert (plain[name].dims, plain[name].attrs) == (wanted[name].dims, wanted[name].attrs)
        assert plain.attrs["config"] == wanted.attrs["config"]


def test_what_was_learnt(learnt: tuple[Path, Results], tmp_path: Path) -> None:
    folder, results = learnt
    found = fw.load(folder)
    assert found.class_accuracy.dims == ("scheduler", "instance", "round", "class")
    with (tmp_path / "a.nc").open("wb") as file:
        write_netcdf(found, file)
    with xr.open_dataset(tmp_path / "a.nc") as plain:
        for data in (found, plain):
            for label in results.experiment.labels:
                here, curves = data.sel(scheduler=label), curves_of(results.only.data, label)
                assert curves.accuracy_on_all is not None
                np.testing.assert_array_equal(here.loss, curves.loss.T)
                np.testing.assert_array_equal(here.accuracy, curves.accuracy.T)
                np.testing.assert_array_equal(here.accuracy_on_all, curves.accuracy_on_all.T)
                np.testing.assert_array_equal(here.class_accuracy, curves.class_accuracy.transpose(1, 0, 2))


@pytest.mark.parametrize(
    "axis, name, dimension",
    [
        ("sweep.rounds=[3,6]", "rounds", "round"),
        ("sweep.network.devices=[3,5]", "network.devices", "device"),
        ("sweep.instances=[1,3]", "instances", "instance"),
    ],
)
def test_shorter_points_are_filled_up(axis: str, name: str, dimension: str) -> None:
    results = run_experiment(experiment_from(SMALL, [axis]), workers=1)
    found = to_dataset(results).transpose(..., dimension)
    short, long = (int(value) for value in found[name])
    assert found.sizes[dimension] == long
    variable = found.device_uploads if dimension == "device" else found.score
    assert np.isnan(variable.sel({name: short})[..., short:]).all()
    assert np.isfinite(variable.sel({name: short})[..., :short]).all()
    assert np.isfinite(variable.sel({name: long})).all()


def test_an_axis_of_texts_or_of_nothing() -> None:
    asked = experiment_from(SMALL, ["sweep.network.fading=[null, 'rician:k_factor=6']"])
    found = to_dataset(run_experiment(asked, workers=1))
    assert found["network.fading"].values.tolist() == ["None", "rician:k_factor=6"]


def test_parquet_opens_with_plain_pandas(swept: tuple[Path, Results]) -> None:
    folder, results = swept
    point = results.points[3]  # gamma 0.5, slots 2
    one = pd.read_parquet(folder / "rounds" / "0003_age_0-1.parquet")
    assert list(one.columns[:5]) == ["network.gamma", "network.slots", "scheduler", "instance", "round"]
    assert len(one) == 2 * 6
    run = one[one.instance == 1].sort_values("round")
    np.testing.assert_array_equal(run.score, series(point.data, "age", "score")[:, 1])
    whole = pd.read_parquet(folder / "rounds")
    assert len(whole) == 6 * 2 * 3 * 6
    keys = ["network.gamma", "network.slots", "scheduler", "instance", "round"]
    assert not whole.duplicated(keys).any()
    assert sorted(whole["network.gamma"].unique()) == [0, 0.5, 2]
    devices = pd.read_parquet(folder / "devices")
    here = devices[(devices["network.gamma"] == 0.5) & (devices["network.slots"] == 2)]
    sums = here[here.scheduler == "age"].groupby("instance").device_shards.sum()
    shards = point.data.device_shards.sel(scheduler="age")
    np.testing.assert_array_equal(sums, shards.sum("device"))


def test_duckdb_reads_all_parquet_files_as_one_table(swept: tuple[Path, Results]) -> None:
    """Of an axis with 0 and 0.5 the first file must not make whole numbers of all."""
    folder, results = swept
    found = duckdb.sql(
        'select "network.gamma", "network.slots", scheduler, avg(score), count(*) '
        f"from '{folder}/rounds/*.parquet' group by all"
    ).fetchall()
    wanted = {
        (*point.where.values(), label): float(point.data.score.sel(scheduler=label).mean())
        for point in results.points
        for label in point.experiment.labels
    }
    assert {tuple(row[:3]): row[3] for row in found} == pytest.approx(wanted)
    assert {row[4] for row in found} == {3 * 6}
