"""Is a Trace that was read from a file one that fedwave could have written?

A file may come from a stranger, or from a tool that edited it. Everything is checked once, when it is read, so that
nothing that uses a Trace has to ask again: the text against its schema, every array against the axes [T, I, U], the
counts n, N, d against the equations of dynamics.py, and the metrics against the counts (series_check.py). A violation
is a ValueError that says what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError, is_number
from fedwave.files.archive import is_plain
from fedwave.metrics import Description, Watch, check_column
from fedwave.network.carry import unpacked_carry
from fedwave.network.devices import DeviceTable
from fedwave.network.network import checked_slots
from fedwave.parts import registry
from fedwave.parts.serialize import unpack
from fedwave.schedulers.base import Scheduler
from fedwave.series_check import check_series, is_ours
from fedwave.types import Array, Problem, State

if TYPE_CHECKING:
    from fedwave.trace import Trace

_DEEPEST = 30  # levels of the text; that of the paper's network has 8
_KINDS = {"scheduled": "b", "delivered": "b", "heard": "b", "gain": "f"}  # the others are counts
_OF_A_ROUND = ("gain", "scheduled", "delivered", "arrivals", "waiting", "lost", "heard", "delay", "learned")
_MOST = 2**53  # shards: sums over devices and rounds must not overflow


def check_trace(trace: Trace) -> None:
    """Refuse, by a ValueError, what no run can have left."""
    _check_text(trace.provenance)
    series = trace.series
    if not {"score", "backlog"} <= series.keys():
        raise ValueError("it has no score or no backlog")
    if trace.score.ndim != 2 or not trace.score.size:
        raise ValueError(f"its score has shape {trace.score.shape}, must be [round, instance]")
    rounds, instances = trace.score.shape
    if trace.final.waiting.ndim != 2:
        raise ValueError("final/waiting has not one number per instance and device")
    size = trace.final.waiting.shape[1]
    _check_axes(trace, (rounds, instances, size))
    if len(trace.provenance["instances"]) != instances:
        raise ValueError(f"it names {len(trace.provenance['instances'])} instances and holds {instances}")
    if trace.channel:
        unpacked_carry(trace.channel)
    _check_metrics(trace)
    slots = _check_network(trace, size)
    most = np.array(slots if isinstance(slots, int) else slots[:rounds])
    _need(most.size in (1, rounds), "network.slots")
    _check_final(trace)
    _check_labels(trace)
    _need(bool(trace.provenance["keep_beliefs"] or not trace.beliefs), "keep_beliefs")
    full = trace.provenance["record"] == "full"
    if set(trace.devices) != (set(_OF_A_ROUND) if full else set()):
        raise ValueError("the arrays of its devices are not those of its kind of record")
    if full:
        _check_rounds(trace, most)
    check_series(trace, most)


# --- the text -------------------------------------------------------------------------------------


def _check_text(text: Mapping[str, Any]) -> None:
    _check_depth(text, _DEEPEST)
    json.dumps(text, ensure_ascii=False).encode()  # half a character cannot be printed
    for name in ("network", "scheduler"):
        _need(isinstance(text[name], dict), name)
    for name in ("scheduler_name", "fedwave"):
        _need(isinstance(text[name], str), name)
    _need(isinstance(text.get("label", ""), str), "label")
    _need(_is_count(text["seed"]), "seed")
    _need(text["record"] in ("full", "summary"), "record")
    for name in ("keep_beliefs", "own_draws"):
        _need(isinstance(text.get(name, False), bool), name)
    _need(_is_texts(text.get("chance", [])), "chance")
    if "labels" in text:
        labels = text["labels"]
        _need(isinstance(labels, dict) and isinstance(labels.get("fields"), dict), "labels")
    more = text["more_metrics"]
    _need(isinstance(more, list) and all(_is_metric(one) for one in more), "more_metrics")
    made = text["scheduler"]
    if is_ours(made, "scheduler"):  # a user's own may change its name
        _need(text["scheduler_name"] == made["name"], "scheduler_name")
        label = text.get("label", made["name"])
        _need(label.partition(":")[0].strip() == made["name"], "label")
    ids = text["instances"]
    whole = isinstance(ids, list) and all(_is_count(i) and i < 2**63 for i in ids)
    _need(whole and len(set(ids)) == len(ids), "instances")
    names = [f.name for f in fields(Description)]
    _need(isinstance(text["metrics"], dict), "metrics")
    for name, about in text["metrics"].items():
        _need(isinstance(about, dict) and sorted(about) == sorted(names), f"metrics.{name}")
        texts = ("name", "label", "over_rounds", "better")
        typed = all(isinstance(about[one], str) for one in texts) and isinstance(about["per_device"], bool)
        _need(typed and about["name"] == name, f"metrics.{name}")
        check_column(name, about["over_rounds"])


def _check_depth(text: Any, left: int) -> None:
    """Text nested without end would end in a RecursionError where it is used."""
    inside = text.values() if isinstance(text, Mapping) else text if isinstance(text, list) else ()
    if inside and not left:
        raise ValueError("its text is nested too deep")
    for one in inside:
        _check_depth(one, left - 1)


def _check_network(trace: Trace, size: int) -> int | tuple[int, ...]:
    """The device table and W, which are always there; other parts may be the user's, and are built when needed."""
    network = trace.provenance["network"]["fields"]
    try:
        table = unpack(network["devices"], trace.constants)
        _need(isinstance(table, DeviceTable) and len(table) == size, "network.devices")
        slots = checked_slots(network["slots"], size)
    except FedwaveError as error:
        raise ValueError(f"its network: {error}") from None
    _need(_is_texts(network["devices"]["fields"]["name"]), "network.devices.name")
    for name in ("gamma", "noise_dbm", "pathloss_intercept_db", "pathloss_slope_db"):
        _need(is_number(network[name]), f"network.{name}")
    for name, array in trace.constants.items():
        if name.startswith("network.devices."):
            _need(array.dtype == np.float64, name)
    return slots


