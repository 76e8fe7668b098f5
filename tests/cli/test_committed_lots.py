"""The lots in studies/lots are whole, and put together they are the result of CIFAR-10 that docs/results shows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fedwave.experiments.config.read import load_experiment

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs" / "results" / "cifar10"
LOTS = sorted((ROOT / "studies" / "lots").glob("cifar10-*"))


def test_their_names_are_their_instances() -> None:
    assert LOTS
    for lot in LOTS:
        what = load_experiment(lot / "config.yaml")
        last = what.first_instance + what.instances - 1
        assert lot.name == f"cifar10-{what.first_instance}-{last}"


@pytest.mark.slow
def test_put_together_they_are_the_published_result(
    tmp_path: Path, fedwave: Callable[..., tuple[int, str, str]]
) -> None:
    lots = []
    for lot in LOTS:
        lots.append(shutil.copytree(lot, tmp_path / lot.name))
        assert fedwave("report", lots[-1])[0] == 0  # committed without tables and figures
    assert fedwave("merge", *lots, "--out", tmp_path / "all")[0] == 0
    for name in ("curves.csv", "targets.csv", "config.yaml"):
        assert (tmp_path / "all" / name).read_bytes() == (PUBLISHED / name).read_bytes(), name
