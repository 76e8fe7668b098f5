"""`fedwave merge`, and lots on the command line."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from lots import contents, lot
from refusals import mentions

import fedwave as fw

WORDS = ("paper", "-s", "age,random", "-r", 5)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_figures: None) -> None:
    monkeypatch.chdir(tmp_path)


def test_lots_are_run_and_merged(fedwave) -> None:
    lot(Path("a"), 0, 2)
    words = ("run", "random", "first_instance=2", "-i", 1, "-r", 5, "-s", "age,random")
    network = ("name=experiment", "network.devices=4", "network.slots=2")
    status, told, _ = fedwave(*words, *network, "--out", "b")
    assert status == 0
    assert mentions(told, "5 rounds", "instance 2", "seed 0")
    status, told, err = fedwave("merge", "a", "b", "--out", "all", "--json")
    assert (status, err) == (0, "")
    found = json.loads(told)
    assert (found["instances"], found["first_instance"]) == (3, 0)
    assert found["schedulers"]["age"]["backlog"]["mean"] > 0
    assert fedwave("verify", "all")[0] == 0
    before = contents(Path("all"))
    status, told, err = fedwave("resume", "all")  # as `report`: nothing is left to be done
    assert (status, err) == (0, "")
    assert "3 instances" in told
    assert contents(Path("all")) == before


REFUSED = {
    ("merge", "run", "--out", "out"): ("1 folder",),
    ("merge", "run", "nowhere", "--out", "out"): ("run folder", "nowhere"),
    ("merge", "run", "b"): ("--out",),
    ("merge", "run", "b", "--out", ""): ("path is empty",),
    ("merge", "--out", "out"): ("DIR",),
    ("merge", "run", "b", "--out", "run"): ("run", "empty"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refusals(words: tuple[object, ...], refuses, small_run: Path) -> None:
    refuses(words, *REFUSED[words])
    assert not Path("out").exists()


def test_the_job_array_of_the_docs_gives_the_whole_run(fedwave, tmp_path: Path) -> None:
    """Without Slurm: its tasks are run one after another."""
    page = Path(__file__).parents[2] / "docs" / "experiments.md"
    script = re.search(r"```sh title=lots.sh\n(.*?)```", page.read_text(), re.DOTALL)
    assert script is not None
    assert len(script[1].splitlines()) <= 8
    Path("lots.sh").write_text(script[1])
    how = "{network: {slots: 3}, schedulers: [age, balsa], rounds: 6, sweep: {network.gamma: [0, 1]}}"
    Path("my-experiment.yaml").write_text(how)
    Path("fedwave").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fedwave "$@"\n')
    Path("fedwave").chmod(0o755)
    surroundings = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for task in ("1", "0"):
        made = {**surroundings, "SLURM_ARRAY_TASK_ID": task}
        subprocess.run(["bash", "lots.sh"], check=True, env=made, capture_output=True)
    lots = sorted(map(str, Path("out/lots").iterdir()))
    assert fedwave("merge", *lots, "--out", "out/all")[0] == 0
    assert fedwave("run", "my-experiment.yaml", "instances=20", "--out", "out/whole")[0] == 0
    assert fw.load("out/all").equals(fw.load("out/whole"))
    assert fedwave("verify", "out/all", "out/whole")[0] == 0
