from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import fedwave as fw
from fedwave.experiments.score import run_score, score_curves, write_score
from fedwave.experiments.statistics import estimate


@pytest.fixture(scope="module")
def traces() -> dict[str, fw.Trace]:
    return run_score(rounds=40, instances=4, seed=2)


@pytest.fixture(scope="module")
def folder(traces: dict[str, fw.Trace], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("score") / "new" / "folder"
    write_score(traces, out, seed=2)
    return out


def test_all_schedulers_run_those_of_the_paper_first(traces: dict[str, fw.Trace]) -> None:
    assert list(traces)[:6] == ["bench", "alsa-pi", "balsa", "balsa-po", "round-robin", "w-max"]
    assert set(traces) == set(fw.scheduler_names(learner=False))


def test_curves_by_hand(traces: dict[str, fw.Trace]) -> None:
    curve = score_curves(traces["balsa"], traces["alsa-pi"])
    difference = traces["balsa"].score[:30].mean(axis=0) - traces["alsa-pi"].score[:30].mean(axis=0)
    by_hand = estimate(difference)
    assert curve.difference[0][29] == pytest.approx(by_hand.mean)
    assert curve.difference[1][29] == pytest.approx(by_hand.half_width)
    assert curve.recent[0][-1] == pytest.approx(traces["balsa"].score[15:].mean())


def test_files_are_complete(folder: Path, traces: dict[str, fw.Trace]) -> None:
    names = {path.name for path in folder.iterdir()}
    figures = {f"figure2{which}.{ending}" for which in ("", "-all") for ending in ("png", "svg")}
    assert names == figures | {"rounds.csv", "instances.csv", "summary.json"}
    assert (folder / "figure2.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "figure2.svg").read_text()


def test_csv_holds_the_curves(folder: Path, traces: dict[str, fw.Trace]) -> None:
    with open(folder / "rounds.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40 * len(traces)
    mine = [row for row in rows if row["scheduler"] == "w-max"]
    assert float(mine[9]["backlog_mean"]) == pytest.approx(
        traces["w-max"].backlog[9].mean(), rel=1e-5
    )
    with open(folder / "instances.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    scores = [float(row["score"]) for row in rows if row["scheduler"] == "balsa"]
    assert np.allclose(scores, traces["balsa"].score.mean(axis=0))


def test_summary_is_json(folder: Path, traces: dict[str, fw.Trace]) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["seed"] == 2
    assert summary["schedulers"]["age"]["score"]["mean"] == pytest.approx(
        traces["age"].score.mean()
    )


def test_same_results_give_the_same_figure(
    folder: Path, traces: dict[str, fw.Trace], tmp_path: Path
) -> None:
    write_score(traces, tmp_path, seed=2)
    assert (tmp_path / "figure2.png").read_bytes() == (folder / "figure2.png").read_bytes()
