"""Figures can be read: no two schedulers look alike, titles say what was run, ticks and labels are for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from refusals import mentions

import fedwave as fw
from fedwave.experiments.analysis.captions import field_name
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.report.figures import common
from fedwave.experiments.report.figures.comparison import rounds_figure
from fedwave.experiments.report.figures.devices import devices_figure
from fedwave.experiments.report.figures.score import Scores, score_figure
from fedwave.experiments.report.figures.sweep import sweep_figure
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.dataset import Point, Results, scheduler_labels

OWN = [f"alpha-fresh:alpha=0.{k}" for k in range(1, 8)] + ["stubborn", "mine"]
TITLE = "U = 6, W = 2, γ = 0.5, 8 rounds, 2 instances, seed 3"


def looks(schedulers: Sequence[str]) -> list[tuple[Any, ...]]:
    return [(s["color"], str(s["linestyle"]), s["marker"]) for s in common.styles(schedulers).values()]


def run(**more: Any) -> Results:
    asked = {
        "network": {"kind": "random", "devices": 6, "slots": 2, "gamma": 0.5},
        "schedulers": ["alsa-pi", "alpha-fresh:alpha=0.3", "bench"],
        "rounds": 8,
        "instances": 2,
        "seed": 3,
    }
    return run_experiment(experiment_from(asked | more), workers=1)


@pytest.fixture(scope="module")
def point() -> Point:
    return run().only


def test_no_two_schedulers_look_alike() -> None:
    every = [*fw.scheduler_names(), *OWN]
    assert len(every) > 25
    assert len(set(looks(every))) == len(every)
    # Colour and dashes alone tell 28 apart, without the markers.
    assert len({look[:2] for look in looks(every[:28])}) == len(every[:28])
    few = looks(["alsa-pi", "stubborn", "mine", "balsa"])
    assert len({look[0] for look in few}) == 4  # a colour each where there are few


def test_a_built_in_scheduler_looks_the_same_everywhere() -> None:
    alone, among = common.styles(["balsa"]), common.styles([*OWN, "age", "balsa"])
    assert alone["balsa"] == among["balsa"]
    # That of a user's own depends on the run, not on what happens to be registered.
    before = common.styles(["alsa-pi", "not-registered"])
    assert before == common.styles(["alsa-pi", "not-registered"])


def test_every_scheduler_is_in_the_first_figure_in_its_look(point: Point) -> None:
    wanted = common.styles(scheduler_labels(point.data))
    figure = score_figure(Scores.of(point.data, "alsa-pi"), "")
    names = {common.name_of(label): look for label, look in wanted.items()}
    for axis in figure.axes:
        drawn = {str(line.get_label()): line for line in axis.get_lines()}
        assert set(names) <= set(drawn)
        for name, look in names.items():
            assert (drawn[name].get_color(), drawn[name].get_marker()) == (look["color"], look["marker"])
    paper = score_figure(Scores.of(point.data, "alsa-pi"), "", shown=["alsa-pi"])
    (line,) = [x for x in paper.axes[1].get_lines() if x.get_label() == "ALSA-PI"]
    assert line.get_color() == wanted["alsa-pi"]["color"]


def test_every_figure_says_what_was_run(point: Point) -> None:
    drawn = [
        score_figure(Scores.of(point.data, "alsa-pi"), ""),
        rounds_figure(point, ["jain"]),
        devices_figure(point.data),
    ]
    assert [figure.legends[0].get_title().get_text() for figure in drawn] == [TITLE] * 3
    found = fw.compare(fw.paper_network(), ["age"], rounds=5, instances=1)
    heads = found.plot().legends[0].get_title().get_text().replace("\n", " ")
    assert heads == found.title
    assert mentions(heads, "U = 25", "W = 5", "5 rounds", "1 instance", "seed 0")
    slots = fw.compare(fw.paper_network(slots=[3, 5, 4]), ["age"], rounds=3, instances=1)
    assert "W = 3 to 5," in slots.title


def test_a_sweep_states_what_is_not_varied() -> None:
    swept = run(sweep={"network.slots": [1, 2], "network.fading": ["rayleigh", "rician"]})
    figure = sweep_figure([swept.points[0], swept.points[2]], "network.slots", "backlog")
    (axis,) = figure.axes
    title = axis.get_title(loc="left")
    assert mentions(title, "Fading = rayleigh", "U = 6", "8 rounds", "2 instances", "seed 3")
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("Slots W", "Backlog (shards)")


def test_legends_hide_nothing(point: Point) -> None:
    for figure in (score_figure(Scores.of(point.data, "alsa-pi"), "A caption."), devices_figure(point.data)):
        figure.draw_without_rendering()
        (legend,) = figure.legends
        box = legend.get_window_extent()
        for axis in figure.axes:
            assert not box.overlaps(axis.get_window_extent())
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1


def test_rounds_are_whole_numbers() -> None:
    short = run(rounds=3).only
    for axis in rounds_figure(short, ["jain", "uploads"]).axes:
        ticks = axis.get_xticks()
        assert (ticks == np.round(ticks)).all()


@pytest.mark.parametrize(
    "low, high, wanted",
    [
        (50, 4000, ["50", "100", "200", "500", "1,000", "2,000"]),
        (6, 9, ["6", "7", "8", "9"]),
        (1, 1e6, ["1", "10", "100", "1,000"]),
    ],
)
def test_logarithmic_axes_have_plain_numbers(low: float, high: float, wanted: list[str]) -> None:
    figure, (axis,) = common.figure_with(1, 1, (5, 4))
    axis.set_yscale("log")
    axis.set_ylim(low, high)
    common.plain_numbers(axis.yaxis)
    figure.draw_without_rendering()
    shown = [text.get_text() for text in axis.get_yticklabels()]
    assert [text for text in wanted if text not in shown] == []
    assert not any("10^" in text or "times" in text for text in shown)
    assert not any(text.get_text() for text in axis.get_yticklabels(minor=True))


def test_bands_of_counts_end_at_zero(point: Point) -> None:
    for axis in rounds_figure(point, ["uploads", "jain", "backlog"]).axes:
        for area in axis.collections:
            assert min(path.vertices[:, 1].min() for path in area.get_paths()) >= 0


def test_axes_have_words_for_people() -> None:
    names = {
        "network.slots": "Slots W",
        "network.set.buffer_limit": "Buffer limit (shards)",
        "task.eta": "Learning rate η",
        "network.fading.k_factor": "Fading: k factor",
        "checkpoint_seconds": "Checkpoint seconds",
    }
    assert {axis: field_name(axis) for axis in names} == names
    assert fw.simulate(fw.paper_network(), "age", 2, 1).metrics["uploads"].label == "Uploads delivered per round"
