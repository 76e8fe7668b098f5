"""From a configuration to the objects that run: the network, schedulers, task and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.aggregation import Aggregation
from fedwave.errors import FedwaveError, extra_for
from fedwave.experiments.config.experiment import DATASETS, Experiment, NetworkConfig, TaskConfig, TrainingConfig
from fedwave.experiments.config.fields import check_choice
from fedwave.experiments.config.parts import PARTS, check_part
from fedwave.metrics import Mass, Metric, MetricSet, metric_names
from fedwave.network.devices import read_devices
from fedwave.network.network import Network, paper_network, random_network
from fedwave.network.partition import ByClass, Dirichlet, Iid, Labels
from fedwave.parts import registry
from fedwave.parts.user_code import import_parts, import_source
from fedwave.schedulers.base import Scheduler, scheduler

if TYPE_CHECKING:
    from fedwave.learning.evaluation import EvaluationSizes
    from fedwave.learning.settings import Settings
    from fedwave.learning.task import Task

CLASSES = 10  # of every built-in dataset
_NUMBERS = ("shard_size", "batch", "epochs", "eta", "prox", "l2")
_RADIO = ("fading", "success", "arrivals")
_LARGE = 10_000  # devices above which a network is too large to be built only to see whether it can


def prepare(experiment: Experiment, sources: Mapping[str, str]) -> None:
    """Import the user's parts of an experiment, before anything is built; a file that is in ``sources`` from there."""
    for source in experiment.imports:
        if source in sources:
            import_source(source, sources[source])
        else:
            import_parts(source)


def check(experiment: Experiment, checked: Experiment | None = None) -> None:
    """Refuse an experiment whose parts are unknown or cannot be built, or whose network is too small for it.

    What it shares with another experiment, which has been ``checked``, is not looked at again.
    """
    if _differs("schedulers task", experiment, checked):
        _check_schedulers(experiment)
    if _differs("metrics metric task", experiment, checked):
        _check_metrics(experiment)
    if experiment.task is not None and _differs("task", experiment, checked):
        _check_task(experiment.task)
    if _differs("network rounds instances", experiment, checked):
        _check_network(experiment.network, experiment.rounds, experiment.instance_numbers[-1])


def _differs(names: str, experiment: Experiment, checked: Experiment | None) -> bool:
    """Is one of these fields another object?"""
    return checked is None or any(
        not _is_same(getattr(experiment, name), getattr(checked, name)) for name in names.split()
    )


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(is_, one, other))
    return one is other


def _check_schedulers(experiment: Experiment) -> None:
    made = schedulers_of(experiment)
    # Before they follow the rule of a task: where a sweep varies it, two may be the same at one point only.
    texts = [(str(p), registry.full_text("scheduler", p)) for p in experiment.schedulers]
    registry.check_different("schedulers", texts, "name each once")
    if experiment.task is not None:
        return
    for label, chosen in made.items():
        for need, does in (("learner", "looks at the models"), ("labels", "sees the labels that devices report")):
            if need in chosen.needs:
                raise FedwaveError(f"schedulers: {label!r} {does}, but there is no task: leave it out, or give a task.")


def schedulers_of(experiment: Experiment) -> dict[str, Scheduler]:
    """The schedulers of an experiment by their labels, in order; they follow the aggregation rule of its task."""
    made, rule = {}, None
    if experiment.task is not None:
        check_part("aggregation", experiment.task.aggregation, "task.aggregation")
        rule = registry.build("aggregation", experiment.task.aggregation)
    for i, part in enumerate(experiment.schedulers):
        try:
            one = scheduler(part)
            made[str(part)] = one if rule is None else one.with_aggregation(rule)
        except FedwaveError as error:
            # In a YAML list in brackets, a comma ends the text.
            hint = " Put a text with commas in quotes." if "=" in part.name else ""
            raise FedwaveError(f"schedulers[{i}]: {error}{hint}") from None
    return made


