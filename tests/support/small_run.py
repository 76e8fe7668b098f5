"""A small run that many tests look at, and the words of the command that makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedwave as fw

SMALL = ("-s", "age,random", "-r", 6, "-i", 2)
WORDS = ("run", "paper", *SMALL)


def make(folder: Path) -> Path:
    """Runs it into this folder, without figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedwave.experiments.report.figures.common.save_figure", lambda figure, stem: [])
        fw.run("paper", folder, overrides=["schedulers=[age,random]", "rounds=6", "instances=2"], workers=1)
    return folder
