"""One round of the counts: by hand, and by what must hold along every path."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedwave as fw
from fedwave.network.dynamics import accept, step
from fedwave.types import NetworkState


def play_round(state, delivered, arrivals, buffer_limit, gamma):
    accepted = accept(state, arrivals, buffer_limit)
    return step(state, delivered, arrivals, accepted, gamma)


def play_by_hand(rounds, gamma=0.5, buffer_limit=None):
    """Rounds of one instance and two devices: (delivered, arrivals) each."""
    state = NetworkState.initial(1, 2)
    for delivered, arrivals in rounds:
        state, score = play_round(state, np.array([delivered], dtype=bool), np.array([arrivals]), buffer_limit, gamma)
    return state, score


def test_at_the_start_nothing_waits_and_every_delay_is_1():
    state = NetworkState.initial(2, 3)
    for name in ("waiting", "learned", "lost", "reported"):
        assert np.all(getattr(state, name) == 0)
    assert np.all(state.delay == 1)
    assert not state.delivered.any()


def test_a_first_round_by_hand():
    state, score = play_by_hand([((True, False), (3, 4))])
    assert state.learned.tolist() == [[3, 0]]
    assert state.waiting.tolist() == [[0, 4]]
    assert state.delay.tolist() == [[1, 2]]
    assert state.delivered.tolist() == [[True, False]]
    assert state.reported.tolist() == [[3, 0]]
    assert score.tolist() == [3 - 0.5 * 4]


def test_three_rounds_by_hand():
    rounds = [((True, False), (3, 4)), ((False, False), (2, 0)), ((False, True), (1, 5))]
    state, score = play_by_hand(rounds[:2])
    assert state.waiting.tolist() == [[2, 4]]
    assert state.delay.tolist() == [[2, 3]]
    assert score.tolist() == [-0.5 * 6]
    state, score = play_by_hand(rounds)
    assert state.learned.tolist() == [[3, 9]]  # 4 + 0 + 5 come at once
    assert state.waiting.tolist() == [[3, 0]]
    assert state.delay.tolist() == [[3, 1]]
    assert state.reported.tolist() == [[0, 9]]
    assert score.tolist() == [9 - 0.5 * 3]


def test_a_device_that_never_gets_through_has_delay_t():
    state, _ = play_by_hand([((True, False), (1, 1))] * 9)
    assert state.delay.tolist() == [[1, 10]]  # the delay of the coming round 10


def test_shards_beyond_the_buffer_are_lost():
    limit = np.array([5.0, np.inf])
    state, score = play_by_hand([((False, False), (4, 4)), ((False, False), (3, 3))], 0.5, limit)
    assert state.waiting.tolist() == [[5, 7]]
    assert state.lost.tolist() == [[2, 0]]
    assert score.tolist() == [-0.5 * 12]


def test_a_shard_that_finds_the_buffer_full_is_lost_even_if_the_upload_arrives():
    limit = np.array([5.0, 5.0])
    state, score = play_by_hand([((False, False), (4, 4)), ((True, False), (3, 3))], 0.5, limit)
    assert state.reported.tolist() == [[5, 0]]
    assert state.learned.tolist() == [[5, 0]]
    assert state.lost.tolist() == [[2, 2]]
    assert score.tolist() == [5 - 0.5 * 5]


def test_a_buffer_of_zero_holds_nothing():
    state, score = play_by_hand([((True, False), (3, 4))], 0.5, np.array([0.0, 0.0]))
    assert state.lost.tolist() == [[3, 4]]
    assert state.learned.sum() == state.waiting.sum() == 0
    assert score.tolist() == [0.0]


def test_a_round_leaves_the_counts_before_it_alone():
    before = NetworkState.initial(1, 2)
    arrivals, delivered = np.array([[3, 4]]), np.array([[True, False]])
    play_round(before, delivered, arrivals, np.array([1.0, 1.0]), 0.01)
    assert before.waiting.tolist() == [[0, 0]]
    assert before.delay.tolist() == [[1, 1]]
    assert arrivals.tolist() == [[3, 4]]


PATHS = st.tuples(st.integers(1, 12), st.integers(1, 3), st.integers(1, 4)).flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.bool_, shape),
        hnp.arrays(np.int64, shape, elements=st.integers(0, 30)),
        hnp.arrays(np.float64, shape[2:], elements=st.sampled_from([0.0, 1.0, 7.0, 40.0, np.inf])),
    )
)


@settings(deadline=None, derandomize=True)
@given(path=PATHS, gamma=st.sampled_from([0.0, 0.01, 1.0]))
def test_nothing_appears_or_vanishes_along_any_path(path, gamma):
    delivered, arrivals, limit = path
    state = NetworkState.initial(*delivered.shape[1:])
    scores, backlogs, accepted = [], [], []
    for t in range(delivered.shape[0]):
        before = state
        state, score = play_round(before, delivered[t], arrivals[t], limit, gamma)
        so_far = arrivals[: t + 1].sum(axis=0)
        np.testing.assert_array_equal(so_far, state.learned + state.waiting + state.lost)
        assert np.all(state.waiting <= limit)
        assert np.all(state.waiting[delivered[t]] == 0)
        np.testing.assert_array_equal(state.delay, np.where(delivered[t], 1, before.delay + 1))
        scores.append(score)
        backlogs.append(state.waiting.sum(axis=1))
        accepted.append(accept(before, arrivals[t], limit).sum(axis=1))
    identity = np.mean(accepted, axis=0) - gamma * np.mean(backlogs, axis=0)
    identity -= backlogs[-1] / len(backlogs)
    np.testing.assert_allclose(np.mean(scores, axis=0), identity, rtol=1e-12, atol=1e-12)


# --- along the paths of real runs -----------------------------------------------------------------

RUNS = {
    "alsa-pi": {},
    "balsa-po": {},
    "w-max": {"gamma": 0.3},
    "bench": {},
    "random": {"buffer_limit": 4},
    "round-robin": {"buffer_limit": np.arange(25.0), "arrivals": fw.arrivals.NegativeBinomial(0.5)},
    "age": {"slots": [0, 1, 5, 25] * 25, "gamma": 0.0},
}


@pytest.fixture(params=RUNS)
def trace(request):
    network = fw.paper_network(**RUNS[request.param])
    return fw.simulate(network, request.param, rounds=100, instances=4, seed=2)


def held_and_learned(trace):
    """n + m (lost ones left out) in every round, and N after it, recomputed from the trace."""
    held = trace.waiting + trace.arrivals - trace.lost
    return held, np.cumsum(np.where(trace.delivered, held, 0), axis=0)


def test_arrivals_are_delivered_waiting_or_lost_in_every_round(trace):
    held, learned = held_and_learned(trace)
    waiting_after = np.where(trace.delivered, 0, held)
    np.testing.assert_array_equal(trace.waiting[1:], waiting_after[:-1])
    assert not trace.waiting[0].any()
    arrivals, lost = np.cumsum(trace.arrivals, axis=0), np.cumsum(trace.lost, axis=0)
    np.testing.assert_array_equal(arrivals, learned + waiting_after + lost)
    np.testing.assert_array_equal(trace.final.learned, learned[-1])
    np.testing.assert_array_equal(trace.final.waiting, waiting_after[-1])
    np.testing.assert_array_equal(trace.final.lost, lost[-1])


def test_shards_are_lost_only_with_a_buffer_limit(trace):
    limited = np.isfinite(np.asarray(trace.network.table.buffer_limit)).any()
    assert trace.lost.any() == limited
    np.testing.assert_array_equal(trace.series["lost"], trace.lost.sum(axis=2))


def test_the_score_is_its_formula(trace):
    held, _ = held_and_learned(trace)
    gamma = trace.network.gamma
    got = np.where(trace.delivered, held, 0).sum(axis=2)
    left = np.where(trace.delivered, 0, held).sum(axis=2)
    np.testing.assert_allclose(trace.score, got - gamma * left, rtol=1e-14, atol=1e-12)
    np.testing.assert_array_equal(trace.backlog, left)


def test_score_and_backlog_obey_the_identity_along_every_path(trace):
    """mean F = mean accepted arrivals - gamma * mean B - (B_T - B_0) / T, and B_0 = 0."""
    accepted = (trace.series["arrived"] - trace.series["lost"]).mean(axis=0)
    gamma = trace.network.gamma
    expected = accepted - gamma * trace.backlog.mean(axis=0) - trace.backlog[-1] / trace.rounds
    np.testing.assert_allclose(trace.score.mean(axis=0), expected, rtol=1e-12, atol=1e-12)


def test_delays_count_rounds_since_the_last_delivery(trace):
    delay = trace.delay
    for instance, device in ((0, 0), (3, 24)):
        d = 1
        for t in range(trace.rounds):
            assert delay[t, instance, device] == d
            d = 1 if trace.delivered[t, instance, device] else d + 1
    np.testing.assert_allclose(trace.series["mean_age"], delay.mean(axis=2), rtol=1e-14)
    np.testing.assert_array_equal(trace.series["worst_age"], delay.max(axis=2))


def test_only_scheduled_uploads_are_delivered(trace):
    assert np.all(trace.scheduled >= trace.delivered)
    np.testing.assert_array_equal(trace.series["uploads"], trace.delivered.sum(axis=2))
    np.testing.assert_array_equal(trace.totals["device_uploads"], trace.delivered.sum(axis=0))