def task_of(config: TaskConfig) -> Task:
    """The task, with its data loaded (fetched the first time)."""
    with extra_for("a task"):
        from fedwave.learning.task import task

    given = {name: getattr(config, name) for name in ("model", *_NUMBERS)}
    given = {name: value for name, value in given.items() if value is not None}
    return task(dataset=config.dataset, partition=config.partition, aggregation=config.aggregation, **given)


def labels_of(experiment: Experiment, schedulers: Iterable[Scheduler]) -> Labels | None:
    """The labels of an experiment's shards, if a scheduler needs them: then its data are loaded."""
    needed = any("labels" in scheduler.needs for scheduler in schedulers)
    return task_of(experiment.task).labels() if experiment.task is not None and needed else None


def class_mix_of(task: TaskConfig) -> Labels | None:
    """How a task spreads classes over the devices; None if all hold the same. Published data need not be there."""
    partition = registry.build("partition", task.partition)
    if type(partition) is Iid:
        return None
    known = registry.parse("dataset", task.dataset)["name"] in DATASETS
    if known and type(partition) in (Dirichlet, ByClass):  # no device draws from all data
        return Labels(partition, CLASSES)
    return task_of(task).labels()


def settings_of(config: TrainingConfig) -> tuple[Settings, EvaluationSizes]:
    """How to train on this machine, and what to evaluate on."""
    from fedwave.learning.evaluation import EvaluationSizes
    from fedwave.learning.settings import Settings

    sizes = EvaluationSizes(config.loss_images, config.test_images, config.full_every)
    return Settings(config.tolerance, config.device, config.precision, config.lanes), sizes


def settings_for_model(config: TrainingConfig, task: TaskConfig) -> Settings:
    """The same with a precision and a number of lanes, chosen for the model where they are left open."""
    used, _ = settings_of(config)
    if used.precision != "auto" and used.lanes is not None:
        return used
    with extra_for("a task"):
        from fedwave.learning.task import bare_model

    return used.for_model(bare_model(task.dataset, task.model))


def training_advice(experiment: Experiment) -> str | None:
    """What to install so that an experiment trains faster; None: nothing."""
    task = experiment.task
    if task is None:
        return None
    from fedwave.learning.backends.cpu.chain import numba_advice
    from fedwave.learning.task import bare_model

    return numba_advice(lambda: bare_model(task.dataset, task.model), settings_of(experiment.training)[0])


