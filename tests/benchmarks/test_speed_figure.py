"""The figure of `python -m benchmarks.peers`: bars of different panels can be compared by eye."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.peers.report import speed_figure

BENCH = Path(__file__).parents[2] / "docs" / "results" / "bench.json"


def limits(*fastest: float) -> list[tuple[float, float]]:
    content = json.loads(BENCH.read_text())
    plain, ours = content["sections"][0]["ways"][0], content["sections"][0]["ways"][-1]

    def section(most: float) -> dict[str, Any]:
        ratio = {"median": most, "least": most, "most": most}
        return {"device": "cpu", "threads": 1, "ways": [plain, {**ours, "times_plain": ratio}]}

    figure = speed_figure({**content, "sections": [section(most) for most in fastest]})
    return [axis.get_xlim() for axis in figure.axes]


def test_a_panel_of_another_order_keeps_its_own() -> None:
    one, two, gpu = limits(5.0, 12.0, 2000.0)
    assert one == two
    assert one[1] < 50
    assert gpu[1] > 2000
