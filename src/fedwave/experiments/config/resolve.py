"""Every number that an experiment leaves to a default, written out: of its network, parts, dataset and this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.experiments.config.build import network_of, settings_for_model
from fedwave.experiments.config.experiment import Experiment, NetworkConfig, TaskConfig, TrainingConfig
from fedwave.experiments.config.parts import PART_LISTS, PARTS, Part
from fedwave.experiments.config.sweep import points, to_mapping
from fedwave.network.devices import DEVICE_COLUMNS
from fedwave.parts import registry

NUMBERS = ("shard_size", "batch", "epochs", "eta", "prox", "l2")
_ROOMS = ("network", "task", "training")
_OF_NETWORK = ("noise_dbm", "pathloss_intercept_db", "pathloss_slope_db")
_COLUMNS = tuple(name for name in DEVICE_COLUMNS if name not in ("rate", "distance_m"))  # that have a default
_NAMING = ("scheduler", "dataset")  # their texts are in tables, captions and the names of inputs
Values = dict[str, Any]  # by field, with its dots


def filled(point: Experiment) -> Experiment:
    """An experiment that sweeps nothing, with all its numbers. Its files are read."""
    point = replace(_with_full_parts(point), network=_filled_network(point.network))
    if point.task is None:
        return point
    task = _filled_task(point.task)
    return replace(point, task=task, training=on_this_machine(point.training, task))


def filled_alike(experiment: Experiment) -> Experiment:
    """An experiment with all numbers that are the same at every point of its sweep.

    W of a random network is a fifth of its devices, for example: where a sweep varies the devices, W stays open here,
    and every point has its own (``added``).
    """
    if not experiment.sweep:
        return filled(experiment)
    whole = _with_full_parts(experiment)
    at = [filled(point) for _, point in points(whole)]
    for room in _ROOMS:
        own, there = getattr(whole, room), [getattr(point, room) for point in at]
        if own is None or None in there:
            continue
        try:
            candidate = replace(whole, **{room: _alike(own, there)})
            network_of(candidate.network)  # it must be possible without the sweep too
        except FedwaveError:
            continue
        whole = candidate
    return whole


def added(before: Experiment, after: Experiment) -> Values:
    """The fields that ``filled`` has given a value, as plain values."""
    if before == after:
        return {}
    old, new = to_mapping(before), to_mapping(after)
    found = {name: new[name] for name in PART_LISTS if new.get(name) != old.get(name)}
    for room in _ROOMS:
        values = new[room].items() if room in old else ()
        found |= {f"{room}.{name}": value for name, value in values if value != old[room].get(name)}
    return found


def with_added(point: Experiment, values: Mapping[str, Any]) -> Experiment:
    """The inverse of ``added``: a point with the values that it was run with."""
    for dotted, value in values.items():
        room, dot, name = dotted.partition(".")
        point = replace(point, **{room: replace(getattr(point, room), **{name: value}) if dot else value})
    return point


def on_this_machine(training: TrainingConfig, task: TaskConfig) -> TrainingConfig:
    """Where models are trained, how exactly, and how many at once."""
    used = settings_for_model(training, task)
    chosen: Values = {"device": used.device, "precision": used.precision, "lanes": used.lanes}
    return replace(training, **chosen)


def _alike(own: Any, there: list[Any]) -> Any:
    """The fields of a room, with the values that all points have where it has none of its own."""
    first, *others = there
    shared = {}
    for name in (one.name for one in fields(own)):
        value = getattr(own, name)
        if name == "set":
            shared[name] = {k: v for k, v in first.set.items() if all(o.set.get(k) == v for o in others)} | value
        elif f"{own.place}{name}" in PARTS and value is not None:
            shared[name] = _full(PARTS[f"{own.place}{name}"], value)
        elif value is not None and not isinstance(own, TrainingConfig):  # whose device says auto
            continue
        elif all(getattr(other, name) == getattr(first, name) for other in others):
            shared[name] = getattr(first, name)
    return replace(own, **shared)


def _with_full_parts(experiment: Experiment) -> Experiment:
    """All parameters of the schedulers, the metrics and the swept parts; labels and values of axes stay as they are."""
    lists: Values = {name: tuple(_full(PARTS[name], part) for part in getattr(experiment, name)) for name in PART_LISTS}
    sweep = {
        axis: tuple(_full(PARTS[axis], value, str(value)) if isinstance(value, Part) else value for value in values)
        for axis, values in experiment.sweep.items()
    }
    return replace(experiment, **lists, sweep=sweep)


def _full(family: str, part: Part, label: str | None = None) -> Part:
    """A part with all its parameters. If its text names something in the results, the text becomes its label."""
    content = registry.with_defaults(family, part)
    if content == part:
        return part
    label = part.label or (str(part) if family in _NAMING else label)
    return Part.of(family, content if label is None else {**content, "as": label}, family)


def _filled_network(config: NetworkConfig) -> NetworkConfig:
    constant = _OF_NETWORK + _COLUMNS + ("seed",) * (config.kind == "random")
    open_ = [name for name in ("slots", "gamma") if getattr(config, name) is None and name not in config.set]
    radio = {name: getattr(config, name) for name in ("fading", "success", "arrivals")}
    if not open_ and all(radio.values()) and all(name in config.set for name in constant):
        own: Values = {name: _full(name, part) for name, part in radio.items()}
        return replace(config, **own)
    network = network_of(config)
    own = {name: getattr(network, name) for name in open_}
    own |= {name: _full(name, part or Part(getattr(network, name).name)) for name, part in radio.items()}
    if config.kind == "random":
        own["devices"] = network.size
    numbers = {name: float(getattr(network, name)) for name in _OF_NETWORK}
    columns = {name: np.asarray(getattr(network.table, name)) for name in _COLUMNS}
    numbers |= {name: float(column[0]) for name, column in columns.items() if (column == column[0]).all()}
    numbers |= {"seed": 0.0} if config.kind == "random" else {}
    return replace(config, **own, set=numbers | config.set)


def _filled_task(config: TaskConfig) -> TaskConfig:
    from fedwave.learning.task import PRESETS, Task

    own: Values = {f.name: f.default for f in fields(Task) if f.name in NUMBERS}
    own |= PRESETS.get(config.dataset.name, {})
    own = {name: value for name, value in own.items() if getattr(config, name) is None}
    task = replace(config, **own)
    parts = {name: getattr(task, name) for name in ("dataset", "model", "partition", "aggregation")}
    own = {name: _full(name, part) for name, part in parts.items() if part is not None}
    return replace(task, **own)