def make_network(
    kind: str,
    devices: int | None = None,
    file: str | None = None,
    parts: Mapping[str, registry.Spec | None] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Network:
    """A network of a kind, with its parts, and any field or device column changed.

    >>> make_network("paper", parts={"fading": "rician:k_factor=6"}, changes={"slots": 3}).slots
    3
    """
    wanted = dict(changes or {})
    for name, part in (parts or {}).items():
        if part is not None:
            wanted[name] = registry.build(name, part)
    if kind == "random":
        size = {} if devices is None else {"devices": devices}
        return random_network(**size, **wanted)
    if kind == "table":
        table = read_devices(file or "")
        return Network(table).replace(**wanted)
    return paper_network(**wanted)


def network_of(config: NetworkConfig) -> Network:
    """The network that a configuration describes; a refusal names the field at fault."""
    parts, changes = _asked(config)
    try:
        return make_network(config.kind, config.devices, config.file, parts, changes)
    except FedwaveError as error:
        raise FedwaveError(f"{_culprit(config)}: {error}") from None


def metrics_of(experiment: Experiment, aggregation: Aggregation | None = None) -> list[Metric]:
    """The metrics that are watched beside the built-in ones; the mass is that of the task's aggregation rule."""
    made: list[Metric] = [registry.build("metric", part) for part in experiment.metrics]
    watched = {metric.name for metric in MetricSet(made).metrics}
    if experiment.metric not in watched and experiment.metric in registry.names("metric"):
        made.append(registry.build("metric", experiment.metric))
    if aggregation is not None and not any(metric.name == Mass.name for metric in made):
        made.append(Mass(aggregation))
    return made


def _check_metrics(experiment: Experiment) -> None:
    for i, part in enumerate(experiment.metrics):
        check_part("metric", part, f"metrics[{i}]")
    watched = [m.name for m in MetricSet(metrics_of(experiment)).metrics if not m.per_device]
    learnt = [name for name in metric_names(training=True) if name not in metric_names()]
    check_choice("metric", experiment.metric, (*watched, *learnt))
    for name in watched:
        for axis in experiment.sweep:
            if name in (axis, axis.replace(".", "_")):  # in tables, and in results.nc
                raise FedwaveError(
                    f"metric {name!r} has the name of the axis sweep.{axis}, and a table cannot hold both: rename it."
                )
    if experiment.metric in learnt and experiment.task is None:
        raise FedwaveError(
            f"metric is {experiment.metric}, but without a task nothing is learnt: choose another, or give a task."
        )


def _check_task(config: TaskConfig) -> None:
    for name in ("dataset", "model", "partition", "aggregation"):
        part = getattr(config, name)
        if part is not None:
            check_part(PARTS[f"task.{name}"], part, f"task.{name}")
    if config.dataset.name in DATASETS:
        try:
            registry.build("partition", config.partition).class_shares(0, 0, 0, CLASSES)
        except FedwaveError as error:
            raise FedwaveError(f"task.partition: {error}") from None


def _check_network(config: NetworkConfig, rounds: int, last_instance: int) -> None:
    """Refuse a network that cannot be built, or that a run reaches past; of a large one try a part."""
    slots = config.slots
    if isinstance(slots, tuple) and len(slots) < rounds:
        raise FedwaveError(
            f"network.slots gives W of {len(slots)} rounds, but rounds is {rounds}: give more, or run fewer."
        )
    if config.devices is not None and config.devices > _LARGE:
        network_of(_smaller(config))
        return
    network = network_of(config)
    try:
        network.check_run(rounds, np.array([last_instance]))
    except FedwaveError as error:
        raise FedwaveError(f"network does not fit rounds and instances: {error}") from None


def _smaller(config: NetworkConfig) -> NetworkConfig:
    """The same network with fewer devices, and no more slots than them."""
    assert config.devices is not None
    most, slots, numbers = config.devices, config.slots, dict(config.set)
    for w in (*(slots if isinstance(slots, tuple) else [slots or 0]), numbers.get("slots", 0)):
        if w > most:
            raise FedwaveError(f"network.slots is {w}, but there are only {most} devices: W must not exceed them.")
    if isinstance(slots, tuple):
        slots = tuple(min(w, _LARGE) for w in slots)
    elif slots is not None:
        slots = min(slots, _LARGE)
    if "slots" in numbers:
        numbers["slots"] = min(numbers["slots"], _LARGE)
    return replace(config, devices=_LARGE, slots=slots, set=numbers)


def _asked(config: NetworkConfig) -> tuple[dict[str, registry.Spec | None], dict[str, Any]]:
    """The parts, and the numbers that differ from the kind's own."""
    given = {name: getattr(config, name) for name in ("slots", "gamma", "rate")}
    changes = {name: value for name, value in given.items() if value is not None}
    return {name: getattr(config, name) for name in _RADIO}, dict(config.set) | changes


def _culprit(config: NetworkConfig) -> str:
    """The field that cannot be built even alone, so that a refusal can name it."""
    parts, changes = _asked(config)
    first = "network.file" if config.kind == "table" else "network.devices"
    alone: list[tuple[str, dict[str, Any], dict[str, Any]]] = [(first, {}, {})]
    alone += [(f"network.{name}", {name: part}, {}) for name, part in parts.items()]
    for name, value in changes.items():
        field = f"network.set.{name}" if name in config.set else f"network.{name}"
        alone.append((field, {}, {name: value}))
    for field, one_part, one_change in alone:
        try:
            make_network(config.kind, config.devices, config.file, one_part, one_change)
        except FedwaveError:
            return field
    return "network"
