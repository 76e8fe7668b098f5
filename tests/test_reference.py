"""The long-run backlogs of the paper's network, within three standard errors of the reference values.

`make reference` runs the same at full size (600 instances x 2000 rounds after 300 of burn-in).
"""

from __future__ import annotations

import pytest

import fedwave as fw
from benchmarks.reference import BACKLOGS, distance, mean_backlogs
from fedwave.experiments.analysis.statistics import estimate, paired_difference


@pytest.mark.parametrize("scheduler", BACKLOGS)
def test_mean_backlog(scheduler: str) -> None:
    measured = estimate(mean_backlogs(scheduler, 700, 300, range(120), seed=11))
    assert abs(distance(measured, BACKLOGS[scheduler])) < 3
    # The interval must be sharp enough to tell this policy from its neighbour in the table.
    assert measured.standard_error < 0.006 * measured.mean


# Paired over rounds 1-1000: how much lower the score is, and its standard error, as the references give it.
SCORE_LOSS = {
    "balsa": (0.004, 0.001),
    "balsa:stage_rule=max1": (0.0055, 0.001),
    "balsa-po": (0.089, 0.001),
    "balsa-po:stage_rule=max1": (0.099, 0.001),
}


@pytest.fixture(scope="module")
def greedy() -> fw.Trace:
    return fw.simulate(fw.paper_network(), "alsa-pi", 1000, 120, 5, record="summary")


@pytest.mark.parametrize("text", SCORE_LOSS)
def test_learning_against_knowing_paired(text: str, greedy: fw.Trace) -> None:
    scheduler = fw.scheduler(text)
    learner = fw.simulate(fw.paper_network(), scheduler, 1000, 120, 5, record="summary")
    loss = paired_difference(greedy.score.mean(axis=0), learner.score.mean(axis=0))
    assert abs(distance(loss, SCORE_LOSS[text])) < 3
    extra = learner.backlog[500:].mean(axis=0) / greedy.backlog[500:].mean() - 1
    low, high = (0.002, 0.0035) if text.startswith("balsa:") or text == "balsa" else (0.064, 0.0655)
    paired = paired_difference(extra, greedy.backlog[500:].mean(axis=0) / greedy.backlog[500:].mean() - 1)
    slack = 3 * paired.standard_error
    assert low - slack < paired.mean < high + slack
