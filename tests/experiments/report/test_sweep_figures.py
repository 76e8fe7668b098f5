"""What the figure of a sweep shows is what it was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from refusals import mentions

import fedwave as fw
from fedwave.experiments.report.figures.common import save_figure
from fedwave.experiments.report.figures.sweep import bands_figure

ALL = fw.scheduler_names(standalone=True)
SLOTS = [1, 2, 3, 5, 8]


def draw(values: Any, series: dict[str, Any], caption: str = "A caption.") -> tuple[Figure, Axes]:
    """Series are means, or pairs of means and half-widths."""
    bands = {}
    for label, given in series.items():
        mean, half = given if isinstance(given, tuple) else (given, np.full(len(given), 0.1))
        bands[label] = (np.asarray(mean, dtype=float), np.asarray(half, dtype=float))
    figure = bands_figure(values, bands, ("", "Slots", "Score"), caption)
    figure.draw_without_rendering()
    return figure, figure.axes[0]


def lines(axes: Axes) -> dict[str, Line2D]:
    named = {str(line.get_label()): line for line in axes.get_lines()}
    return {label: line for label, line in named.items() if not label.startswith("_")}


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 0, 2, 1, 3]], ids=["in order", "out of order"])
def test_lines_and_bands_are_the_numbers_given_in_order(order: list[int]) -> None:
    mean, half = np.array([3.0, 5.0, 6.0, 6.5, 6.6]), np.array([0.5, 0.4, 0.3, 0.2, 0.1])
    figure, axes = draw([SLOTS[k] for k in order], {"balsa": (mean[order], half[order])})
    line = lines(axes)["BALSA"]
    assert np.array_equal(line.get_xdata(), SLOTS)
    assert np.array_equal(line.get_ydata(), mean)
    (fill,) = (c for c in axes.collections if isinstance(c, PolyCollection))
    corners = fill.get_paths()[0].vertices
    for x, low, high in zip(SLOTS, mean - half, mean + half, strict=True):
        at = np.asarray(corners)[np.asarray(corners)[:, 0] == x, 1]
        assert at.min() == pytest.approx(low)
        assert at.max() == pytest.approx(high)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Slots", "Score")
    assert figure.get_supxlabel() == "A caption."


def test_the_legend_covers_nothing_and_all_of_it_is_on_the_page() -> None:
    figure, axes = draw(SLOTS, {name: np.arange(5.0) for name in ALL})
    box, page = figure.legends[0].get_window_extent(), figure.bbox
    assert box.x0 >= axes.get_window_extent().x1
    assert page.x0 <= box.x0 < box.x1 <= page.x1
    assert page.y0 <= box.y0 < box.y1 <= page.y1


def test_the_legend_reads_from_top_to_bottom() -> None:
    figure, _ = draw([1, 2], {"age": [1.0, 2.0], "fresh": [9.0, 8.0], "random": [np.nan, 5.0]})
    assert legend(figure) == ["fresh", "random", "age"]


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1, 2, 20], "linear"),
        ([1, 2, 21], "log"),
        ([0, 2, 2100], "linear"),
        ([-1, 2, 21], "linear"),
        ([0.001, 0.01, 0.1], "log"),
    ],
)
def test_wide_positive_axes_are_logarithmic(values: list[float], scale: str) -> None:
    _, axes = draw(values, {"age": [1.0, 2.0, 3.0]})
    assert axes.get_xscale() == scale
    if scale == "log":
        assert np.allclose(axes.get_xticks(), values)
        assert [t.get_text() for t in axes.get_xticklabels()] == [f"{v:g}" for v in values]


@pytest.mark.parametrize("values", [["rayleigh", "rician"], [None, 20], ["1", "100"], [True, False], [1, float("inf")]])
def test_what_is_not_a_number_is_a_category(values: list[Any]) -> None:
    _, axes = draw(values, {"age": ([1.0, 2.0], [0.5, 0.25]), "fresh": [3.0, 4.0]})
    assert [t.get_text() for t in axes.get_xticklabels()] == [str(v) for v in values]
    assert axes.get_xscale() == "linear"
    points = {str(c.get_label()): c for c in axes.containers}
    own, other = (points[name].lines[0] for name in ("age", "fresh"))
    assert own.get_linestyle() == "None"  # nothing lies between two categories
    assert np.array_equal(np.round(own.get_xdata()), [0, 1])
    assert (own.get_xdata() != other.get_xdata()).all()  # side by side
    (bars,) = points["age"].lines[2]
    assert [s[:, 1].tolist() for s in bars.get_segments()] == [[0.5, 1.5], [1.75, 2.25]]


def test_long_categories_do_not_run_into_each_other() -> None:
    values = [f"negative-binomial:dispersion={k}" for k in range(5)]
    _, axes = draw(values, {"age": np.arange(5.0)})
    assert {t.get_rotation() for t in axes.get_xticklabels()} == {20}


def test_one_value_is_a_point_with_its_interval() -> None:
    _, axes = draw([5], {"age": ([4.0], [1.0])})
    (bars,) = axes.containers[0].lines[2]
    assert bars.get_segments()[0][:, 1].tolist() == [3, 5]


def test_missing_means_leave_gaps_and_missing_widths_no_band(tmp_path: Path) -> None:
    gap = np.array([1.0, np.nan, 3.0, np.inf, 5.0])
    none = np.full(5, np.nan)
    series = {"age": (gap, none), "fresh": (none, none)}
    figure, axes = draw(SLOTS, series)
    shown = lines(axes)["age"].get_ydata()
    assert np.array_equal(shown, [1, np.nan, 3, np.nan, 5], equal_nan=True)
    assert all(not len(c.get_paths()) for c in axes.collections)
    for values in (SLOTS, list("abcde")):
        figure, _ = draw(values, series)
        assert len(save_figure(figure, tmp_path / "gaps")) == 2
        draw(values, {"fresh": (none, none)})


@pytest.mark.parametrize(
    ("half", "bottom", "top"), [(0.1, (8, 9.9), (14.6, 16)), (4.0, (4, 6), (18, 21))], ids=["narrow", "wide bands"]
)
def test_one_that_collapses_does_not_flatten_the_others(
    half: float, bottom: tuple[float, float], top: tuple[float, float]
) -> None:
    series = {name: (10 + 0.1 * k + np.arange(5.0), np.full(5, half)) for k, name in enumerate(ALL[:6])}
    figure, axes = draw(SLOTS, {**series, "w-max": [-900.0, -500.0, -90.0, 5.0, 12.0]})
    for end, (low, high) in zip(axes.get_ylim(), (bottom, top), strict=True):
        assert low < end < high  # the frame holds the bands of those that it keeps
    assert figure.get_supxlabel() == "A caption.\nPartly or wholly beyond the frame: W-max."


def test_where_half_go_far_all_are_shown() -> None:
    steep = np.array([10.0, 10.0, 10.1, 9.9, -200.0])
    for series in ({"age": steep}, {"age": steep, "balsa": np.full(5, 10.0)}):
        figure, axes = draw(SLOTS, series)
        assert axes.get_ylim()[0] < -200
        assert figure.get_supxlabel() == "A caption."


def test_a_wide_positive_metric_is_logarithmic_and_zero_is_named() -> None:
    series = {"age": [700.0, 90.0, 20.0], "bench": [0.0, 0.0, 0.0]}
    figure, axes = draw([1, 2, 3], series)
    assert axes.get_yscale() == "log"
    assert axes.get_ylim()[0] < 20 < 700 < axes.get_ylim()[1]
    assert mentions(figure.get_supxlabel(), "Zero", "Bench")
    for linear in ([700.0, 90.0, 36.0], [700.0, 1.0, -1.0]):
        _, axes = draw([1, 2, 3], {"age": linear})
        assert axes.get_yscale() == "linear"
