"""The names of the device table appear in the results."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from refusals import mentions

import fedwave as fw
from fedwave.experiments.report.figures.devices import devices_figure
from fedwave.experiments.report.summary import worst_devices

NAMES = ["sensor 1", "sensor 2", "gate"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("named")
    (out / "devices.csv").write_text("name,count,rate,distance_m\nsensor,2,1,100\ngate,1,8,450\n")
    network = {"kind": "table", "file": str(out / "devices.csv"), "slots": 1}
    asked = {"network": network, "schedulers": ["alsa-pi", "age"], "rounds": 20, "instances": 3}
    fw.run(asked, out / "run")
    return out / "run"


def test_datasets_are_labelled_by_name(folder: Path) -> None:
    data = fw.load(folder)
    assert data["device"].values.tolist() == NAMES
    network = fw.Network(fw.read_devices(folder.parent / "devices.csv"), slots=1)
    trace = fw.simulate(network, "age", 20, 3)
    gate = data.device_uploads.sel(scheduler="age", device="gate")
    assert np.array_equal(gate, trace.totals["device_uploads"][:, 2])
    with xr.open_dataset(folder / "results.nc") as plain:
        assert plain["device"].values.astype(str).tolist() == NAMES


def test_tables_and_figures_name_devices(folder: Path) -> None:
    data = fw.load(folder)
    with open(folder / "devices.csv", newline="") as file:
        rows = {(row["scheduler"], row["device"]): row for row in csv.DictReader(file)}
    assert list(rows) == [(label, name) for label in ("alsa-pi", "age") for name in NAMES]
    wanted = data.device_shards.sel(scheduler="age", device="gate").values
    row = rows["age", "gate"]
    assert float(row["device_shards_mean"]) == pytest.approx(wanted.mean(), rel=1e-5)
    # Student t with 2 degrees of freedom reaches 4.302653 standard errors.
    half = 4.302653 * wanted.std(ddof=1) / 3**0.5
    assert float(row["device_shards_half_width"]) == pytest.approx(half, rel=1e-4)
    (axis,) = devices_figure(data).axes
    assert [text.get_text() for text in axis.get_xticklabels()] == NAMES
    assert axis.get_ylabel() == "Uploads delivered per instance"
    assert (folder / "devices.png").exists()


def test_the_worst_device_is_named(folder: Path) -> None:
    data = fw.load(folder)
    share = data.device_share.sel(scheduler="alsa-pi").mean("instance")
    name, least = worst_devices(data)["alsa-pi"]
    assert (name, least) == (NAMES[int(share.values.argmin())], pytest.approx(float(share.min())))
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["worst_devices"]["alsa-pi"]["device"] == name
    assert mentions((folder / "table.md").read_text(), "alsa-pi", name)
    # The share of every instance is what the metric of the worst device says.
    worst = data.worst_device.isel(round=-1)
    assert np.allclose(worst, data.device_share.min("device"))
