"""Section V of the paper on one page, from the committed results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedwave.paper.compact import Compact, compact_in, read_compact
from fedwave.paper.section_v import on_page, section_figure

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture(scope="module")
def found() -> list[Compact]:
    return [read_compact(path) for path in compact_in(RESULTS)]


def test_the_page_shows_every_figure_of_section_v(found: list[Compact]) -> None:
    assert [(one.name, one.kind) for one in found] == [(kind, kind) for kind in ("score", "mnist", "cifar10")]
    figure = section_figure(found)
    figure.draw_without_rendering()
    assert tuple(figure.get_size_inches()) == (8.27, 11.69)
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    for number in (2, 3, 4, 5):
        assert any(title.startswith(f"Fig. {number}") for title in titles)
    assert len(titles) == 14
    words = [t for t in figure.findobj(lambda x: hasattr(x, "get_fontsize")) if t.get_text()]
    assert min(text.get_fontsize() for text in words) >= 7
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["Bench", "ALSA-PI", "BALSA", "BALSA-PO", "RR", "W-max"]
    for axis in figure.axes:  # told apart without colour too
        looks = [(x.get_marker(), str(x.get_linestyle())) for x in axis.get_lines() if x.get_marker() != "None"]
        assert len(set(looks)) == len(looks)
    assert figure.get_supxlabel().count("Bands: ") == 1


def test_of_two_results_the_page_shows_the_first(found: list[Compact]) -> None:
    first = next(one for one in found if one.kind == "mnist")
    assert first.learnt is not None
    halved = first.learnt.data.assign(accuracy=first.learnt.data["accuracy"] / 2)
    other = replace(first, name="other", learnt=replace(first.learnt, data=halved))

    def lines(some: list[Compact]) -> list[list[float]]:
        return [np.nan_to_num(x.get_ydata()).tolist() for axis in section_figure(some).axes for x in axis.get_lines()]

    assert lines([first, other]) == lines([first]) != lines([other])
    assert on_page([first, other]) == {"mnist": [first, other]}
    unknown = replace(first, learnt=replace(first.learnt, dataset="mine"))
    assert on_page([unknown]) == {}
