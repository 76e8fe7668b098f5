"""Parts of a user's own, each in one short file outside the package: found, checked, run, killed, resumed, loaded.

The files are those of examples/: a Nakagami fading, an aggregation rule with a memory, and a round metric.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import xarray as xr
from killing import command, finish, leftovers, results
from user_file import forgotten

import fedwave as fw
from fedwave.parts.user_code import import_parts

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = ("nakagami", "buffered", "starving")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder of the user's, with the experiment and the files that it imports."""
    shutil.copytree(EXAMPLES / "parts", tmp_path / "mine" / "parts")
    text = (EXAMPLES / "own_parts.yaml").read_text() + "checkpoint_seconds: 0\n"
    (tmp_path / "mine" / "own.yaml").write_text(text)
    return tmp_path / "mine"


@pytest.fixture
def _imported(place: Path) -> Iterator[None]:
    with forgotten():
        for name in FILES:
            import_parts(place / "parts" / f"{name}.py")
        yield


def run(*words: str | Path) -> None:
    answer = subprocess.run(command(*map(str, words)), capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.usefixtures("_imported")
@pytest.mark.parametrize("part", ["nakagami:m=3", "buffered-momentum:size=4", "starving:limit=5"])
def test_each_passes_the_checks_of_its_family(part: str) -> None:
    passed = fw.check(part).passed
    assert passed[0] == "declaration"
    assert len(passed) > 5


@pytest.mark.usefixtures("_imported")
def test_they_are_simulated_saved_extended_remade_and_trained(tmp_path: Path) -> None:
    net = fw.paper_network(fading="nakagami:m=3")
    own = ["starving:limit=5"]
    trace = fw.simulate(net, "age", rounds=4, instances=2, metrics=own)
    loaded = fw.Trace.load(trace.save(tmp_path / "begun.npz"))
    whole = fw.simulate(net, "age", rounds=7, instances=2, metrics=own)
    assert fw.extend(loaded, 7).same_as(whole)
    assert fw.remake(whole).same_as(whole)
    assert whole.series["starving"].max() > 0
    task = fw.task("synthetic", epochs=1, aggregation="buffered-momentum:size=8")
    curves = fw.train(whole, task, sizes=fw.EvaluationSizes(50, 50))
    plain = fw.train(whole, fw.task("synthetic", epochs=1), sizes=fw.EvaluationSizes(50, 50))
    assert (curves.loss != plain.loss).any()


@pytest.mark.slow
def test_run_by_the_command_line_killed_resumed_and_loaded_without_the_files(place: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run("run", place / "own.yaml", "--out", whole, "--workers", "1")
    begun = subprocess.Popen(
        command("run", str(place / "own.yaml"), "--out", str(killed), "--workers", "1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    while not any((killed / "checkpoints").glob("*")) and begun.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(begun.pid, signal.SIGKILL)
    begun.wait()
    assert begun.returncode == -signal.SIGKILL
    parts = [place / "parts" / f"{name}.py" for name in ("nakagami", "buffered", "starving")]
    finish(killed, *(word for part in parts for word in ("--import", str(part))))
    assert results(killed) == results(whole)
    assert leftovers(killed) == []
    shutil.rmtree(place)  # the files are gone: results can still be read
    answer = subprocess.run(
        [sys.executable, "-c", f"import fedwave as fw; print(fw.load({str(killed)!r}).starving.attrs)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "devices out of touch" in answer.stdout
    found = fw.load(killed)
    assert found.starving.dims == ("scheduler", "instance", "round")
    assert "starving" in pd.read_parquet(killed / "rounds").columns
    assert "starving" in xr.open_dataset(killed / "results.nc")
    assert "| devices out of touch |" in (killed / "table.md").read_text()
    assert (killed / "metrics.png").stat().st_size > 5000
    assert "starving" in json.loads((killed / "summary.json").read_text())["schedulers"]["alsa-pi"]


def test_the_command_line_finds_them_by_import_and_sweeps_their_parameters(place: Path, tmp_path: Path) -> None:
    parts = [word for name in FILES for word in ("--import", str(place / "parts" / f"{name}.py"))]
    out = tmp_path / "sweep"
    run(
        "run",
        "paper",
        *parts,
        "network.fading=nakagami:m=3",
        "metrics=[starving:limit=3]",
        "metric=starving",
        "sweep.network.fading.m=[0.5,8]",
        "--rounds",
        "12",
        "--instances",
        "3",
        "-s",
        "age,w-max",
        "--out",
        out,
    )
    found = fw.load(out)
    assert found["network.fading.m"].values.tolist() == [0.5, 8]
    assert found.starving.isel(round=-1).mean() > 0
    assert list(out.glob("starving-network-fading-m*.png"))
