from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import fedwave as fw
from fedwave.experiments.analysis.statistics import estimate
from fedwave.experiments.config.read import load_experiment
from fedwave.experiments.report.figures.score import Scores, score_bands, score_figure
from fedwave.experiments.report.outputs import write_results, write_score
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.dataset import Point, Results, scheduler_labels, series


@pytest.fixture(scope="module")
def results() -> Results:
    asked = load_experiment("paper-score", ["rounds=40", "instances=4", "seed=2"])
    return run_experiment(asked, workers=1)


@pytest.fixture(scope="module")
def point(results: Results) -> Point:
    return results.only


@pytest.fixture(scope="module")
def folder(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("score") / "new" / "folder"
    write_results(results, out)
    return out


def test_bands_by_hand(point: Point) -> None:
    bands = score_bands(point.data, "balsa", "alsa-pi")
    traces = [fw.simulate(fw.paper_network(), name, 40, 4, 2) for name in ("balsa", "alsa-pi")]
    mine, base = (trace.score[:30].mean(axis=0) for trace in traces)
    by_hand = estimate(mine - base)
    assert bands["running_difference"][0][29] == pytest.approx(by_hand.mean)
    assert bands["running_difference"][1][29] == pytest.approx(by_hand.half_width)
    assert bands["backlog"][0] == pytest.approx(traces[0].backlog.mean(axis=1))


def test_the_figure_shows_the_bands_and_the_labels_of_the_metrics(point: Point) -> None:
    data = point.data.sel(scheduler=["alsa-pi", "balsa"])
    figure = score_figure(Scores.of(data, "alsa-pi"), "A caption.")
    first, running, difference, backlog = figure.axes
    assert (first.get_ylabel(), backlog.get_ylabel()) == ("Score", "Backlog (shards)")
    assert difference.get_ylabel() == "Difference from ALSA-PI"
    assert figure.get_supxlabel() == "A caption."
    bold = {line.get_label(): line for line in first.get_lines()}["BALSA"]
    assert bold.get_xdata()[-1] == 40
    recent = series(point.data, "balsa", "score")[32:].mean()  # a fifth of the rounds
    assert bold.get_ydata()[-1] == pytest.approx(recent)
    shown = {line.get_label(): line.get_ydata() for line in running.get_lines()}
    assert shown["BALSA"] == pytest.approx(score_bands(data, "balsa", "alsa-pi")["running"][0])


def test_files_are_complete(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    drawn = ("score", "score-paper", "devices")
    figures = {f"{name}.{ending}" for name in drawn for ending in ("png", "svg")}
    tables = {"rounds.csv", "instances.csv", "summary.json", "summary.csv", "table.md", "table.tex"}
    assert names == figures | tables | {"devices.csv", "results.nc", "SHA256SUMS"}
    assert (folder / "score.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "score.svg").read_text()
    # Text is drawn as shapes; matplotlib notes what it was beside them.
    assert "Fig. 2 of Lee" in (folder / "score-paper.svg").read_text()


def test_csv_holds_the_bands(folder: Path, point: Point) -> None:
    with open(folder / "rounds.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40 * len(scheduler_labels(point.data))
    mine = [row for row in rows if row["scheduler"] == "w-max"]
    assert float(mine[9]["backlog_mean"]) == pytest.approx(series(point.data, "w-max", "backlog")[9].mean(), rel=1e-5)
    with open(folder / "instances.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    scores = [float(row["score"]) for row in rows if row["scheduler"] == "balsa"]
    assert np.allclose(scores, series(point.data, "balsa", "score").mean(axis=0))


def test_same_results_give_the_same_figure(folder: Path, point: Point, tmp_path: Path) -> None:
    write_score(point, tmp_path)
    for name in ("score.png", "score.svg", "rounds.csv"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
