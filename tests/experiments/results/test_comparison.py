from __future__ import annotations

import numpy as np
import pytest

import fedwave as fw
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.results.comparison import metrics, table
from fedwave.experiments.results.outcome import Outcome
from fedwave.experiments.results.statistics import jain
from fedwave.experiments.run.runner import run_experiment

NAMES = ("alsa-pi", "max-weight", "bench")


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    experiment = Experiment(schedulers=NAMES, rounds=60, instances=8, seed=3, block=5)
    return dict(run_experiment(experiment, workers=1).only.outcomes)


@pytest.fixture(scope="module")
def traces() -> dict[str, fw.Trace]:
    """The same, with everything written down."""
    return {name: fw.simulate(fw.paper_network(), name, 60, 8, 3) for name in NAMES}


def test_every_scheduler_meets_the_same_worlds(
    outcomes: dict[str, Outcome], traces: dict[str, fw.Trace]
) -> None:
    assert list(outcomes) == list(NAMES)
    for name in NAMES:
        assert outcomes[name].same_as(Outcome.of(traces[name]))
        assert np.array_equal(traces[name].gain, traces["bench"].gain)
        assert np.array_equal(traces[name].arrivals, traces["bench"].arrivals)


def test_metrics_follow_from_the_trace(
    outcomes: dict[str, Outcome], traces: dict[str, fw.Trace]
) -> None:
    trace = traces["alsa-pi"]
    values = metrics(outcomes["alsa-pi"])
    held = trace.waiting + trace.arrivals
    learned = np.where(trace.delivered, held, 0)
    assert np.allclose(
        values["delivered"], learned.sum(axis=(0, 2)) / trace.arrivals.sum(axis=(0, 2))
    )
    assert np.allclose(values["score"], trace.score.mean(axis=0))
    assert np.allclose(values["jain"], jain(trace.delivered.sum(axis=0)))
    assert np.allclose(values["mean_age"], trace.delay.mean(axis=(0, 2)))
    assert np.array_equal(values["worst_age"], trace.delay.max(axis=(0, 2)))
    late = metrics(outcomes["alsa-pi"], burn_in=50)
    assert np.allclose(late["backlog"], trace.backlog[50:].mean(axis=0))
    assert np.allclose(late["mean_age"], trace.delay[50:].mean(axis=(0, 2)))


def test_differences_are_paired(outcomes: dict[str, Outcome]) -> None:
    rows = {row.label: row for row in table(outcomes, "alsa-pi")}
    by_hand = outcomes["max-weight"].score.mean(axis=0) - outcomes["alsa-pi"].score.mean(axis=0)
    assert rows["max-weight"].score_difference.mean == pytest.approx(by_hand.mean())
    # Student t with 7 degrees of freedom reaches 2.364624 standard errors.
    half = 2.364624 * by_hand.std(ddof=1) / 8**0.5
    assert rows["max-weight"].score_difference.half_width == pytest.approx(half, rel=1e-6)
    assert rows["alsa-pi"].score_difference.half_width == 0
    assert rows["bench"].values["delivered"].mean == 1


def test_bad_requests_are_refused_in_a_sentence(outcomes: dict[str, Outcome]) -> None:
    with pytest.raises(fw.FedwaveError, match="schedulers is empty: name at least one"):
        Experiment(schedulers=())
    with pytest.raises(
        fw.FedwaveError, match="burn_in is 60, must lie between 0 and the 60 rounds"
    ):
        metrics(outcomes["bench"], burn_in=60)
    with pytest.raises(fw.FedwaveError, match="'age', which is not among the schedulers"):
        table(outcomes, "age")
