"""A share of every kind of attack, again and again the same: none has a bad outcome. `make attacks` runs all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Two minutes in all on one core.
SHARE = {"commands": 96, "folders": 54, "flips": 140, "packages": 30}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHARE)
def test_no_attack_has_a_bad_outcome(kind: str) -> None:
    words = [kind, "--to", str(SHARE[kind]), "--bad", "5"]
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
