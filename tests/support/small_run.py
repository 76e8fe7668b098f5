"""A small run that many tests look at, and the words of the command that makes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedwave as fw
from fedwave.experiments.store.done import read_done, write_done

SMALL = ("-s", "age,random", "-r", 6, "-i", 2)
WORDS = ("run", "paper", *SMALL)


def cut(path: Path) -> None:
    """Takes the last line away: of done.jsonl, its unit is no longer finished."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def make(folder: Path) -> Path:
    """Runs it into this folder, without figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedwave.experiments.report.figures.common.save_figure", lambda figure, stem: [])
        fw.run("paper", folder, overrides=["schedulers=[age,random]", "rounds=6", "instances=2"], workers=1)
    return folder


def rewritten(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes every line of done.jsonl, its header first, and gives each its checksum again."""
    done = read_done(folder)
    lines = [dict(done.header), *(dict(line) for line in done.units.values())]
    for line in lines:
        change(line)
    write_done(folder, lines[0], lines[1:])
