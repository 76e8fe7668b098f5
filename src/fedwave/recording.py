"""Writing rounds down while they are played: which numbers a Trace keeps of each."""

from __future__ import annotations

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.network.world import Weather
from fedwave.types import Array, BoolArray, IntArray, NetworkState, RoundOutcome, State


class Recorder:
    """Collects one row per round in arrays allocated once, grouped as a Trace wants them."""

    def __init__(self, first: int, rounds: int, *, whole: bool) -> None:
        self._first, self._rounds, self._whole = first, rounds, whole
        self.series: dict[str, Array] = {}  # [T, I]
        self.devices: dict[str, Array] = {}  # [T, I, U]
        self.beliefs: dict[str, Array] = {}  # [T, I, ...]

    def write(
        self,
        weather: Weather,
        scheduled: BoolArray,
        before: NetworkState,
        after: NetworkState,
        outcome: RoundOutcome,
        beliefs: State,
    ) -> None:
        row = weather.round - self._first
        lost = weather.arrivals - outcome.accepted
        series = {
            "score": outcome.score,
            "backlog": after.waiting.sum(axis=1),
            "arrived": weather.arrivals.sum(axis=1),
            "lost": lost.sum(axis=1),
            "uploads": np.count_nonzero(after.delivered, axis=1),
            "mean_age": before.delay.mean(axis=1),
            "worst_age": before.delay.max(axis=1),
        }
        self._put(self.series, series, row)
        if self._whole:
            heard = np.ones_like(scheduled) if weather.heard is None else weather.heard
            devices = {
                "gain": weather.gain,
                "scheduled": scheduled,
                "delivered": after.delivered,
                "arrivals": _in_32_bits(weather.arrivals),
                "waiting": _in_32_bits(before.waiting),
                "lost": _in_32_bits(lost),
                "heard": heard,
            }
            self._put(self.devices, devices, row)
        self._put(self.beliefs, beliefs, row)

    def _put(self, group: dict[str, Array], values: State, row: int) -> None:
        for name, value in values.items():
            if name not in group:
                group[name] = np.empty((self._rounds, *value.shape), dtype=value.dtype)
            group[name][row] = value


def _in_32_bits(counts: IntArray) -> Array:
    if counts.max() > np.iinfo(np.int32).max:
        raise FedwaveError(
            f"a device has {counts.max()} shards, more than a full record can hold: "
            'lower the rates, limit the buffers, or use record="summary".'
        )
    return counts.astype(np.int32)
