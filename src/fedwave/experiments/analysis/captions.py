"""Words for titles and captions: the run, and the fields that it varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedwave.errors import plural
from fedwave.experiments.config.experiment import Experiment

if TYPE_CHECKING:
    import xarray as xr

_FIELDS = {
    "network.slots": "Slots W",
    "network.devices": "Devices U",
    "network.gamma": "Cost of a waiting shard γ",
    "network.rate": "Arrivals per device and round (shards)",
    "network.success": "Success model",
    "network.file": "Device table",
    "network.kind": "Network",
    "task.partition": "Partition of the classes",
    "task.aggregation": "Aggregation rule",
    "task.shard_size": "Samples in a shard",
    "task.batch": "Samples in a batch",
    "task.epochs": "Epochs of local training",
    "task.eta": "Learning rate η",
    "task.prox": "Weight of the proximal term",
    "task.l2": "Weight of the squared norm",
    "task.loss": "Loss",
    "task.metric": "Metric",
    "task.optimizer": "Optimizer",
    "training.tolerance": "Tolerance of skipped training",
    "burn_in": "Rounds left out",
    "network.set.rate": "Arrivals per device and round (shards)",
    "network.set.distance_m": "Distance (m)",
    "network.set.tx_power_dbm": "Transmit power (dBm)",
    "network.set.interference_dbm": "Interference (dBm)",
    "network.set.miss_probability": "Probability to miss a broadcast",
    "network.set.buffer_limit": "Buffer limit (shards)",
    "network.set.noise_dbm": "Noise (dBm)",
}
_STATED = ("network.slots", "network.devices", "network.gamma", "rounds", "instances", "seed")
_ROOMS = {"fading": "Fading", "success": "Success model", "arrivals": "Arrivals", "aggregation": "Aggregation"}


def field_name(field: str) -> str:
    """A field of an experiment, such as the axis of a sweep, as people call it.

    >>> field_name("network.slots"), field_name("network.fading.k_factor")
    ('Slots W', 'Fading: k factor')
    """
    if field in _FIELDS:
        return _FIELDS[field]
    *rooms, last = field.split(".")
    words = last.replace("_", " ")
    if rooms and rooms[0] in ("schedulers", "metrics"):
        return f"{'.'.join(rooms[1:])}: {words}"
    room = _ROOMS.get(rooms[-1]) if rooms else None
    return f"{room}: {words}" if room else words[:1].upper() + words[1:]


def is_synthetic(experiment: Experiment) -> bool:
    """Whether synthetic data replaced a dataset that was unavailable."""
    return experiment.task is not None and experiment.task.instead_of is not None


def dataset_of(experiment: Experiment) -> str:
    """The dataset that was asked for."""
    assert experiment.task is not None, "nothing was learnt"
    return experiment.task.instead_of or str(experiment.task.dataset)


def facts(data: xr.Dataset) -> dict[str, str]:
    """The origin of a Dataset of results: a phrase for each of U, W, gamma, rounds, instances and seed."""
    about, sizes = data.attrs, data.sizes
    found = {"U": f"U = {sizes['device']:,}"} if "device" in sizes else {}
    if "slots" in about:
        found["W"] = f"W = {about['slots']}"
    if "gamma" in about:
        found["gamma"] = f"γ = {float(about['gamma']):g}"
    found["rounds"] = plural(sizes["round"], "round")
    found["instances"] = _instances(data["instance"].values.tolist())
    if "seed" in about:
        found["seed"] = f"seed {about['seed']}"
    return found


def _instances(numbers: Sequence[int]) -> str:
    """How many, and which if they are a lot of a longer experiment."""
    count = plural(len(numbers), "instance")
    if numbers[0] == 0 or list(numbers) != list(range(numbers[0], numbers[0] + len(numbers))):
        return count
    return f"{count} ({numbers[0]} to {numbers[-1]})" if len(numbers) > 1 else f"instance {numbers[0]}"


def title(*data: xr.Dataset) -> str:
    """The run in one line; for several points of a sweep, the phrases that are the same in all."""
    first, *others = map(facts, data)
    return ", ".join(text for key, text in first.items() if all(o.get(key) == text for o in others))


def title_at(where: Mapping[str, Any], *data: xr.Dataset) -> str:
    """The title of a point of a sweep: its place on the axes that the title does not state, and the title."""
    more = {axis: value for axis, value in where.items() if axis not in _STATED}
    return ", ".join(filter(None, (point_name(more), title(*data))))


def point_name(where: Mapping[str, Any]) -> str:
    """A point of a sweep: "Slots W = 3, Seed = 1"."""
    return ", ".join(f"{field_name(axis)} = {value}" for axis, value in where.items())


def burn_in_note(rounds: int) -> str:
    """A sentence for means that leave the first rounds out."""
    return f"Means leave out the first {plural(rounds, 'round')}." if rounds else ""


def sentences(*texts: str) -> str:
    """Joins the non-empty sentences with spaces."""
    return " ".join(filter(None, texts))
