"""What training needs of a trace, recomputed one device and one round at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tiny import trace

import fedwave as fw
from fedwave.aggregation import Aggregation, Lee, Sync
from fedwave.learning.schedule import TrainingRun, TrainingSchedule, training_runs


def test_a_summary_cannot_be_trained_on() -> None:
    summary = fw.simulate(fw.paper_network(), "random", rounds=2, instances=1, record="summary")
    with pytest.raises(fw.FedwaveError, match='simulate with record="full" to keep it'):
        training_runs(summary)


def test_where_data_wait_a_scheduled_device_trains_on_all_since_its_last_delivery() -> None:
    arrivals, delivered = [[1, 2], [3, 0], [0, 1], [5, 0]], [[0, 1], [1, 0], [0, 0], [0, 1]]
    scheduled = [[0, 1], [1, 1], [1, 0], [1, 1]]
    (run,) = training_runs(trace(arrivals, delivered, scheduled=scheduled))
    np.testing.assert_array_equal(run.uploads(Sync()).mass, [[1, 2], [4, 0], [0, 1], [5, 1]])
    for tolerance in (0.0, 0.5):
        needed = needed_training(run, Sync(), tolerance)
        np.testing.assert_array_equal(needed, [[0, 1], [1, 0], [0, 0], [1, 1]])


# --- which local training can be left out ---------------------------------------------------------


def needed_training(run: TrainingRun, rule: Aggregation, tolerance: float) -> np.ndarray:
    return TrainingSchedule.of([run], rule, tolerance).needed[:, 0]


def one_device(shards: str, delivered: str, heard: str | None = None) -> TrainingRun:
    """A run of one device, a digit per round."""
    columns = [[[int(x)] for x in text] for text in (shards, delivered, heard or "1" * len(shards))]
    (run,) = training_runs(trace(columns[0], columns[1], heard=columns[2]))
    return run


def kept(run: TrainingRun, beta: float, tolerance: float) -> str:
    return "".join(str(int(x)) for x in needed_training(run, Lee(beta), tolerance)[:, 0])


def test_a_weight_equal_to_the_tolerance_is_left_out() -> None:
    run = one_device("1111", "0001")
    assert kept(run, 0.001, 1e-6) == "0011"
    assert kept(run, 0.001, 1e-3) == "0001"
    # Also where the power is a rounding above it, as 0.1 * 0.1 and 0.2**3 are.
    for beta, tolerance in ((0.1, 0.01), (0.2, 0.04), (0.01, 0.0001)):
        assert kept(run, beta, tolerance) == "0011"
        assert kept(run, beta, tolerance * beta) == "0111"


def influential(run: TrainingRun, beta: float, tolerance: float) -> np.ndarray:
    """The same, forwards: what enters which delivery, and which training started from what another one left."""
    out = np.zeros(run.shards.shape, dtype=bool)
    for u in range(run.shards.shape[1]):
        psi: dict[int, float] = {}  # training -> its weight in the gradients not delivered yet
        started_from: dict[int, int | None] = {}
        parameters: int | None = None  # the training that left the device's own parameters
        counts: set[int] = set()
        for t in range(run.rounds):
            if run.heard[t, u]:
                parameters = None
            psi = {training: beta * weight for training, weight in psi.items()}
            if run.shards[t, u] > 0:
                psi[t] = 1.0
                started_from[t] = parameters
                parameters = t
            if run.delivered[t, u]:
                counts |= {training for training, weight in psi.items() if weight > tolerance}
                psi = {}
        while counts:
            training = counts.pop()
            out[training, u] = True
            source = started_from[training]
            if source is not None and not out[source, u]:
                counts.add(source)
    return out


@pytest.mark.parametrize("tolerance", [0.5, 0.05, 1e-3])
@pytest.mark.parametrize("miss", [0.0, 0.4, 0.8])
def test_needed_training_against_a_forward_derivation(miss: float, tolerance: float) -> None:
    rng = np.random.default_rng(int(100 * miss))
    left_out = kept_for_a_start = 0
    for _ in range(60):
        shape = (int(rng.integers(1, 13)), 3)
        (run,) = training_runs(trace(rng.poisson(0.8, shape), rng.random(shape) < 0.3, heard=rng.random(shape) >= miss))
        beta = float(rng.choice([0.0, 0.01, 0.37, 0.83]))
        found = needed_training(run, Lee(beta), tolerance)
        np.testing.assert_array_equal(found, influential(run, beta, tolerance))
        np.testing.assert_array_equal(needed_training(run, Lee(beta), 0.0), run.shards > 0)
        left_out += np.count_nonzero((run.shards > 0) & ~found)
        hearing = replace(run, heard=np.ones_like(run.heard))
        kept_for_a_start += np.count_nonzero(found & ~needed_training(hearing, Lee(beta), tolerance))
    assert left_out > 100
    assert kept_for_a_start > 10 if miss else kept_for_a_start == 0
