"""Every number that an experiment leaves to a default, written out: of its network, parts, dataset and this machine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, replace

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.experiments.config.build import NUMBERS, RADIO, network_of, settings_for_model
from fedwave.experiments.config.experiment import Experiment, NetworkConfig, TaskConfig
from fedwave.experiments.config.parts import PART_LISTS, PARTS, Part
from fedwave.experiments.config.sweep import Values, points, to_mapping, with_fields
from fedwave.network.devices import DEVICE_COLUMNS
from fedwave.parts import registry

_ROOMS = ("network", "task", "training")
_OF_NETWORK = ("noise_dbm", "pathloss_intercept_db", "pathloss_slope_db")
_COLUMNS = tuple(name for name in DEVICE_COLUMNS if name not in ("rate", "distance_m", "snr_db"))  # that have a default
_NAMING = ("scheduler", "dataset")  # their texts are in tables, captions and the names of inputs


def fill_defaults(experiment: Experiment) -> Experiment:
    """Writes out every number of an experiment without a sweep. Reads its files."""
    network, task = _filled_network(experiment.network), experiment.task and _filled_task(experiment.task)
    experiment = _with_full_parts(replace(experiment, network=network, task=task))
    if experiment.task is None:
        return experiment
    used = settings_for_model(experiment.training, experiment.task)
    training = replace(experiment.training, device=used.device, precision=used.precision, lanes=used.lanes)  # type: ignore[arg-type]
    return replace(experiment, training=training)


def fill_shared_defaults(experiment: Experiment) -> Experiment:
    """Writes out every number that is the same at all points of the sweep.

    W of a random network is a fifth of its devices, for example: where a sweep varies the devices, W stays open here,
    and every point has its own (``filled_fields``).
    """
    if not experiment.sweep:
        return fill_defaults(experiment)
    whole = _with_full_parts(experiment)
    own, (first, *others) = _flat(whole), [_flat(fill_defaults(at)) for _, at in points(experiment)]
    shared = {
        field: value
        for field, value in first.items()
        if (field not in own or field.startswith("training.")) and all(at.get(field) == value for at in others)
    }
    for room in _ROOMS:
        with suppress(FedwaveError):  # it must be possible without the sweep too
            candidate = with_fields(whole, {field: value for field, value in shared.items() if field.startswith(room)})
            network_of(candidate.network)
            whole = candidate
    return whole


def filled_fields(before: Experiment, after: Experiment) -> Values:
    """The fields that differ between two experiments, as plain values. Apply them with ``with_fields``."""
    if before == after:  # which is quick to see
        return {}
    old, new = _flat(before), _flat(after)
    return {field: value for field, value in new.items() if old.get(field) != value}


def _flat(experiment: Experiment) -> Values:
    """Every field with a value among those that ``fill_defaults`` can fill, by its dotted name."""
    content = to_mapping(experiment)
    found: Values = {name: content[name] for name in PART_LISTS if name in content}
    for room in _ROOMS:
        fields_ = dict(content.get(room, {}))
        numbers = fields_.pop("set", {})
        found |= {f"{room}.{name}": value for name, value in fields_.items()}
        found |= {f"{room}.set.{name}": value for name, value in numbers.items()}
    return found


def _with_full_parts(experiment: Experiment) -> Experiment:
    """All parameters of the given parts, also of swept ones; labels and values of axes stay as they are."""
    full: Values = {}
    for field, family in PARTS.items():
        room, _, name = field.rpartition(".")
        given = getattr(getattr(experiment, room) if room else experiment, name, None)
        if given is not None:
            made = tuple(_full(family, one) for one in given) if field in PART_LISTS else _full(family, given)
            if made != given:
                full[field] = made
    sweep = {
        axis: tuple(_full(PARTS[axis], value, str(value)) if isinstance(value, Part) else value for value in values)
        for axis, values in experiment.sweep.items()
    }
    if sweep != experiment.sweep:
        full["sweep"] = sweep
    return with_fields(experiment, full)


def _full(family: str, part: Part, label: str | None = None) -> Part:
    """A part with all its parameters. If its text names something in the results, the text becomes its label."""
    content = registry.with_defaults(family, part)
    if content == part:
        return part
    label = part.label or (str(part) if family in _NAMING else label)
    return Part.of(family, content if label is None else {**content, "as": label}, family)


def _filled_network(config: NetworkConfig) -> NetworkConfig:
    random = ("devices", "seed") if config.kind == "random" else ()
    names = ("slots", "gamma", *RADIO, *_OF_NETWORK, *_COLUMNS, *random)
    if all(name in config.set or getattr(config, name, None) is not None for name in names):
        return config
    network = network_of(config)
    own: Values = {name: getattr(network, name) for name in ("slots", "gamma") if name not in config.set}
    own |= {name: getattr(config, name) or Part(getattr(network, name).name) for name in RADIO}
    numbers = {name: float(getattr(network, name)) for name in _OF_NETWORK}
    columns = {name: np.asarray(getattr(network.table, name)) for name in _COLUMNS}
    numbers |= {name: float(column[0]) for name, column in columns.items() if (column == column[0]).all()}
    if config.kind == "random":
        own["devices"], numbers["seed"] = network.size, 0.0
    return replace(config, **own, set=numbers | config.set)


def _filled_task(config: TaskConfig) -> TaskConfig:
    from fedwave.learning.task import PRESETS, Task

    usual = {one.name: one.default for one in fields(Task) if one.name in NUMBERS}
    usual |= PRESETS.get(config.dataset.name, {})
    own: Values = {name: value for name, value in usual.items() if getattr(config, name) is None}
    return replace(config, **own)
