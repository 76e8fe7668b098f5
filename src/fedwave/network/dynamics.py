"""One round of the counts (spec: the paper's eqs. for n and N). Nothing else changes n, N or d."""

from __future__ import annotations

import numpy as np

from fedwave.types import BoolArray, FloatArray, IntArray, NetworkState, RoundOutcome


def step(
    state: NetworkState,
    delivered: BoolArray,
    arrivals: IntArray,
    buffer_limit: FloatArray | None,
    gamma: float,
) -> tuple[NetworkState, RoundOutcome]:
    """Play one round: arrivals m come in, the delivered devices hand over n + m, the others keep it.

    ``delivered`` is who was scheduled and got through, ``[I, U]``. A shard that finds the buffer full
    (``buffer_limit``, ``[U]``) is lost as it arrives, before it is trained on. Hence, always and
    exactly, arrivals so far = learned + waiting + lost.

    The score of the round is F = sum over delivered of (n + m) - gamma * sum over others of (n + m).
    """
    accepted = arrivals
    lost = state.lost
    if buffer_limit is not None:
        room = np.maximum(buffer_limit - state.waiting, 0)
        accepted = np.minimum(arrivals, room).astype(np.int64)
        lost = lost + (arrivals - accepted)
    held = state.waiting + accepted
    reported = np.where(delivered, held, 0)
    waiting = held - reported
    score = reported.sum(axis=1) - gamma * waiting.sum(axis=1)
    after = NetworkState(
        waiting=waiting,
        learned=state.learned + reported,
        lost=lost,
        delay=np.where(delivered, 1, state.delay + 1),
        delivered=delivered,
        reported=reported,
    )
    return after, RoundOutcome(score=score, accepted=accepted)
