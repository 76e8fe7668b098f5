"""One round of the counts, as in the paper's equations for n and N. Nothing else changes n, N or d."""

from __future__ import annotations

import numpy as np

from fedwave.types import BoolArray, FloatArray, IntArray, LabelState, NetworkState


def accept(state: NetworkState, arrivals: IntArray, buffer_limit: FloatArray | None) -> IntArray:
    """The arrivals that find room: with ``buffer_limit`` ``[U]``, the others are lost before they are trained on."""
    if buffer_limit is None:
        return arrivals
    room = np.maximum(buffer_limit - state.waiting, 0)
    return np.minimum(arrivals, room).astype(np.int64)


def step(
    state: NetworkState, delivered: BoolArray, arrivals: IntArray, accepted: IntArray, gamma: float
) -> tuple[NetworkState, FloatArray]:
    """Play one round: m accepted shards arrive; delivered devices deliver n + m, the others keep it.

    ``delivered`` marks the devices whose upload arrived, ``[I, U]``. Arrivals so far = learned + waiting + lost
    holds exactly.

    Also returns the score of the round, ``[I]``: F = sum over delivered of (n + m) - gamma * sum over the others.
    """
    waiting = state.waiting + accepted
    # A product with a mask: three times as fast as np.where, which branches at every device.
    reported = waiting * delivered
    waiting -= reported
    score = reported.sum(axis=1) - gamma * waiting.sum(axis=1)
    after = NetworkState(
        waiting=waiting,
        learned=state.learned + reported,
        lost=state.lost if accepted is arrivals else state.lost + (arrivals - accepted),
        delay=1 + state.delay * ~delivered,
        delivered=delivered,
        reported=reported,
    )
    return after, score


def step_labels(state: LabelState, delivered: BoolArray, accepted: IntArray) -> LabelState:
    """The same round by class: ``accepted`` are the samples of each class in the shards that found room."""
    held = state.waiting + accepted
    reported = held * delivered[:, :, None]
    return LabelState(held - reported, state.learned + reported)
