"""Kill -9 at random moments: after resume, everything is bit for bit as if nothing had happened."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from killing import SIMULATION, TRAINING, Undisturbed, begin, finish, finished_units, kill_at_random, leftovers, results

from fedwave.experiments.config.experiment import Experiment

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
KINDS = {"training": TRAINING, "simulation": SIMULATION}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    return Undisturbed(KINDS, tmp_path_factory.mktemp("undisturbed"))


def kills_change_nothing(
    experiment: Experiment, wanted: dict[str, str], folder: Path, seed: int, whom: list[str]
) -> None:
    luck = random.Random(seed)
    begin(experiment, folder)
    before: dict[str, int] = {}
    for victim in whom:
        kill_at_random(folder, luck, victim)
        now = finished_units(folder)
        assert before.items() <= now.items(), "a finished unit was done again"
        before = now
    finish(folder)
    assert before.items() <= finished_units(folder).items(), "a finished unit was done again"
    assert results(folder) == wanted
    assert leftovers(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["simulation", "training"])
def test_killed_twice(kind: str, undisturbed: dict[str, dict[str, str]], tmp_path: Path) -> None:
    kills_change_nothing(KINDS[kind], undisturbed[kind], tmp_path / "run", 1, ["runner", "worker"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_killed_often(kind: str, seed: int, undisturbed: dict[str, dict[str, str]], tmp_path: Path) -> None:
    whom = ["runner", "worker", "runner", "worker"]
    kills_change_nothing(KINDS[kind], undisturbed[kind], tmp_path / "run", 10 + seed, whom)