def _need(fine: bool, name: str) -> None:
    if not fine:
        raise ValueError(f"its {name} is not what fedwave writes")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0 and is_number(value)


def _is_metric(part: Any) -> bool:
    return (
        isinstance(part, dict)
        and part.get("family") == "metric"
        and all(isinstance(part.get(one), str) for one in ("name", "class"))
        and isinstance(part.get("fields"), dict)
    )


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


# --- the arrays -----------------------------------------------------------------------------------


def _check_axes(trace: Trace, shape: tuple[int, int, int]) -> None:
    rounds, instances, size = shape
    wanted: dict[str, tuple[int, ...]] = {  # the first axes of the arrays of each group
        "series": (rounds, instances),
        "devices": shape,
        "beliefs": (rounds, instances),
        "accumulated": (instances, size),
        "final": (instances, size),
        "state": (instances,),
        "memories": (instances,),
        "channel": (instances,),
        "labels": (instances, size),
    }
    for group, arrays in trace.groups().items():
        axes = wanted.get(group, ())
        for name, array in arrays.items():
            _need(bool(name), f"{group}/{name}")
            if not is_plain(array, numbers=group not in ("constants", "channel")):
                raise ValueError(f"{group}/{name} holds {array.dtype}, must hold numbers")
            whole = group in ("series", "devices", "accumulated", "final")  # no further axes
            if array.shape[: array.ndim if whole else len(axes)] != axes:
                raise ValueError(f"{group}/{name} has shape {array.shape}, must begin with {axes}")


def _check_metrics(trace: Trace) -> None:
    for group, per_device in (("series", False), ("accumulated", True)):
        told = {name for name, about in trace.metrics.items() if about["per_device"] == per_device}
        if told != set(trace.groups()[group]):
            raise ValueError(f"the metrics in {group} are not those that its text describes")
    for name in trace.memories:
        metric, _, key = name.partition(".")
        _need(metric in trace.metrics and bool(key), f"memories/{name}")


def _check_final(trace: Trace) -> None:
    for name, array in trace.groups()["final"].items():
        _check_kind(f"final/{name}", array, "b" if name == "delivered" else "i")
    final = trace.final
    if (final.delay < 1).any():
        raise ValueError("final/delay is below 1")
    if (final.reported[~final.delivered] != 0).any() or (final.waiting[final.delivered] != 0).any():
        raise ValueError("final/reported is not of the devices that delivered")


def _check_labels(trace: Trace) -> None:
    """The samples of all classes are those of the shards, where the text says that labels were seen."""
    about = trace.provenance.get("labels")
    _need(set(trace.labels) == (set() if about is None else {"waiting", "learned"}), "labels")
    for name, array in trace.labels.items():
        _check_kind(f"labels/{name}", array, "i")
        shards, given = getattr(trace.final, name), about["fields"] if about else {}
        # Of labels that are a user's own the text need not say how many there are.
        classes, size = given.get("classes", array.shape[-1]), given.get("shard_size", 0)
        _need(_is_count(classes) and _is_count(size), "labels")
        if array.shape != (*shards.shape, classes):
            raise ValueError(f"labels/{name} has shape {array.shape}")
        if size and (array.sum(axis=2) != shards * size).any():
            raise ValueError(f"labels/{name} does not follow from the shards")


