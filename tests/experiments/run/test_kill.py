"""Kill -9 at random moments: after resume, everything is bit for bit as if nothing had happened."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from killing import SIMULATION, TRAINING, Undisturbed, begin, finish, finished_units, kill_at_random, leftovers, results

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
KINDS = {"training": TRAINING, "simulation": SIMULATION}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    return Undisturbed(KINDS, tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_kills_change_nothing(kind: str, seed: int, undisturbed: dict[str, dict[str, str]], tmp_path: Path) -> None:
    folder, luck = tmp_path / "run", random.Random(seed)
    begin(KINDS[kind], folder)
    before: dict[str, int] = {}
    for victim in ("runner", "worker") * (2 if seed else 1):
        kill_at_random(folder, luck, victim)
        now = finished_units(folder)
        assert before.items() <= now.items(), "a finished unit was done again"
        before = now
    finish(folder)
    assert before.items() <= finished_units(folder).items(), "a finished unit was done again"
    assert results(folder) == undisturbed[kind]
    assert leftovers(folder) == []
