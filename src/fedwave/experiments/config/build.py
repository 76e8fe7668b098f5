"""From a configuration to the objects that run: the network, schedulers, task and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedwave.aggregation import Aggregation
from fedwave.errors import FedwaveError, did_you_mean, extra_for, short_repr
from fedwave.experiments.config.experiment import DATASETS, Experiment, NetworkConfig, TaskConfig, TrainingConfig
from fedwave.experiments.config.parts import PARTS, check_part, refusals_at
from fedwave.metrics import Mass, Metric, MetricSet, training_metrics
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

CLASSES = 10  # in every built-in dataset
NUMBERS = ("shard_size", "batch", "epochs", "eta", "prox", "l2")
RADIO = ("fading", "success", "arrivals")  # parts that every network has
_LARGE = 10_000  # devices above which a network is too large to be built only to see whether it can


def prepare(experiment: Experiment, sources: Mapping[str, str]) -> None:
    """Import the user's parts of an experiment, before anything is built; a file that is in ``sources`` from there."""
    for source in experiment.imports:
        if source in sources:
            import_source(source, sources[source])
        else:
            import_parts(source)


def check_buildable(experiment: Experiment, checked: Experiment | None = None) -> None:
    """Raises FedwaveError if a part is unknown or cannot be built, or if the network is too small.

    Skips fields that equal those of ``checked``, which was checked before.
    """

    def differ(*names: str) -> bool:
        return checked is None or any(getattr(experiment, name) != getattr(checked, name) for name in names)

    if differ("schedulers", "task"):
        _check_schedulers(experiment)
    if differ("metrics", "metric", "task"):
        _check_metrics(experiment)
    if experiment.task is not None and differ("task"):
        _check_task(experiment.task)
    if differ("network", "rounds", "instances"):
        _check_network(experiment.network, experiment.rounds, experiment.instance_numbers[-1])


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
        rule = check_part("aggregation", experiment.task.aggregation, "task.aggregation")
    for i, part in enumerate(experiment.schedulers):
        # In a YAML list in brackets, a comma ends the text.
        hint = " (put a text with commas in quotes)" if "=" in part.name else ""
        with refusals_at(f"schedulers[{i}]{hint}"):
            one = scheduler(part)
            made[str(part)] = one if rule is None else one.with_aggregation(rule)
    return made


def task_of(config: TaskConfig) -> Task:
    """The task, with its data loaded (fetched the first time)."""
    with extra_for("a task"):
        from fedwave.learning.task import task

    given = {name: getattr(config, name) for name in ("model", "loss", "metric", "optimizer", *NUMBERS)}
    given = {name: value for name, value in given.items() if value is not None}
    return task(dataset=config.dataset, partition=config.partition, aggregation=config.aggregation, **given)


def class_labels_of(experiment: Experiment, schedulers: Iterable[Scheduler]) -> Labels | None:
    """The labels of an experiment's shards, if a scheduler needs them: then its data are loaded."""
    needed = any("labels" in scheduler.needs for scheduler in schedulers)
    return task_of(experiment.task).labels() if experiment.task is not None and needed else None


def class_mix_of(task: TaskConfig) -> Labels | None:
    """The labels of a task's partition; None if all devices hold the same classes. Does not load published data."""
    partition = registry.build("partition", task.partition)
    if type(partition) is Iid:
        return None
    known = registry.parse("dataset", task.dataset)["name"] in DATASETS
    if known and type(partition) in (Dirichlet, ByClass):  # no device draws from all data
        return Labels(partition, CLASSES)
    return task_of(task).labels()


def settings_of(config: TrainingConfig) -> tuple[Settings, EvaluationSizes]:
    """The settings of training on this machine, and the numbers of images to evaluate on."""
    from fedwave.learning.evaluation import EvaluationSizes
    from fedwave.learning.settings import Settings

    sizes = EvaluationSizes(config.loss_images, config.test_images, config.full_every)
    return Settings(config.tolerance, config.device, config.precision, config.lanes), sizes


def settings_for_model(config: TrainingConfig, task: TaskConfig) -> Settings:
    """The settings, with precision and lanes chosen for the model where they are left open."""
    used, _ = settings_of(config)
    if used.precision != "auto" and used.lanes is not None:
        return used
    with extra_for("a task"):
        from fedwave.learning.task import bare_model

    return used.for_model(bare_model(task.dataset, task.model))


def network_of(config: NetworkConfig) -> Network:
    """The network that a configuration describes.

    >>> network_of(NetworkConfig(fading="rician:k_factor=6", slots=3)).slots
    3
    """
    given = {name: getattr(config, name) for name in (*RADIO, "availability", "slots", "gamma", "rate")}
    changes = config.set | {name: value for name, value in given.items() if value is not None}
    changes |= {
        name: check_part(name, changes[name], f"network.{name}") for name in (*RADIO, "availability") if name in changes
    }
    with refusals_at("network"):
        if config.kind == "random":
            size = {} if config.devices is None else {"devices": config.devices}
            return random_network(**size, **changes)
        if config.kind == "table":
            return Network(read_devices(config.file or "")).replace(**changes)
        return paper_network(**changes)


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
    learnt = [*training_metrics(experiment.task.metric_name if experiment.task else "accuracy")]
    if experiment.metric not in (known := (*watched, *learnt)):
        raise FedwaveError(f"metric is {short_repr(experiment.metric)}; {did_you_mean(experiment.metric, known)}")
    for name in watched:
        if name in experiment.sweep:
            raise FedwaveError(
                f"metric {name!r} has the name of the axis sweep.{name}, and a table cannot hold both: rename it."
            )
    if experiment.metric in learnt and experiment.task is None:
        raise FedwaveError(
            f"metric is {experiment.metric}, but without a task nothing is learnt: choose another, or give a task."
        )


def _check_task(config: TaskConfig) -> None:
    for name in ("dataset", "model", "partition", "aggregation", "loss", "metric", "optimizer"):
        part = getattr(config, name)
        if part is not None:
            check_part(PARTS[f"task.{name}"], part, f"task.{name}")
    if config.dataset.name in DATASETS:
        with refusals_at("task.partition"):
            registry.build("partition", config.partition).class_shares(0, 0, 0, CLASSES)


def _check_network(config: NetworkConfig, rounds: int, last_instance: int) -> None:
    """Raises FedwaveError for a network that cannot be built or is too small. Builds only a part of a large one."""
    if config.devices is None or config.devices <= _LARGE:
        network = network_of(config)
        with refusals_at("network"):
            network.check_run(rounds, np.array([last_instance]))
        return
    slots = config.slots or config.set.get("slots", 0)
    for w in slots if isinstance(slots, tuple) else [slots]:
        if w > config.devices:
            raise FedwaveError(f"network.slots is {w}, but there are only {config.devices} devices: lower it.")
    others = {name: value for name, value in config.set.items() if name != "slots"}
    network_of(replace(config, devices=_LARGE, slots=None, set=others))
