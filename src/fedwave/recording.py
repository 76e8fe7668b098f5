"""Writing rounds down while they are played: which numbers a Trace keeps of each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.metrics import Metric
from fedwave.types import Array, IntArray, PlayedRound, State

_MOST = np.iinfo(np.int32).max  # shards of a device in a full record


def record_bytes(rounds: int, instances: int, devices: int, series: int, *, full: bool) -> float:
    """Memory of a Recorder without beliefs: ``series`` numbers a round and instance, and those of ``_of_devices``."""
    of_devices = 35 * devices if full else 0
    return float(rounds) * instances * (8 * series + of_devices)


class Recorder:
    """Collects one row per round in arrays allocated once, in the groups of a Trace."""

    def __init__(self, rounds: int, *, full: bool) -> None:
        self._rounds, self._full = rounds, full
        self.series: dict[str, Array] = {}  # [T, I]
        self.devices: dict[str, Array] = {}  # [T, I, U]
        self.beliefs: dict[str, Array] = {}  # [T, I, ...]
        self.accumulated: dict[str, Array] = {}  # [I, U]: per-device metrics, summed up so far

    def restore(self, groups: Mapping[str, Mapping[str, Array]]) -> None:
        """Begin with the rows of a run that was stopped."""
        for name in ("series", "devices", "beliefs"):
            for key, rows in groups[name].items():
                self._room(getattr(self, name), key, rows[0])[: len(rows)] = rows
        self.accumulated = dict(groups["accumulated"])

    def write(
        self, metrics: tuple[Metric, ...], values: Mapping[str, Array], played: PlayedRound, beliefs: State
    ) -> None:
        """Keep one round."""
        row = played.world.round - 1
        for metric in metrics:
            value = values[metric.name]
            if metric.per_device:
                before = self.accumulated.get(metric.name)
                self.accumulated[metric.name] = _accumulate(metric.over_rounds, before, value)
            else:
                self._room(self.series, metric.name, value)[row] = value
        if self._full:
            for name, value in _of_devices(played).items():
                self._room(self.devices, name, value)[row] = value
        for name, value in beliefs.items():
            self._room(self.beliefs, name, value)[row] = value

    def _room(self, group: dict[str, Array], name: str, value: Array) -> Array:
        if name not in group:
            group[name] = np.empty((self._rounds, *value.shape), dtype=value.dtype)
        elif group[name].dtype != value.dtype:  # whole numbers at first, fractions later
            group[name] = group[name].astype(np.promote_types(group[name].dtype, value.dtype))
        return group[name]


def _accumulate(over_rounds: str, before: Array | None, value: Array) -> Array:
    wide = np.float64 if value.dtype.kind == "f" else np.int64  # enough for a sum
    if before is None or over_rounds == "last":
        return value.astype(wide)  # a copy: the metric may change its own array
    value = value.astype(wide, copy=False)
    return np.maximum(before, value) if over_rounds == "max" else before + value


def _of_devices(played: PlayedRound) -> dict[str, Array]:
    world, before, after = played.world, played.before, played.after
    transmits = played.decision.transmits
    return {
        "gain": world.gain,
        "scheduled": transmits,
        "delivered": after.delivered,
        "arrivals": _in_32_bits(world.arrivals),
        "waiting": _in_32_bits(before.waiting),
        "lost": _in_32_bits(world.arrivals - played.accepted),
        "heard": np.ones_like(transmits) if world.heard is None else world.heard,
        "delay": before.delay.astype(np.int32),
        "learned": after.learned,
    }


def _in_32_bits(counts: IntArray) -> Array:
    if counts.item(counts.argmax()) > _MOST:  # for few devices faster than max
        raise FedwaveError(
            f"a device has {counts.max()} shards, more than a full record can hold: "
            'lower the rates, limit the buffers, or use record="summary".'
        )
    return counts.astype(np.int32)
