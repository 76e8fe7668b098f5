"""What training needs of a trace, recomputed one device and one round at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tiny import trace

import fedwave as fw
from fedwave.aggregation import Lee, Sync
from fedwave.learning.schedule import TrainingRun, needed_training, rounds_until_delivery, training_runs


def busy_trace() -> fw.Trace:
    """Failed uploads, missed broadcasts, full buffers, and instances that are not numbered 0, 1, 2."""
    network = fw.random_network(5, 2, seed=3, rate=[0.2, 0.5, 1.0, 2.0, 4.0], miss_probability=0.3, buffer_limit=6)
    return fw.simulate(network, "round-robin", rounds=40, instances=[7, 2, 30], seed=9)


def test_runs_of_against_a_plain_recomputation() -> None:
    trace = busy_trace()
    found = training_runs(trace)
    assert [(run.label, run.seed, run.instance) for run in found] == [
        ("round-robin", 9, 7),
        ("round-robin", 9, 2),
        ("round-robin", 9, 30),
    ]
    assert trace.lost.any()
    assert not trace.heard.all()
    assert (trace.scheduled & ~trace.delivered).any()
    for i, run in enumerate(found):
        learned, waiting, delay = [0] * 5, [0] * 5, [1] * 5
        for t in range(40):
            shards = [int(m - gone) for m, gone in zip(trace.arrivals[t, i], trace.lost[t, i], strict=True)]
            came = [bool(x) for x in trace.delivered[t, i]]
            for u in range(5):
                waiting[u] += shards[u]
                if came[u]:
                    learned[u] += waiting[u]
                    waiting[u] = 0
            assert run.shards[t].tolist() == shards
            assert run.delay[t].tolist() == delay
            assert run.delivered[t].tolist() == came
            assert run.scheduled[t].tolist() == trace.scheduled[t, i].tolist()
            assert run.heard[t].tolist() == trace.heard[t, i].tolist()
            assert run.learned[t].tolist() == learned
            delay = [1 if came[u] else delay[u] + 1 for u in range(5)]
        assert learned == trace.final.learned[i].tolist()


def test_a_summary_cannot_be_trained_on() -> None:
    summary = fw.simulate(fw.paper_network(), "random", rounds=2, instances=1, record="summary")
    with pytest.raises(fw.FedwaveError, match='simulate with record="full" to keep it'):
        training_runs(summary)


def test_rounds_until_delivery() -> None:
    delivered = np.array([[0, 1, 0], [0, 0, 0], [1, 1, 0], [0, 0, 0]], dtype=bool)
    never = np.inf
    np.testing.assert_array_equal(
        rounds_until_delivery(delivered), [[2, 0, never], [1, 1, never], [0, 0, never], [never, never, never]]
    )


def test_where_data_wait_a_scheduled_device_trains_on_all_since_its_last_delivery() -> None:
    arrivals, delivered = [[1, 2], [3, 0], [0, 1], [5, 0]], [[0, 1], [1, 0], [0, 0], [0, 1]]
    scheduled = [[0, 1], [1, 1], [1, 0], [1, 1]]
    (run,) = training_runs(trace(arrivals, delivered, scheduled=scheduled))
    np.testing.assert_array_equal(run.uploads(Sync()).mass, [[1, 2], [4, 0], [0, 1], [5, 1]])
    for tolerance in (0.0, 0.5):
        needed = needed_training(run, Sync(), tolerance)
        np.testing.assert_array_equal(needed, [[0, 1], [1, 0], [0, 0], [1, 1]])


# --- which local training can be left out ---------------------------------------------------------


def one_device(shards: str, delivered: str, heard: str | None = None) -> TrainingRun:
    """A run of one device, a digit per round."""
    columns = [[[int(x)] for x in text] for text in (shards, delivered, heard or "1" * len(shards))]
    (run,) = training_runs(trace(columns[0], columns[1], heard=columns[2]))
    return run


def kept(run: TrainingRun, beta: float, tolerance: float) -> str:
    return "".join(str(int(x)) for x in needed_training(run, Lee(beta), tolerance)[:, 0])


def test_a_gradient_weighs_beta_for_every_round_that_it_waits() -> None:
    run = one_device("1111111", "0000100")
    # weights 1/16, 1/8, 1/4, 1/2, 1; the last two rounds are never delivered
    assert kept(run, 0.5, 0.06) == "1111100"
    assert kept(run, 0.5, 0.07) == "0111100"
    assert kept(run, 0.5, 0.3) == "0001100"
    assert kept(run, 0.0, 0.3) == "0000100"
    assert kept(run, 1.0, 0.3) == "1111100"


def test_a_weight_equal_to_the_tolerance_is_left_out() -> None:
    run = one_device("1111", "0001")
    assert kept(run, 0.001, 1e-6) == "0011"
    assert kept(run, 0.001, 1e-3) == "0001"
    # Also where the power is a rounding above it, as 0.1 * 0.1 and 0.2**3 are.
    for beta, tolerance in ((0.1, 0.01), (0.2, 0.04), (0.01, 0.0001)):
        assert kept(run, beta, tolerance) == "0011"
        assert kept(run, beta, tolerance * beta) == "0111"


def test_nothing_is_trained_where_nothing_arrives() -> None:
    assert kept(one_device("1010", "0001"), 0.9, 0.01) == "1010"


def test_tolerance_zero_trains_everything() -> None:
    run = one_device("110201", "010000", "101010")
    for beta in (0.0, 0.001, 1.0):
        assert kept(run, beta, 0.0) == "110101"


def test_a_missed_broadcast_keeps_the_training_before_it() -> None:
    # Only the gradient of the delivery weighs enough; where it starts from is what matters.
    assert kept(one_device("1111", "0001", "1111"), 0.001, 0.1) == "0001"
    assert kept(one_device("1111", "0001", "1110"), 0.001, 0.1) == "0011"
    # The training before may itself have started without hearing, and so on back.
    assert kept(one_device("1111", "0001", "1100"), 0.001, 0.1) == "0111"
    assert kept(one_device("1111", "0001", "0000"), 0.001, 0.1) == "1111"
    # Rounds without data change nothing: the last training before them counts.
    assert kept(one_device("1001", "0001", "1000"), 0.001, 0.1) == "1001"
    # Unless a newer model was heard in between.
    assert kept(one_device("1001", "0001", "1010"), 0.001, 0.1) == "0001"
    assert kept(one_device("1001", "0001", "1100"), 0.001, 0.1) == "0001"
    # A missed broadcast before a training that is left out anyway keeps nothing.
    assert kept(one_device("1111", "0001", "1011"), 0.001, 0.1) == "0001"


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
        left_out += np.count_nonzero((run.shards > 0) & ~found)
        hearing = replace(run, heard=np.ones_like(run.heard))
        kept_for_a_start += np.count_nonzero(found & ~needed_training(hearing, Lee(beta), tolerance))
    assert left_out > 100
    assert kept_for_a_start > 10 if miss else kept_for_a_start == 0
