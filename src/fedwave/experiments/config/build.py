"""From a configuration to the objects that run: the network, schedulers, task and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.build_network import make_network, network_of
from fedwave.experiments.config.rules import shown
from fedwave.parts_import import import_parts, import_source
from fedwave.schedulers.base import Scheduler, scheduler

if TYPE_CHECKING:
    from fedwave.experiments.config.experiment import Experiment
    from fedwave.experiments.config.parts import TaskConfig, TrainingConfig
    from fedwave.learning.evaluation import EvaluationSizes
    from fedwave.learning.replay import Settings
    from fedwave.learning.task import Task

__all__ = [
    "labels_of", "make_network", "network_of", "prepare", "schedulers_from", "schedulers_of", "settings_of", "task_of",
]  # fmt: skip

_NUMBERS = ("shard_size", "batch", "epochs", "eta", "beta", "prox", "l2")


def prepare(experiment: Experiment, sources: Mapping[str, str]) -> None:
    """Import the user's parts of an experiment, before anything is built; a file that is in ``sources`` from there."""
    for source in experiment.imports:
        if source in sources:
            import_source(source, sources[source])
        else:
            import_parts(source)


def labels_of(schedulers: Iterable[str | Mapping[str, Any]]) -> tuple[str, ...]:
    """Each scheduler as the text that names it in the results; refuses none, and one named twice.

    >>> labels_of(["alsa-pi", {"name": "balsa", "stage_rule": "max1"}])
    ('alsa-pi', 'balsa:stage_rule=max1')
    """
    labels: list[str] = []
    for i, item in enumerate(schedulers):
        label = _text(item, f"schedulers[{i}]", ",") if isinstance(item, Mapping) else item
        if not isinstance(label, str):
            raise FedwaveError(
                f"schedulers[{i}] is {shown(item)}, must be a name, such as balsa, or a mapping, "
                "such as {name: balsa, stage_rule: max1}."
            )
        if label.strip() in labels:
            raise FedwaveError(f"schedulers[{i}] is {shown(label)} once more: name each once.")
        labels.append(label.strip())
    if not labels:
        raise FedwaveError(
            "schedulers is empty: name at least one, as `fedwave schedulers` lists them."
        )
    return tuple(labels)


def schedulers_from(labels: Sequence[str]) -> dict[str, Scheduler]:
    """Schedulers by the texts that name them."""
    chosen = {}
    for i, label in enumerate(labels):
        try:
            chosen[label] = scheduler(label)
        except FedwaveError as error:
            # In a YAML list in brackets, a comma ends the text.
            hint = " Put a text with commas in quotes." if "=" in label and ":" not in label else ""
            raise FedwaveError(f"schedulers[{i}]: {error}{hint}") from None
    return chosen


def schedulers_of(experiment: Experiment) -> dict[str, Scheduler]:
    """The schedulers of an experiment by their labels, in order."""
    return schedulers_from(experiment.schedulers)


def task_of(config: TaskConfig) -> Task:
    """The task, with its data loaded (fetched the first time)."""
    from fedwave.learning.partition import ByClass, Dirichlet, Iid, Partition
    from fedwave.learning.task import task

    partition: Partition = Iid()
    if config.skew is not None:
        partition = Dirichlet(config.skew)
    elif config.classes_per_device is not None:
        partition = ByClass(config.classes_per_device)
    given = {name: getattr(config, name) for name in _NUMBERS}
    numbers = {name: value for name, value in given.items() if value is not None}
    return task(config.dataset, model=config.model, partition=partition, **numbers)


def settings_of(config: TrainingConfig) -> tuple[Settings, EvaluationSizes]:
    """How to train on this machine, and what to judge by."""
    from fedwave.learning.evaluation import EvaluationSizes
    from fedwave.learning.replay import Settings, available_device

    device, precision, lanes = available_device(config.device), config.precision, config.lanes
    if device == "cpu" and precision == "bfloat16":
        precision = "float32"  # half precision saves nothing there
    if lanes is None:
        lanes = 1024 if device == "cuda" else 64
    sizes = EvaluationSizes(config.loss_images, config.test_images, config.full_every)
    return Settings(config.mode, config.tolerance, device, precision, lanes), sizes


def _text(item: Mapping[str, Any], where: str, separator: str) -> str:
    """A part written as a mapping, in the text form that components.py reads."""
    name = item.get("name")
    if not isinstance(name, str) or not name.strip():
        raise FedwaveError(f"{where} has no name: write it as {{name: balsa, stage_rule: max1}}.")
    parameters = []
    for key, value in item.items():
        if isinstance(value, Mapping) and separator == ",":
            value = _text(value, f"{where}.{key}", ";")
        if isinstance(value, bool) or not isinstance(value, (str, int, float)) or "," in str(value):
            raise FedwaveError(
                f"{where}.{key} is {shown(value)}, must be a number, or a text without a comma."
            )
        if key != "name":
            parameters.append(f"{key}={value}")
    return name.strip() + (":" if parameters else "") + separator.join(parameters)
