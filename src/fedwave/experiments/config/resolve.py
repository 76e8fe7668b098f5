"""Every number that an experiment leaves to its kind of network, its dataset or this machine, written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.build import network_of, settings_for_model
from fedwave.experiments.config.experiment import Experiment, NetworkConfig, TaskConfig, TrainingConfig
from fedwave.experiments.config.parts import Part
from fedwave.experiments.config.points import points, to_mapping

NUMBERS = ("shard_size", "batch", "epochs", "eta", "prox", "l2")
_ROOMS = ("network", "task", "training")
Values = dict[str, Any]  # by field, with its dots


def filled(point: Experiment) -> Experiment:
    """An experiment that sweeps nothing, with all its numbers. Its files are read."""
    network = replace(point.network, **_of_network(point.network))
    if point.task is None:
        return replace(point, network=network)
    task = replace(point.task, **_of_task(point.task))
    training = on_this_machine(point.training, task)
    return replace(point, network=network, task=task, training=training)


def filled_alike(experiment: Experiment) -> Experiment:
    """An experiment with all numbers that are the same at every point of its sweep.

    W of a random network is a fifth of its devices, for example: where a sweep varies the devices, it stays null
    here, and every point has its own (``added``).
    """
    if not experiment.sweep:
        return filled(experiment)
    at = [filled(point) for _, point in points(experiment)]
    whole = experiment
    for room in _ROOMS:
        own = getattr(experiment, room)
        if own is None or any(getattr(point, room) is None for point in at):
            continue
        alike = {}
        for one in fields(own):
            first, *others = [getattr(getattr(point, room), one.name) for point in at]
            unsaid = getattr(own, one.name) is None or room == "training"  # whose device says auto
            if unsaid and all(other == first for other in others):
                alike[one.name] = first
        try:
            candidate = replace(whole, **{room: replace(own, **alike)})
            network_of(candidate.network)  # it must be possible without the sweep too
        except FedwaveError:
            continue
        whole = candidate
    return whole


def added(before: Experiment, after: Experiment) -> Values:
    """The fields that ``filled`` has given a value, as plain values."""
    old, new = to_mapping(before), to_mapping(after)
    return {
        f"{room}.{name}": value
        for room in _ROOMS
        if old[room] is not None
        for name, value in new[room].items()
        if value != old[room][name]
    }


def with_added(point: Experiment, values: Mapping[str, Any]) -> Experiment:
    """The inverse of ``added``: a point with the values that it was run with."""
    for dotted, value in values.items():
        room, _, name = dotted.partition(".")
        kept = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
        point = replace(point, **{room: replace(getattr(point, room), **{name: kept})})
    return point


def on_this_machine(training: TrainingConfig, task: TaskConfig) -> TrainingConfig:
    """Where models are trained, how exactly, and how many at once."""
    used = settings_for_model(training, task)
    return replace(training, device=used.device, precision=used.precision, lanes=used.lanes)


def _of_network(config: NetworkConfig) -> Values:
    network = network_of(config)
    own: Values = {"slots": network.slots, "gamma": network.gamma}
    own |= {name: Part(getattr(network, name).name) for name in ("fading", "success", "arrivals")}
    if config.kind == "random":
        own["devices"] = network.size
    return {name: value for name, value in own.items() if getattr(config, name) is None and name not in config.set}


def _of_task(config: TaskConfig) -> Values:
    from fedwave.learning.task import PRESETS, Task

    own: Values = {f.name: f.default for f in fields(Task) if f.name in NUMBERS}
    own |= PRESETS.get(config.dataset.name, {})
    return {name: value for name, value in own.items() if getattr(config, name) is None}
