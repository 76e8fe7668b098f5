"""Ways take turns at the same work; whoever does other work is out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import mentions, refused

from fedwave.bench import measure
from fedwave.bench.measure import Plan
from fedwave.bench.player import PlayerFailed
from fedwave.bench.ways import PLAIN, ways
from fedwave.bench.work import Setting, Work


def quiet(text: str) -> None:
    """Nobody looks at progress here."""


class Pretender:
    """Plays at once; tells stories if its name says so."""

    log: list[tuple[str, int]] = []  # noqa: RUF012
    memory = 5
    initial: dict[str, Any]
    samples: Callable[[int, int], int]

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.script = Path(command[1]).stem
        self.skipping = command[-2] == "1e-06"

    def ready(self) -> dict[str, str]:
        return {"torch": "1"}

    def play(self, first: int, last: int) -> tuple[float, int]:
        self.log.append((self.script, first))
        if self.script == "rounds_pfl" and first >= 2:
            raise PlayerFailed("it is tired")
        samples = Pretender.samples(first, last)
        return (4.0 if self.script == "rounds_plain" else 2.0), samples // (1 + self.skipping)

    def weights(self, path: Path) -> None:
        error = 0.5 if self.script == "rounds_flower" else 1e-6
        far = {name: p + 1 + error for name, p in Pretender.initial.items()}
        np.savez(path, **far)  # type: ignore[arg-type]

    def __enter__(self) -> Pretender:
        return self

    def __exit__(self, *more: object) -> None:
        self.log.append((self.script, -1))


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], dict[str, Any]]:
    work = Work(Setting("synthetic", rounds=6))
    shards, task = work.run.shards, work.task

    def samples(first: int, last: int) -> int:
        return int(shards[first:last].sum()) * task.shard_size * task.epochs

    monkeypatch.setattr(Pretender, "initial", work.weights, raising=False)
    monkeypatch.setattr(Pretender, "samples", staticmethod(samples), raising=False)
    monkeypatch.setattr(Pretender, "log", [])
    monkeypatch.setattr(measure, "Player", Pretender)
    monkeypatch.setattr(measure, "python_of", lambda *asked: Path(sys.executable))
    asked = Plan(2, 2, True, True, tmp_path)
    return lambda: measure.measure(work, tmp_path, asked, 1, "cpu", quiet)


def test_ways_that_do_other_work_are_out(pretended: Callable[[], dict[str, Any]]) -> None:
    found = {way["name"]: way for way in pretended()["ways"]}
    assert mentions(found["flower"]["why"], 0.5)
    assert found["pfl"]["why"] == "it is tired"
    assert found["fedwave-all"]["available"]
    assert found["fedwave-all"]["times_plain"] == {"median": 2.0, "least": 2.0, "most": 2.0}
    assert found["fedwave"]["times_plain"]["median"] == 2.0
    assert found["fedwave"]["times_plain_per_sample"]["median"] == pytest.approx(1.0, rel=0.01)


def test_a_way_that_trains_on_fewer_samples_is_out(
    pretended: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Pretender.samples
    monkeypatch.setattr(Pretender, "samples", staticmethod(lambda a, b: whole(a, b) - 10))
    with refused("samples", error=PlayerFailed):
        pretended()


def test_ways_take_turns_and_are_ended(pretended: Callable[[], dict[str, Any]]) -> None:
    pretended()
    log = Pretender.log
    starts = [first for script, first in log if script == "rounds_plain"]
    assert starts == [0, 1, 2, 4, -1]
    order = [script for script, first in log if first == 4]
    assert order == [script for script, first in log if first == 2 and script in order][::-1]
    ended = [script for script, first in log if first == -1]
    assert len(ended) == len(ways("cpu", peers=True))


def test_the_gpu_section_has_plain_and_fedwave() -> None:
    found = ways("cuda", peers=True)
    assert found[0] is PLAIN
    assert all(way.peer is None for way in found)
    assert found[-1].runs == 300
    assert "the GPU" in found[0].given(1, "cuda")
