"""`fedwave merge`, and lots on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lots import contents, lot
from refusals import mentions

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
