"""An experiment as units of work: (sweep point, schedulers, block of instances).

The cut depends on the experiment alone, not on the number of workers: the same units give the same results on one
core or on a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, product
from typing import Any

from fedwave.experiments.config.build import schedulers_of, settings_of
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.files import with_absolute_paths, with_file_names
from fedwave.experiments.config.resolve import fill_defaults, fill_shared_defaults, filled_fields
from fedwave.experiments.config.sweep import points, with_fields
from fedwave.parts.user_code import imported_sources

_INSTANCES_AT_ONCE = 50  # in a simulation; more use more memory and are not faster


@dataclass(frozen=True)
class Unit:
    """A piece of an experiment that one worker does alone."""

    name: str  # also of its files
    point: int  # its number
    where: Mapping[str, Any]  # the point's value on every axis of the sweep, as in the tables
    schedulers: tuple[str, ...]  # labels
    instances: tuple[int, ...]
    experiment: Experiment  # at the point, with every number
    run_id: str = ""  # empty: of a run without a folder
    sources: Mapping[str, str] = field(default_factory=dict)  # the text of the user's files, by path
    paths: Mapping[str, str] = field(default_factory=dict)  # where the named files lie on this machine, by name
    pins: Mapping[str, str] = field(default_factory=dict)  # checksums of its inputs, by name

    @property
    def rounds(self) -> int:
        """Rounds to play until it is done, over all its runs."""
        return self.experiment.rounds * len(self.schedulers) * len(self.instances)

    def local_experiment(self) -> Experiment:
        """The experiment with the paths of its files on this machine."""
        return with_file_names(self.experiment, self.paths)


def resolve(experiment: Experiment) -> Experiment:
    """Fill in the open fields: absolute paths, numbers, and block and group, which depend on the device."""
    experiment = fill_shared_defaults(with_absolute_paths(experiment))
    if experiment.task is None:
        block = experiment.block or min(_INSTANCES_AT_ONCE, experiment.instances)
        return replace(experiment, block=block, group=1)
    # On a GPU all runs are trained side by side: alone they would leave it idle.
    on_gpu = settings_of(experiment.training)[0].device != "cpu"
    return replace(
        experiment,
        block=experiment.block or (experiment.instances if on_gpu else 1),
        group=experiment.group or (len(experiment.schedulers) if on_gpu else 1),
    )


def cut_into_units(experiment: Experiment, paths: Mapping[str, str] | None = None) -> list[Unit]:
    """Cuts a resolved experiment into units, always in the same order. ``paths`` locate the files that it names."""
    paths = paths or {}
    sources = imported_sources(with_file_names(experiment, paths).imports)
    units = []
    for number, ((_, at), where) in enumerate(zip(points(experiment), where_of_points(experiment), strict=True)):
        located = with_file_names(at, paths)
        at = with_fields(at, filled_fields(located, fill_defaults(located)))
        groups = _groups(at, located)
        numbers, size = at.instance_numbers, at.block or at.instances
        for group, word in zip(groups, _file_words(groups), strict=True):
            for block in (tuple(numbers[first : first + size]) for first in range(0, len(numbers), size)):
                name = f"{number:04d}_{word}_{block[0]}-{block[-1]}"
                units.append(Unit(name, number, where, group, block, at, sources=sources, paths=paths))
    return units


def where_of_points(experiment: Experiment) -> list[dict[str, Any]]:
    """The value of every point on every axis of the sweep, in the form that tables use."""
    axes = (axis_values(values) for values in experiment.sweep.values())
    return [dict(zip(experiment.sweep, values, strict=True)) for values in product(*axes)]


def axis_values(values: Sequence[Any]) -> list[Any]:
    """Converts the values of an axis to one type, for a column of a table: numbers, or else texts."""
    if any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in values):
        return [v if isinstance(v, str) else str(v) for v in values]
    return list(values) if all(isinstance(v, int) for v in values) else [float(v) for v in values]


def _groups(at: Experiment, located: Experiment) -> list[tuple[str, ...]]:
    """Schedulers that share a unit; one that looks at the models is simulated and trained alone."""
    built = dict(zip(at.labels, schedulers_of(located).values(), strict=True))
    alone = [(label,) for label, s in built.items() if "learner" in s.needs]
    blind = [label for label, s in built.items() if "learner" not in s.needs]
    size = at.group or 1
    together = [tuple(blind[k : k + size]) for k in range(0, len(blind), size)]
    # Bench trains every device in every round, which takes longest, so it is started first.
    together.sort(key=lambda labels: "bench" not in labels)
    return together + alone


def _file_words(groups: Sequence[tuple[str, ...]]) -> list[str]:
    """A different file name for each group: alpha=1 and alpha=-1 must not get the same."""
    words: list[str] = []
    for group in groups:
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", group[0]).strip("-")[:60]
        plain += f"+{len(group) - 1}" if len(group) > 1 else ""
        same = (f"{plain}~{k}" if k > 1 else plain for k in count(1))
        words.append(next(word for word in same if word not in words))
    return words
