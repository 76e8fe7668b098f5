"""A share of every kind of attack, again and again the same: none has a bad outcome. `make attacks` runs all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Two minutes in all on one core.
SHARE = {"commands": 96, "traces": 150, "folders": 54, "flips": 140}


# Beyond that share, those that found something once.
FOUND = {"commands": (267, 462, 719), "traces": (140, 289, 444, 455, 845, 990)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHARE)
def test_no_attack_has_a_bad_outcome(kind: str) -> None:
    _attack(kind, 0, SHARE[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind, number", [(k, n) for k, many in FOUND.items() for n in many])
def test_what_was_found_once(kind: str, number: int) -> None:
    _attack(kind, number, number + 1)


def _attack(kind: str, first: int, last: int) -> None:
    words = [kind, "--from", str(first), "--to", str(last), "--bad", "5"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.attacks", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
