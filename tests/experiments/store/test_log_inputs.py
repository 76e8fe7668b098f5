"""The files of a log are pinned and copied one by one, and keep the names of their devices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedwave as fw
from fedwave.experiments.config.build import network_of
from fedwave.experiments.config.read import load_experiment
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.verify import verify


@pytest.mark.parametrize("path", ["logs", "logs/**/*.csv", "[logs/day/a.csv, logs/b.csv, logs/a.csv]"])
def test_a_run_keeps_the_files_of_a_log(tmp_path: Path, path: str) -> None:
    (tmp_path / "logs" / "day").mkdir(parents=True)
    for at, name in enumerate(("day/a", "a", "b")):  # two files of one name
        lines = [f"{t},{5 * at + t % 3}" for t in range(20)]
        (tmp_path / "logs" / f"{name}.csv").write_text("time,snr_db\n" + "\n".join(lines))
    (tmp_path / "devices.csv").write_text("name,rate,distance_m\nb,1,100\na,1,100\nday/a,1,100\n")
    (tmp_path / "e.yaml").write_text(
        f"network: {{kind: table, file: devices.csv, slots: 1, fading: {{name: log, path: {path}}}}}\n"
        "schedulers: [max-weight]\nrounds: 30\ninstances: 2\n"
    )
    how = load_experiment(tmp_path / "e.yaml")
    run_experiment(how, tmp_path / "run", workers=1)
    kept = sorted(one.name for one in (tmp_path / "run" / "inputs").iterdir())
    assert kept == ["1_a.csv", "a.csv", "b.csv", "devices.csv"]
    first = fw.load(tmp_path / "run")
    assert first.attrs["chance"] == "arrivals,uploads"  # the gains are the same in every instance
    (tmp_path / "logs").rename(tmp_path / "elsewhere")
    assert {one.state for one in verify(tmp_path / "run") if one.about == "inputs"} == {"ok"}
    again = load_experiment(tmp_path / "run" / "config.yaml")
    assert list(again.network.fading["path"]) == [*dict.fromkeys(how.network.fading["path"])]
    run_experiment(again, tmp_path / "again", workers=1)
    assert fw.load(tmp_path / "again").identical(first)
    np.testing.assert_allclose(10 * np.log10(network_of(again.network).fading.record[0]), [10, 5, 0], atol=1e-12)


def test_any_name_of_a_device_may_stand_before_its_file(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("time,snr_db\n0,1\n")
    (tmp_path / "e.yaml").write_text(
        "network: {kind: random, devices: 2, fading: {name: log, path: {metric: x.csv, kind: x.csv}}}\n"
    )
    found = load_experiment(tmp_path / "e.yaml").network.fading["path"]
    assert dict(found) == {"metric": str(tmp_path / "x.csv"), "kind": str(tmp_path / "x.csv")}
