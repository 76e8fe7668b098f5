"""One round of the counts: by hand, and by what must hold along every path."""

import numpy as np

from fedwave.network.dynamics import accept, step
from fedwave.types import NetworkState


def play_by_hand(rounds, gamma=0.5, buffer_limit=None):
    """Rounds of one instance and two devices: (delivered, arrivals) each."""
    state = NetworkState.initial(1, 2)
    for delivered, arrivals in rounds:
        arrived = np.array([arrivals])
        accepted = accept(state, arrived, buffer_limit)
        state, score = step(state, np.array([delivered], dtype=bool), arrived, accepted, gamma)
    return state, score


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


def test_a_shard_that_finds_the_buffer_full_is_lost_even_if_the_upload_arrives():
    limit = np.array([5.0, 5.0])
    state, score = play_by_hand([((False, False), (4, 4)), ((True, False), (3, 3))], 0.5, limit)
    assert state.reported.tolist() == [[5, 0]]
    assert state.learned.tolist() == [[5, 0]]
    assert state.lost.tolist() == [[2, 2]]
    assert score.tolist() == [5 - 0.5 * 5]
