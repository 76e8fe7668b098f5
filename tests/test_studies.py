"""The experiments in studies/ can be run: every file is a whole experiment, and its parts are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedwave.experiments.config.build import check_buildable, prepare
from fedwave.experiments.config.read import load_experiment

STUDIES = Path(__file__).parents[1] / "studies"
FILES = sorted(STUDIES.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_study_can_be_run(file: Path) -> None:
    experiment = load_experiment(file)
    prepare(experiment, {})
    check_buildable(experiment)
    assert experiment.sweep


def test_the_page_names_every_study() -> None:
    text = (STUDIES / "README.md").read_text(encoding="utf-8")
    for file in FILES:
        family, _, name = file.stem.partition("-")
        named = (f"`{file.stem}`", f"`-{name}`", f"`{family}-...`")
        assert any(way in text for way in named), file.stem
