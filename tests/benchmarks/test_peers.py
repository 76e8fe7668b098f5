"""`python -m benchmarks.peers` without network: all play the same rounds, and a contender that fails is named."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import mentions, refused

from benchmarks.peers import __main__ as program
from benchmarks.peers import contenders, measure
from benchmarks.peers.contenders import PEERS, ROOT
from benchmarks.peers.measure import Measurement
from benchmarks.peers.player import PlayerFailed
from benchmarks.peers.work import Work
from fedwave.types import Array

# The whole program


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the program wrote. Flower's environment is missing, and pfl-research's lacks the library."""
    folder = tmp_path_factory.mktemp("peers")
    python = folder / "pfl" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contenders, "ENVIRONMENTS", folder)
        words = ["--dataset", "synthetic", "--rounds", "1", "--repeats", "1", "--out", str(folder / "bench.json")]
        patch.setattr(sys, "argv", ["peers", *words])
        program.main()
    return folder


@pytest.fixture
def content(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "bench.json").read_text()))


@pytest.fixture
def found(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {way["name"]: way for way in content["sections"][0]["ways"]}


def test_all_play_the_same_rounds(found: dict[str, dict[str, Any]]) -> None:
    assert list(found) == ["plain", "pfl", "flower", "fedwave-all", "fedwave"]
    plain, everything, skipping = (found[name] for name in ("plain", "fedwave-all", "fedwave"))
    assert plain["samples"] == everything["samples"]
    assert 0 < skipping["samples"][0] < plain["samples"][0]
    assert plain["difference_after_one_round"] == 0
    for way in (everything, skipping):
        assert way["difference_after_one_round"] < 3e-2
        assert len(way["seconds"]) == 1
        assert way["times_plain"]["median"] == pytest.approx(plain["seconds"][0] / way["seconds"][0])
        assert way["samples_per_second"]["median"] == pytest.approx(way["samples"][0] / way["seconds"][0])
    if sys.platform == "linux":
        assert plain["memory_bytes"] > 2**20


def test_who_fails_is_named_and_the_others_go_on(found: dict[str, dict[str, Any]]) -> None:
    assert not found["pfl"]["available"]
    assert found["pfl"]["why"].endswith("No module named 'pfl'")
    assert mentions(found["flower"]["why"], "environment is missing", "make bench-peers")


def test_the_report_is_made_again_from_the_numbers(folder: Path) -> None:
    figure = (folder / "bench.png").read_bytes()
    (folder / "bench.png").unlink()
    table = program.write_report(folder / "bench.json")
    assert (folder / "bench.png").read_bytes() == figure
    for label in ("plain PyTorch", "fedwave, skipping off", "fedwave, skipping on"):
        assert f"| {label}" in table
    assert mentions(table, "Flower is unavailable", "make bench-peers")


# The measurement


class Pretender:
    """Plays at once; some do not play what they are asked for."""

    log: list[tuple[str, int]] = []  # noqa: RUF012
    memory = 5
    work: Work
    left_out = 0

    def __init__(self, python: Path, words: list[str], alone: bool) -> None:
        self.name, self.skipping = words[0], words[-2] == "1e-06"

    def versions(self) -> dict[str, str]:
        return {"torch": "1"}

    def play(self, first: int, last: int) -> tuple[float, int]:
        self.log.append((self.name, first))
        if self.name == "pfl" and first >= 2:
            raise PlayerFailed("it is tired")
        samples = self.work.samples(first, last) - self.left_out
        return (4.0 if self.name == "plain" else 2.0), samples // (1 + self.skipping)

    def weights(self) -> dict[str, Array]:
        error = 0.5 if self.name == "flower" else 1e-6
        return {name: p + 1 + error for name, p in self.work.weights.items()}

    def __enter__(self) -> Pretender:
        return self

    def __exit__(self, *more: object) -> None:
        self.log.append((self.name, -1))


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], dict[str, dict[str, Any]]]:
    work = Work("synthetic", 6)
    monkeypatch.setattr(Pretender, "work", work, raising=False)
    monkeypatch.setattr(Pretender, "log", [])
    monkeypatch.setattr(measure, "Player", Pretender)
    monkeypatch.setattr(contenders.Contender, "python", Path(sys.executable))
    asked = Measurement(work, tmp_path / "work.npz", 2, 2)
    return lambda: {way["name"]: way for way in asked.section("cpu", 1, list(PEERS))["ways"]}


def test_contenders_that_do_other_work_are_out(pretended: Callable[[], dict[str, dict[str, Any]]]) -> None:
    found = pretended()
    assert mentions(found["flower"]["why"], 0.5)
    assert found["pfl"]["why"] == "it is tired"
    assert found["fedwave-all"]["available"]
    assert found["fedwave-all"]["times_plain"] == {"median": 2.0, "least": 2.0, "most": 2.0}
    assert found["fedwave"]["times_plain"]["median"] == 2.0


def test_a_contender_that_trains_on_fewer_samples_is_out(
    pretended: Callable[[], dict[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pretender, "left_out", 10)
    with refused("samples", error=PlayerFailed):
        pretended()


@pytest.mark.parametrize("peer", PEERS)
def test_all_requirements_of_a_peer_are_pinned(peer: str) -> None:
    text = (ROOT / "benchmarks" / "peers" / f"{peer}.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(line.count("==") == 1 for line in lines)
    assert any(line.startswith("torch==") for line in lines)
