"""The figure of `fedwave bench`: bars of different panels can be compared by eye."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedwave.experiments.report.figures import speed


def way(name: str, times: float) -> dict[str, Any]:
    ratio = {"median": times, "least": times, "most": times}
    rate = {"median": 1000 * times}
    speeds = {"times_plain": ratio, "samples_per_second": rate}
    return {"name": name, "label": name, "available": True, **speeds}


def limits(monkeypatch: pytest.MonkeyPatch, *fastest: float) -> list[tuple[float, float]]:
    drawn: list[Any] = []

    def keep(figure: Any, path: Path) -> Path:
        drawn.append(figure)
        return path

    monkeypatch.setattr(speed, "write_figure", keep)
    panels = {str(k): [way("plain", 1.0), way("fedwave", most)] for k, most in enumerate(fastest)}
    speed.write_speeds(panels, "caption", Path("speeds.png"))
    return [axis.get_xlim() for axis in drawn[0].axes]


def test_panels_of_one_order_share_their_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = limits(monkeypatch, 5.0, 12.0)
    assert one == two
    assert one[1] > 12


def test_a_panel_of_another_order_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, gpu = limits(monkeypatch, 5.0, 12.0, 2000.0)
    assert one == two
    assert one[1] < 50
    assert gpu[1] > 2000
