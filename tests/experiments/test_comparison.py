from __future__ import annotations

import numpy as np
import pytest

import fedwave as fw
from fedwave.experiments.comparison import compare, metrics, table
from fedwave.experiments.statistics import jain


@pytest.fixture(scope="module")
def traces() -> dict[str, fw.Trace]:
    chosen = {name: fw.scheduler(name) for name in ("alsa-pi", "max-weight", "bench")}
    return compare(fw.paper_network(), chosen, 60, 8, 3, record="full")


def test_every_scheduler_meets_the_same_worlds(traces: dict[str, fw.Trace]) -> None:
    gains = [trace.gain for trace in traces.values()]
    arrivals = [trace.arrivals for trace in traces.values()]
    assert all(np.array_equal(gains[0], g) for g in gains)
    assert all(np.array_equal(arrivals[0], m) for m in arrivals)


def test_metrics_follow_from_the_trace(traces: dict[str, fw.Trace]) -> None:
    trace = traces["alsa-pi"]
    values = metrics(trace)
    held = trace.waiting + trace.arrivals
    learned = np.where(trace.delivered, held, 0)
    assert np.allclose(
        values["delivered"], learned.sum(axis=(0, 2)) / trace.arrivals.sum(axis=(0, 2))
    )
    assert np.allclose(values["jain"], jain(trace.delivered.sum(axis=0)))
    assert np.allclose(values["mean_age"], trace.delay.mean(axis=(0, 2)))
    assert np.array_equal(values["worst_age"], trace.delay.max(axis=(0, 2)))
    assert np.allclose(metrics(trace, burn_in=50)["backlog"], trace.backlog[50:].mean(axis=0))


def test_differences_are_paired(traces: dict[str, fw.Trace]) -> None:
    rows = {row.label: row for row in table(traces, "alsa-pi")}
    by_hand = traces["max-weight"].score.mean(axis=0) - traces["alsa-pi"].score.mean(axis=0)
    assert rows["max-weight"].score_difference.mean == pytest.approx(by_hand.mean())
    assert rows["alsa-pi"].score_difference.half_width == 0
    assert rows["bench"].values["delivered"].mean == 1


def test_bad_requests_are_refused_in_a_sentence(traces: dict[str, fw.Trace]) -> None:
    with pytest.raises(fw.FedwaveError, match="no scheduler to compare"):
        compare(fw.paper_network(), {}, 10, 2, 0)
    with pytest.raises(
        fw.FedwaveError, match="burn_in is 60, must lie between 0 and the 60 rounds"
    ):
        metrics(traces["bench"], burn_in=60)
    with pytest.raises(fw.FedwaveError, match="'age', which is not among the schedulers"):
        table(traces, "age")
