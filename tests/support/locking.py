"""Figures that look whether the folder which they are written to is locked."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedwave as fw
from fedwave.experiments.report.figures import common as figures
from fedwave.experiments.store.lock import locked


def figures_that_try_to_lock(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From now on every figure tries to take the lock, must fail, and adds its name to the list."""
    tried: list[str] = []

    def saved(figure: object, stem: Path) -> list[Path]:
        with pytest.raises(fw.FedwaveError, match="is in use"):  # noqa: SIM117
            with locked(stem.parent):
                pass
        tried.append(stem.name)
        return []

    monkeypatch.setattr(figures, "save_figure", saved)
    return tried
