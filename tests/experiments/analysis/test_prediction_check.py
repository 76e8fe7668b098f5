"""`fedwave predict --check`: predictions beside what a run has learnt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from scipy.stats import spearmanr
from trained_run import RULES, trained_run

import fedwave as fw
from fedwave.experiments.analysis.prediction_check import (
    PREDICTORS,
    CheckedPoint,
    PredictionCheck,
    check_prediction,
    rank_correlations,
)
from fedwave.experiments.report.figures.prediction import prediction_figure


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("runs") / "run")


def test_predictors_are_those_of_the_trained_schedules(folder: Path) -> None:
    found, data = check_prediction(folder), fw.load(folder)
    assert [[str(v) for v in point.where.values()] for point in found.points] == [[r] for r in RULES]
    for rule, point in zip(RULES, found.points, strict=True):
        trained = data.sel({"task.aggregation": rule})
        assert point.schedulers == ("fresh", "mass", "round-robin", "w-max")
        for s, label in enumerate(point.schedulers):
            name = f"mass:aggregation={rule}" if label == "mass" else label
            trace = fw.simulate(fw.paper_network(), name, 7, [3, 4], seed=1)
            own = {name: values[s] for name, values in point.predicted.items()}
            np.testing.assert_allclose(own["useful mass"], fw.predict(trace, rule))
            np.testing.assert_allclose(own["score"], trace.score.sum(axis=0))
            np.testing.assert_allclose(own["small backlog"], -trace.backlog.sum(axis=0))
            fresh = (trace.arrivals * trace.delivered).sum(axis=(0, 2))
            np.testing.assert_allclose(own["fresh shards"], fresh)
            learnt = trained["accuracy"].sel(scheduler=label).transpose("round", "instance")
            np.testing.assert_allclose(point.learnt[s], learnt[-5:].mean("round").values)


def test_ranks_are_compared_within_an_instance() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, (2, 7, 5)).astype(float)  # with ties
    wanted = [spearmanr(a[:, i], b[:, i])[0] for i in range(5)]
    np.testing.assert_allclose(rank_correlations(a, b), wanted, rtol=1e-12)
    assert rank_correlations(np.ones((3, 1)), a[:3, :1]).tolist() == [0]


def point(learnt: list[float], **where: str) -> CheckedPoint:
    accuracy = np.broadcast_to(np.array(learnt)[None, :, None], (6, len(learnt), 2))
    values = np.arange(2 * len(learnt), dtype=float).reshape(-1, 2)
    names = tuple(f"s{k}" for k in range(len(learnt)))
    useful = np.broadcast_to(values, (6, *values.shape))
    return CheckedPoint(where, names, dict.fromkeys(PREDICTORS, values), useful, accuracy)


def test_a_run_that_diverged_is_the_worst() -> None:
    assert point([0.1, 0.5, 0.9]).correlation("score").mean == pytest.approx(1)
    assert point([np.nan, 0.5, 0.9]).correlation("score").mean == pytest.approx(1)
    assert point([0.5, 0.9, np.nan]).correlation("score").mean == pytest.approx(-0.5)


def test_all_points_count_alike() -> None:
    found = PredictionCheck("x", (point([0.1, 0.5, 0.9], a="1"), point([0.9, 0.5, 0.1], a="2")))
    assert found.overall("score").mean == pytest.approx(0)
    heading, rows = found.table()
    assert heading[1:] == list(PREDICTORS)
    assert [row[0] for row in rows][-1] == "all 2"
    assert prediction_figure(found).axes[1].get_title(loc="left") == "2"


def test_a_run_without_training_or_order_is_refused(tmp_path: Path) -> None:
    fw.run({"schedulers": ["age"], "rounds": 2, "instances": 1}, tmp_path / "a", workers=1)
    with refused("training"):
        check_prediction(tmp_path / "a")
    task = {"dataset": "synthetic:train=50,test=20", "model": "logistic"}
    how = {"schedulers": ["age", "fresh"], "rounds": 1, "instances": 1, "task": task}
    fw.run(how, tmp_path / "b", workers=1)
    with refused("2 schedulers"):
        check_prediction(tmp_path / "b")


def test_as_many_right_answers_are_a_tie() -> None:
    """Means of the same counts differ in the last digit with their order."""
    hits = np.array([[1817, 1833, 1826, 1871, 1819], [1, 2, 3, 4, 5]])
    orders = [np.random.default_rng(k).permutation(5) for k in range(200)]
    means = {float((hits[0][order] / 2000).mean()) for order in orders}
    assert len(means) > 1
    for order in orders:
        accuracy = np.stack([hits[0], hits[0][order], hits[1]])[:, :, None] / 2000
        nothing = np.zeros((5, 3, 1))
        point = CheckedPoint({}, ("a", "b", "c"), {}, nothing, accuracy.transpose(1, 0, 2))
        assert point.learnt[0] == point.learnt[1] > point.learnt[2]


def test_where_all_learnt_the_same_there_is_no_order() -> None:
    predicted = {name: np.array([[1.0, 1], [2, 2], [3, 3]]) for name in PREDICTORS}
    learnt = np.array([[0.1, 0.2], [0.1, 0.3], [0.1, 0.4]])  # the first instance: all the same
    curve = np.broadcast_to(learnt, (5, 3, 2))
    one = CheckedPoint({}, ("a", "b", "c"), predicted, curve, curve)
    found = one.correlation(PREDICTORS[0])
    assert (found.mean, found.instances) == (1.0, 1)
    nothing = np.full((5, 3, 2), np.nan)  # diverged
    other = CheckedPoint({}, ("a", "b", "c"), predicted, nothing, nothing)
    assert np.isnan(other.correlation(PREDICTORS[0]).mean)
    both = PredictionCheck("some", (one, other))
    assert both.overall(PREDICTORS[0]).mean == 1.0
    assert both.table()[1][1][1] == "-"
    assert np.isnan(PredictionCheck("none", (other,)).overall(PREDICTORS[0]).mean)
