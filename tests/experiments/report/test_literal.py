"""Names in figures are drawn letter by letter: no formulas, no TeX, no warnings about fonts."""

from __future__ import annotations

import io
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.text import Text

import fedwave as fw
from fedwave.experiments.report.figures.common import figure_with, label_panel
from fedwave.experiments.report.figures.comparison import comparison_figure
from fedwave.experiments.report.figures.sweep import bands_figure

HOSTILE = [
    "$x_$",
    r"$\frac{1}{0}$",
    r"\frac",
    "a_b^c",
    "$$",
    "\\$",
    "tab\tbell\x07\x00",
    "\ud800",
    "\u202eevil",
    "漢字😀",
    "_hidden",
    "x" * 5000,
]


def drawn(figure, ending: str) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(file, format=ending)
    return file.getvalue()


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_can_be_drawn_anywhere(name: str) -> None:
    band = np.array([1.0, 2.0]), np.array([0.1, 0.1])
    figure = bands_figure([name, "other"], {name: band, "age": band}, (name, name, name), name)
    drawn(figure, "png")
    ElementTree.fromstring(drawn(figure, "svg"))
    shown = [text.get_text() for text in figure.findobj(Text)]
    assert all("\x07" not in text and "\ud800" not in text and "\u202e" not in text for text in shown)
    if name in ("$x_$", r"$\frac{1}{0}$", "$$", "\\$", "_hidden"):
        assert sum(text.strip() == name for text in shown) >= 5  # axes, tick, legend, title, caption


def test_a_dollar_costs_as_much_room_as_a_letter() -> None:
    """As a formula, $iiii$ would be narrower than the six letters that it is."""

    def width(title: str) -> float:
        figure, (axis,) = figure_with(1, 1, (4, 3))
        label_panel(axis, title, "", "")
        drawn(figure, "png")
        found = next(text for text in figure.findobj(Text) if text.get_text() == title)
        return found.get_window_extent().width

    assert width("$iiii$") > width("iiii") + 2 * width("i")


def test_powers_of_ten_stay_formulas() -> None:
    figure, (axis,) = figure_with(1, 1, (4, 3))
    axis.plot([1, 1e6], [1, 1e6])
    axis.set_yscale("log")
    drawn(figure, "png")
    drawn(figure, "png")  # the second time the labels are there before
    labels = [label for label in axis.get_yticklabels() if label.get_text()]
    assert labels
    assert all(label.get_parse_math() for label in labels)


def test_names_are_not_tex_even_where_the_user_wants_tex() -> None:
    figure, (axis,) = figure_with(1, 1, (4, 3))
    with rc_context({"text.usetex": True}):
        label_panel(axis, "a_b", "", "")
    drawn(figure, "png")


def test_a_comparison_with_hostile_names() -> None:
    network = fw.paper_network()
    found = fw.compare(network, {"$x_$": "age", "<b>\x1b[2J</b>": "w-max"}, rounds=4, instances=2)
    drawn(found.plot("backlog"), "svg")
    drawn(comparison_figure(found, ["score"]), "png")
    assert "<b>" not in found._repr_html_()
