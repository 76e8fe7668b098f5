"""How much memory an experiment will need, before its run folder is made: its units, its results, its workers."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, prod

from fedwave.errors import FedwaveError, plural
from fedwave.experiments.config.build import CLASSES, metrics_of, network_of
from fedwave.experiments.config.experiment import Experiment
from fedwave.memory import available, check_memory, not_enough_memory
from fedwave.metrics import Metric, MetricSet
from fedwave.simulation import simulation_bytes

_OF_UNIT = 2400  # bytes in the list of units: name, instances, place
_OF_PROCESS, _OF_TRAINER = 100 << 20, 300 << 20  # Python and the libraries of a worker
_SHARD, _EPOCHS = 10, 5  # assumed for a task that leaves them open; lower bounds
_CURVES = 4  # recorded in training, beside the accuracy of every class
_RATE = 1.0  # shards a round and device, at the least


def check_results(experiment: Experiment) -> None:
    """Raises FedwaveError if a resolved experiment has too many units or results for the memory of this machine."""
    many = prod(len(values) for values in experiment.sweep.values())
    blocks = ceil(experiment.instances / (experiment.block or experiment.instances))
    units = many * blocks * ceil(len(experiment.schedulers) / (experiment.group or 1))
    lower = "lower instances, sweep fewer values, or use a larger block"
    check_memory(f"a list of {units:,} units of work", float(_OF_UNIT) * units, lower)
    runs = float(many) * len(experiment.schedulers) * experiment.instances
    # All results, what becomes their netCDF file, and of a sweep all points as one Dataset; and of the unit that is
    # being read its tables, their columns and its Dataset.
    copies, of_unit = 3 if experiment.sweep else 2, 3 * runs / units
    check_memory(
        f"keeping the results of {experiment.name} ({runs:,.0f} runs of {plural(experiment.rounds, 'round')})",
        (copies * runs + of_unit) * _run_bytes(experiment),
        "lower instances or rounds, or sweep fewer values",
    )


def workers_that_fit(at_points: Iterable[Experiment], workers: int) -> int:
    """The number of workers whose units fit in memory together, at most ``workers``. Raises if not even one fits."""
    need, largest = max(((_unit_bytes(at), at) for at in at_points), key=lambda pair: pair[0])
    there = available()
    if need > there:
        block = plural(min(largest.block or largest.instances, largest.instances), "instance")
        sizes = f"{plural(largest.rounds, 'round')}, {block}, {plural(_devices(largest), 'device')}"
        lower = "block, rounds or devices" if largest.task is None else "block, group, shard_size, epochs or rounds"
        raise not_enough_memory(f"a unit of {largest.name} ({sizes})", need, there, f"lower {lower}")
    fit = there / (need + (_OF_PROCESS if largest.task is None else _OF_TRAINER))
    return workers if fit >= workers else max(1, int(fit))


def _unit_bytes(experiment: Experiment) -> float:
    devices, series = _devices(experiment), len(_metrics(experiment))
    block = min(experiment.block or experiment.instances, experiment.instances)
    task = experiment.task
    need = simulation_bytes(devices, experiment.rounds, block, series, full=task is not None)
    if task is None:
        return need
    from fedwave.learning.footprint import sample_bytes

    shards = (experiment.network.rate or _RATE) * devices * block * (experiment.group or 1)
    samples = shards * (task.shard_size or _SHARD)
    return need + sample_bytes(samples, task.epochs or _EPOCHS)


def _run_bytes(experiment: Experiment) -> float:
    """Bytes of the results of one scheduler and instance."""
    watched = _metrics(experiment)
    of_devices = 1 + sum(metric.per_device for metric in watched)  # with the share delivered
    of_rounds = sum(not metric.per_device for metric in watched)
    if experiment.task is not None:
        of_rounds += _CURVES + CLASSES
    return 8.0 * (experiment.rounds * of_rounds + of_devices * _devices(experiment))


def _metrics(experiment: Experiment) -> tuple[Metric, ...]:
    return MetricSet(metrics_of(experiment)).metrics


def _devices(experiment: Experiment) -> int:
    """The number of devices; a random network is not built to count them."""
    config = experiment.network
    if config.kind == "random" and config.devices is not None:
        return config.devices
    try:
        return network_of(config).size
    except FedwaveError:  # a table that is elsewhere now; where it is read, it is refused or not
        return 1