def _check_kind(name: str, array: Array, kind: str) -> None:
    if array.dtype.kind != kind or (kind == "i" and array.dtype.itemsize < 4):
        raise ValueError(f"{name} holds {array.dtype}")
    if kind == "i" and (array.min() < 0 or array.max() > _MOST):
        raise ValueError(f"{name} holds a number of shards or rounds that cannot be")
    if kind == "f" and not array.min() >= 0:
        raise ValueError(f"{name} holds a gain below 0, or none")


def _check_rounds(trace: Trace, most: Array) -> None:
    """The equations of a round (dynamics.py), for all rounds at once."""
    for name, array in trace.devices.items():
        _check_kind(f"devices/{name}", array, _KINDS.get(name, "i"))
    fading = trace.provenance["network"]["fields"].get("fading")
    if trace.gain.dtype != np.float64 and is_ours(fading, "fading"):
        raise ValueError(f"devices/gain holds {trace.gain.dtype}")
    final, delivered, scheduled = trace.final, trace.delivered, trace.scheduled
    if (delivered & ~scheduled).any():
        raise ValueError("a device delivered that was not scheduled")
    if (trace.lost > trace.arrivals).any():
        raise ValueError("more shards were lost than arrived")
    if (scheduled.sum(axis=2) > most.reshape(-1, 1)).any() and not scheduled.all():  # all: an ideal
        raise ValueError("more devices were scheduled than there are slots")
    held = trace.waiting.astype(np.int64) + trace.arrivals - trace.lost
    reported = np.where(delivered, held, 0)
    first = np.zeros_like(final.waiting)
    _follow("waiting", trace.waiting, first, held - reported, final.waiting)
    _follow("delay", trace.delay, first + 1, np.where(delivered, 1, trace.delay + 1), final.delay)
    if (np.diff(trace.learned, axis=0, prepend=first[None]) != reported).any():
        raise ValueError("learned does not follow from the round before")
    ends = {"learned": trace.learned[-1], "lost": trace.lost.sum(axis=0), "delivered": delivered[-1]}
    ends["reported"] = reported[-1]
    for name, array in ends.items():
        if (getattr(final, name) != array).any():
            raise ValueError(f"final/{name} does not follow from the rounds")


def _follow(name: str, at_start: Array, first: Array, after: Array, final: Array) -> None:
    """What a round leaves is what the next one starts from."""
    same = (at_start[0] == first).all() and (at_start[1:] == after[:-1]).all()
    if not same or (after[-1] != final).any():
        raise ValueError(f"{name} does not follow from the round before")


# --- what the scheduler and the metrics remember ---------------------------------------------------


def check_continues(trace: Trace, scheduler: Scheduler, watch: Watch, problem: Problem) -> None:
    """Refuse to go on from states that are not of this scheduler and these metrics."""
    if {m.name: m.per_device for m in watch.metrics} != {
        name: about["per_device"] for name, about in trace.metrics.items()
    }:
        raise FedwaveError("the trace watched other metrics than a run of this version: simulate anew.")
    fresh = scheduler.start(problem)
    ours = scheduler.name in registry.built_in("scheduler") and registry.is_known(scheduler)
    _check_alike(f"the state of {scheduler.name}", trace.scheduler_state, fresh, counts=ours)
    for name, memory in watch.start(problem).items():
        _check_alike(f"the memory of {name}", trace.memory_of(name), memory)
    kept = scheduler.beliefs(trace.scheduler_state) if trace.provenance["keep_beliefs"] else {}
    same = kept.keys() == trace.beliefs.keys()
    if ours and same:
        same = all(np.array_equal(kept[k], rows[-1]) for k, rows in trace.beliefs.items())
    if not same:
        raise FedwaveError(f"the beliefs in the trace are not those of {scheduler.name}.")


def _check_alike(what: str, found: State, fresh: State, *, counts: bool = False) -> None:
    for name, array in fresh.items():
        other = found.get(name)
        if other is None or other.ndim != array.ndim or (counts and other.dtype != array.dtype):
            raise FedwaveError(f"{what} in the trace is damaged: {name!r} is not what it was.")
        # Of our own schedulers: whole numbers are counts, and no number is infinite.
        fine = other.dtype.kind != "i" or not other.size or other.min() >= 0
        if counts and not (fine and np.isfinite(other).all()):
            raise FedwaveError(f"{what} in the trace is damaged: {name!r} cannot be.")
