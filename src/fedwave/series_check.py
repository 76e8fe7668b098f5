"""Are the metrics of a trace that was read those that fedwave would have measured?

Of a user's own metric nothing is known. Of the built-in ones the description, the type and the range are, and what
follows from the counts: shards are neither made nor lost unseen, so the series of a summary determine each other. All
of it is arithmetic on [T, I] and [I, U]. A violation is a ValueError that says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.metrics import describe, jain
from fedwave.parts import registry
from fedwave.parts.built_in import BUILT_IN
from fedwave.types import Array

if TYPE_CHECKING:
    from fedwave.trace import Trace

Found = Mapping[str, Array]  # series and accumulated numbers of the built-in metrics that are there

_COUNTS = ("backlog", "arrived", "lost", "uploads", "worst_age", "device_uploads", "device_shards")
_SHARES = ("delivered_share", "lost_share", "jain", "worst_device")
_ABOVE_ONE = 1 + 1e-9  # the quotient of large numbers is rounded
_AS_REGISTERED = ("over_rounds", "better", "per_device")  # a label may change with the version


def is_ours(part: Any, family: str) -> bool:
    """Is a part in the text one that comes with fedwave? Imports nothing."""
    if not isinstance(part, dict) or part.get("family") != family:
        return False
    place = BUILT_IN[family].get(str(part.get("name")), "")
    return bool(place) and place.rpartition(":")[2] == part.get("class")


def check_series(trace: Trace, most_uploads: Array) -> None:
    """Refuse what the built-in metrics cannot have measured; ``most_uploads``: W, one number or one of every round."""
    found = _of_ours(trace)
    gamma = trace.provenance["network"]["fields"]["gamma"]
    counts = (*_COUNTS, "score") if isinstance(gamma, int) else _COUNTS
    for name, values in found.items():
        about, wanted = trace.metrics[name], describe(name)
        if any(about[one] != getattr(wanted, one) for one in _AS_REGISTERED):
            raise ValueError(f"its metrics.{name} is not as it is registered")
        _check_values(name, values, whole=name in counts)
    _check_shards(trace, found)
    _check_uploads(trace, found, most_uploads)
    _check_ages(trace, found)
    if trace.devices:
        _check_sums(trace, found)


def _of_ours(trace: Trace) -> Found:
    """Without those that were asked for besides: a user's own, or ours with other parameters."""
    own = {part["name"] for part in trace.provenance["more_metrics"]}
    every = {**trace.series, **trace.accumulated}
    return {n: values for n, values in every.items() if n in registry.built_in("metric") and n not in own}


def _check_values(name: str, values: Array, *, whole: bool) -> None:
    # A user's arrivals without sign have sums without sign.
    if values.dtype not in ((np.int64, np.uint64) if whole else (np.float64,)):
        raise ValueError(f"its {name} holds {values.dtype}")
    low, high = values.min(), values.max()  # NaN, if there is one
    fine = np.isfinite(low) and np.isfinite(high) and (low >= 0 or name == "score")
    if not fine or (name in _SHARES and high > _ABOVE_ONE):
        raise ValueError(f"its {name} holds a number that cannot be")


def _check_shards(trace: Trace, found: Found) -> None:
    """What waits is what waited before and what came, less what was lost and what was delivered."""
    final = trace.final
    _check_same(found, "device_shards", final.learned)
    arrived = final.learned + final.waiting + final.lost
    share = np.divide(final.learned, arrived, out=np.ones(arrived.shape), where=arrived > 0)
    _check_same(found, "worst_device", share.min(axis=1), last=True)
    if not {"backlog", "arrived", "lost"} <= found.keys():
        return
    backlog, lost, arrived = (found[name].astype(np.int64) for name in ("backlog", "lost", "arrived"))
    came = arrived.cumsum(axis=0)
    learned = came - lost.cumsum(axis=0) - backlog
    reported = np.diff(learned, axis=0, prepend=0)
    ends = (
        (backlog[-1], final.waiting),
        (lost.sum(axis=0), final.lost),
        (learned[-1], final.learned),
        (reported[-1], final.reported),
    )
    if (reported < 0).any() or any((end != of.sum(axis=1)).any() for end, of in ends):
        raise ValueError("its backlog, arrived and lost are not those of its counts")
    gamma = trace.provenance["network"]["fields"]["gamma"]
    with np.errstate(over="ignore"):  # a gamma that no network has
        _check_same(found, "score", reported - gamma * backlog)
    _check_same(found, "delivered_share", learned / np.maximum(came, 1))
    _check_same(found, "lost_share", lost.cumsum(axis=0) / np.maximum(came, 1))


def _check_uploads(trace: Trace, found: Found, most: Array) -> None:
    uploads, of_devices = found.get("uploads"), found.get("device_uploads")
    size = trace.final.waiting.shape[1]
    if uploads is not None and (uploads > most.reshape(-1, 1)).any() and (uploads != size).any():
        raise ValueError("more devices delivered than there are slots")  # all: an ideal
    _check_same(found, "uploads", np.count_nonzero(trace.final.delivered, axis=1), last=True)
    if of_devices is None:
        return
    if uploads is not None and (uploads.sum(axis=0) != of_devices.sum(axis=1)).any():
        raise ValueError("its uploads are not those of its devices")
    _check_same(found, "jain", jain(of_devices), last=True)
    if "jain" in found and not np.array_equal(trace.memories["jain.uploads"], of_devices):
        raise ValueError("memories/jain.uploads are not the uploads of its devices")


def _check_ages(trace: Trace, found: Found) -> None:
    """d is 1 after a delivery, and grows by one in every round without."""
    delay, rounds = trace.final.delay, trace.rounds
    if ((delay == 1) != trace.final.delivered).any() or delay.max() > rounds + 1:
        raise ValueError("final/delay is not that of its deliveries")
    if "device_uploads" in found:
        never = found["device_uploads"] == 0
        if (never != (delay == rounds + 1)).any():
            raise ValueError("final/delay is not that of its uploads")
    if {"mean_age", "worst_age"} <= found.keys():
        mean, worst = found["mean_age"], found["worst_age"]
        if mean.min() < 1 or (mean > worst).any() or (np.arange(1, rounds + 1) < worst.T).any():
            raise ValueError("its ages are more than its rounds")
    waiting = trace.memories.get("mass.waiting")
    if (
        "mass" in found
        and waiting is not None
        and not (
            waiting.dtype == np.float64
            and waiting.shape == delay.shape
            and 0 <= waiting.min() <= waiting.max() < np.inf
        )
    ):
        raise ValueError("memories/mass.waiting is not a mass of every device")


def _check_sums(trace: Trace, found: Found) -> None:
    """What a full record has of every device, summed."""
    delivered = trace.delivered
    sums = {
        "arrived": trace.arrivals.sum(axis=2),
        "lost": trace.lost.sum(axis=2),
        "uploads": delivered.sum(axis=2),
        "device_uploads": delivered.sum(axis=0),
        "mean_age": trace.delay.mean(axis=2),
        "worst_age": trace.delay.max(axis=2),
    }
    sums["backlog"] = np.concatenate([trace.waiting[1:], trace.final.waiting[None]]).sum(axis=2)
    for name, wanted in sums.items():
        _check_same(found, name, wanted)


def _check_same(found: Found, name: str, wanted: Array, *, last: bool = False) -> None:
    if name in found and ((found[name][-1] if last else found[name]) != wanted).any():
        raise ValueError(f"its {name} is not what its other numbers give")
