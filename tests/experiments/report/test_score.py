from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import fedwave as fw
from fedwave.experiments.config.read import load_experiment
from fedwave.experiments.report.score import score_curves, write_score
from fedwave.experiments.results.outcome import Outcome
from fedwave.experiments.results.statistics import estimate
from fedwave.experiments.run.runner import Point, run_experiment


@pytest.fixture(scope="module")
def point() -> Point:
    asked = load_experiment("paper-score", ["rounds=40", "instances=4", "seed=2"])
    return run_experiment(asked, workers=1).only


@pytest.fixture(scope="module")
def outcomes(point: Point) -> dict[str, Outcome]:
    return dict(point.outcomes)


@pytest.fixture(scope="module")
def folder(point: Point, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("score") / "new" / "folder"
    write_score(point, out)
    return out


def test_all_schedulers_run_those_of_the_paper_first(outcomes: dict[str, Outcome]) -> None:
    assert list(outcomes)[:6] == ["bench", "alsa-pi", "balsa", "balsa-po", "round-robin", "w-max"]
    for_large = [n for n in fw.scheduler_names(learner=False) if not fw.scheduler(n).small_only]
    assert set(outcomes) == set(for_large)


def test_curves_by_hand(outcomes: dict[str, Outcome]) -> None:
    curve = score_curves(outcomes["balsa"], outcomes["alsa-pi"])
    mine, base = (outcomes[name].score[:30].mean(axis=0) for name in ("balsa", "alsa-pi"))
    by_hand = estimate(mine - base)
    assert curve.difference[0][29] == pytest.approx(by_hand.mean)
    assert curve.difference[1][29] == pytest.approx(by_hand.half_width)
    assert curve.recent[0][-1] == pytest.approx(outcomes["balsa"].score[15:].mean())


def test_files_are_complete(folder: Path, outcomes: dict[str, Outcome]) -> None:
    names = {path.name for path in folder.iterdir()}
    figures = {f"figure2{which}.{ending}" for which in ("", "-all") for ending in ("png", "svg")}
    assert names == figures | {"rounds.csv", "instances.csv", "summary.json"}
    assert (folder / "figure2.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "figure2.svg").read_text()


def test_csv_holds_the_curves(folder: Path, outcomes: dict[str, Outcome]) -> None:
    with open(folder / "rounds.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40 * len(outcomes)
    mine = [row for row in rows if row["scheduler"] == "w-max"]
    assert float(mine[9]["backlog_mean"]) == pytest.approx(
        outcomes["w-max"].backlog[9].mean(), rel=1e-5
    )
    with open(folder / "instances.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    scores = [float(row["score"]) for row in rows if row["scheduler"] == "balsa"]
    assert np.allclose(scores, outcomes["balsa"].score.mean(axis=0))


def test_summary_is_json(folder: Path, outcomes: dict[str, Outcome]) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["seed"], summary["rounds"], summary["instances"]) == (2, 40, 4)
    assert summary["schedulers"]["age"]["score"]["mean"] == pytest.approx(
        outcomes["age"].score.mean()
    )


def test_same_results_give_the_same_figure(folder: Path, point: Point, tmp_path: Path) -> None:
    write_score(point, tmp_path)
    for name in ("figure2.png", "figure2.svg", "rounds.csv"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
