"""Round metrics: a class declares a number of every round, which then appears in tables, figures, sweeps and files.

A metric turns a played round into one number per instance, or per instance and device. If it needs a memory, that is a
State (types.py) which is passed in and out, so a run can stop and resume. ``over_rounds`` names how the rounds of
one instance become one number: "mean" (burn-in left out), "last", "max" or "sum".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedwave.aggregation import Aggregation, Lee, Uploads, after_delivery
from fedwave.errors import FedwaveError, did_you_mean, is_list, short_repr
from fedwave.parts import registry
from fedwave.types import DEVICE_ARRAYS, Array, FloatArray, PlayedRound, Problem, State, checked_state, freeze

Memories = Mapping[str, State]  # by the metric's name
_PAPER_RULE = Lee()
OVER_ROUNDS = ("mean", "last", "max", "sum")


class Metric(ABC):
    """Base class of round metrics: derive it and give it ``name`` and ``measure``.

    With I instances and U devices, ``measure`` returns ``[I]``, or ``[I, U]`` if ``per_device``. The memory of a
    metric from round to round is its state, a mapping of arrays whose first axis is the instance; ``start`` returns the
    first one. The arrays of ``state`` and ``played`` (a ``PlayedRound``) are read-only: return new ones.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> class LongestWait(fw.Metric):
    ...     name, label = "longest_wait", "Longest queue so far (shards)"
    ...     over_rounds, better = "last", "lower"
    ...
    ...     def start(self, problem):
    ...         return {"longest": np.zeros(problem.instances, dtype=np.int64)}
    ...
    ...     def measure(self, state, played):
    ...         longest = np.maximum(state["longest"], played.after.waiting.max(axis=1))
    ...         return {"longest": longest}, longest
    >>> trace = fw.simulate(fw.paper_network(), "age", rounds=20, instances=3, metrics=[LongestWait()])
    >>> trace.series["longest_wait"].shape
    (20, 3)
    """

    family: ClassVar[str] = "metric"
    name: ClassVar[str]  # in files, tables and YAML
    label: ClassVar[str] = ""  # for people; the name if empty
    over_rounds: ClassVar[str] = "mean"
    per_device: ClassVar[bool] = False
    better: ClassVar[str] = ""  # "higher", "lower", or empty if neither

    @classmethod
    def check_declaration(cls) -> None:
        """Raises FedwaveError for an unknown ``over_rounds``, or a name that cannot be a column of a file."""
        check_column(cls.name, cls.over_rounds)
        if cls.name in _TRAINING_METRICS:
            raise FedwaveError(f"the name {cls.name!r} is used by a metric of training: choose another.")

    def start(self, problem: Problem) -> State:
        """The memory before round 1: named arrays, first axis the instance."""
        return {}

    @abstractmethod
    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        """The new memory, and the number of this round: ``[I]``, or ``[I, U]`` if ``per_device``."""


@dataclass(frozen=True)
class Description:
    """How tables and figures show a metric; it is stored with the values."""

    name: str
    label: str
    over_rounds: str = "mean"
    better: str = ""
    per_device: bool = False


# Measured by training, not by the simulation.
_TRAINING_METRICS = {
    "accuracy": Description("accuracy", "Accuracy on test images", "last", "higher"),
    "loss": Description("loss", "Loss on training images", "last", "lower"),
    "accuracy_on_all": Description("accuracy_on_all", "Accuracy on all test images", "last", "higher"),
    "worst_class": Description("worst_class", "Accuracy of the worst class", "last", "higher"),
}


def training_metrics(metric: str = "accuracy", better: str = "higher") -> dict[str, Description]:
    """What training measures, by name, with the metric of the task."""
    if metric == "accuracy":
        return _TRAINING_METRICS
    found = {"loss": ("Loss on training samples", "lower"), metric: (f"{metric} on test samples", better)}
    found[f"{metric}_on_all"] = f"{metric} on all test samples", better
    return {name: Description(name, label, "last", good) for name, (label, good) in found.items()}


def check_training_metric(name: str) -> None:
    """Raises FedwaveError if a task's metric has a name that other results have."""
    check_column(name, "last")
    if name in registry.names("metric") or name in ("loss", "worst_class"):
        raise FedwaveError(f"the task's metric is called {name!r}, a name that other results have: rename it.")


# Axes and arrays that stand beside the metrics in tables and Datasets.
_RESERVED = DEVICE_ARRAYS.keys() - {"lost"} | {
    *("scheduler", "instance", "round", "device", "class"),
    *("class_accuracy", "device_share", "spikes", "device_lost", "backlog_p99"),
}


def check_column(name: str, how: str) -> None:
    """Raises FedwaveError for an unknown ``over_rounds``, or a metric's name that cannot be a column of a file."""
    if how not in OVER_ROUNDS:
        raise FedwaveError(f"metric {name!r} has over_rounds {how!r}; {did_you_mean(str(how), OVER_ROUNDS)}")
    if not name.isidentifier():
        raise FedwaveError(f"metric {name!r} must be a valid Python identifier, since it names a column.")
    if name in _RESERVED or name.startswith("accuracy_class_"):
        raise FedwaveError(f"the metric name {name!r} is the name of an axis or array of the results: choose another.")


def describe(metric: str | Metric | type[Metric]) -> Description:
    """The description of a metric.

    >>> import fedwave as fw
    >>> fw.metrics.describe("jain").over_rounds
    'last'
    """
    if isinstance(metric, str) and metric in _TRAINING_METRICS:
        return _TRAINING_METRICS[metric]
    kind = registry.find("metric", metric) if isinstance(metric, str) else metric
    label = kind.label or kind.name
    return Description(kind.name, label, kind.over_rounds, kind.better, kind.per_device)


def over_rounds(how: str, rows: Array) -> Array:
    """The rounds of every instance as one number: ``[T, ...]`` to ``[...]``, as a metric's ``over_rounds`` says."""
    # A copy: a view of the last row would keep all rows in memory.
    out: Array = rows[-1].copy() if how == "last" else getattr(rows, how)(axis=0)
    return out


def metric_names(training: bool = False) -> tuple[str, ...]:
    """The names of the metrics with one number per round."""
    every = (describe(name) for name in registry.names("metric"))
    simulated = tuple(d.name for d in every if not d.per_device)
    return (*simulated, *_TRAINING_METRICS) if training else simulated


class MetricSet:
    """The metrics of one run: measured round by round, each with its own memory."""

    def __init__(self, more: Iterable[Any] = ()) -> None:
        if not is_list(more):
            raise FedwaveError(f"metrics is {short_repr(more)}, must be a list of metrics, such as ['mass'].")
        self.more: tuple[Metric, ...] = tuple(registry.build("metric", metric) for metric in more)
        names = [metric.name for metric in self.more]
        for name in names:
            if names.count(name) > 1:
                raise FedwaveError(f"metric {name!r} is given twice: keep one.")
        always = [registry.build("metric", name) for name in registry.built_in("metric")]
        for metric in self.more:
            if any(metric.name == ours.name and type(metric) is not type(ours) for ours in always):
                raise FedwaveError(f"metric {metric.name!r} has the name of a built-in metric: choose another.")
        chosen = {metric.name: metric for metric in (*always, *self.more)}
        self.metrics: tuple[Metric, ...] = tuple(chosen.values())

    def descriptions(self) -> dict[str, Description]:
        """The description of every metric, by name."""
        return {metric.name: describe(metric) for metric in self.metrics}

    def start(self, problem: Problem) -> Memories:
        return {
            one.name: checked_state(f"metric {one.name!r}: the state from start", one.start(problem), problem.instances)
            for one in self.metrics
        }

    def measure(self, memories: Memories, played: PlayedRound) -> tuple[Memories, dict[str, Array]]:
        """The new memories, and every metric's number."""
        after: dict[str, State] = {}
        values: dict[str, Array] = {}
        for metric in self.metrics:
            before = memories[metric.name]
            measured = metric.measure({**before}, played)
            if not isinstance(measured, tuple) or len(measured) != 2:
                raise FedwaveError(
                    f"metric {metric.name!r} returned {short_repr(measured)} from measure, must be a pair: the state "
                    "and the number of the round."
                )
            state, value = measured
            if state:
                freeze(state)
            after[metric.name] = state
            values[metric.name] = _checked(metric, np.asarray(value), played)
        return after, values


def _checked(metric: Metric, value: Array, played: PlayedRound) -> Array:
    instances, devices = played.accepted.shape
    wanted = (instances, devices) if metric.per_device else (instances,)
    if value.shape != wanted or value.dtype.kind not in "biuf":
        raise FedwaveError(
            f"metric {metric.name!r} returned an array of type {value.dtype} and shape {value.shape}, "
            f"must be numbers of shape {wanted}."
        )
    return value


class Score(Metric):
    """F: shards delivered in the round, less gamma times those that wait."""

    name, label, better = "score", "Score", "higher"

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        return state, played.score


class Backlog(Metric):
    """B: shards that wait after the round, over all devices."""

    name, label, better = "backlog", "Backlog (shards)", "lower"

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        return state, played.sums.waiting


class Arrived(Metric):
    """Shards that arrived in the round, lost ones included."""

    name, label = "arrived", "Shards arrived per round"

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        return state, played.sums.arrived


class Lost(Metric):
    """Shards of the round that found the buffer full."""

    name, label, better = "lost", "Shards lost per round", "lower"

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        return state, played.sums.lost


class UploadCount(Metric):
    """Uploads that arrived in the round."""

    name, label, better = "uploads", "Uploads delivered per round", "higher"

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        return state, played.after.delivered.sum(axis=1)


class MeanAge(Metric):
    """d at the round's start, the mean over devices."""

    name, label, better = "mean_age", "Mean age (rounds)", "lower"

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        return state, played.before.delay.mean(axis=1)


class WorstAge(Metric):
    """The largest d over devices at the round's start."""

    name, label, over_rounds, better = "worst_age", "Largest age (rounds)", "max", "lower"

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        return state, played.before.delay.max(axis=1)


class DeliveredShare(Metric):
    """Share of all shards so far that was delivered."""

    name, label, over_rounds, better = ("delivered_share", "Share of shards delivered", "last", "higher")

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        return state, played.sums.learned / np.maximum(played.sums.ever_arrived, 1)


class LostShare(Metric):
    """Share of all shards so far that found the buffer full."""

    name, label, over_rounds, better = "lost_share", "Share of shards lost", "last", "lower"

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        return state, played.sums.ever_lost / np.maximum(played.sums.ever_arrived, 1)


class Jain(Metric):
    """Jain's fairness index of the uploads that each device has delivered so far."""

    name, label, over_rounds, better = "jain", "Jain index of uploads", "last", "higher"

    def start(self, problem: Problem) -> State:
        return {"uploads": np.zeros((problem.instances, problem.devices), dtype=np.int64)}

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        uploads = state["uploads"] + played.after.delivered
        return {"uploads": uploads}, jain(uploads)


class WorstDevice(Metric):
    """The smallest share of its own shards that a device has delivered so far."""

    name, label, over_rounds, better = ("worst_device", "Share delivered by the worst device", "last", "higher")

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        counts = played.after
        arrived = counts.learned + counts.waiting
        arrived += counts.lost
        with np.errstate(invalid="ignore"):
            share = counts.learned / arrived
        # fmin passes over NaN: a device without any shard has nothing to deliver.
        return state, np.fmin.reduce(share, axis=1, initial=1.0)


@dataclass(frozen=True)
class Mass(Metric):
    """Delivered mass M_t: shards' worth of local steps that reach the central model in the round.

    M_t = sum over delivered u of a_u x_u with x_u = m_u + beta x_u, reset by a delivery. a and beta are those
    of the aggregation rule, so M is known before any training.
    """

    aggregation: Aggregation = _PAPER_RULE

    name, label, better = "mass", "Mass delivered per round (shards)", "higher"

    def start(self, problem: Problem) -> State:
        server = self.aggregation.start(np.zeros(1))
        each = {f"server.{key}": np.stack([v] * problem.instances) for key, v in server.items()}
        nothing = np.zeros((problem.instances, problem.devices))
        return {"waiting": nothing, "trainings": nothing, **each}

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        rule, after = self.aggregation, played.after
        mass = rule.age(state["waiting"], played.accepted)
        trainings = rule.age_trainings(state["trainings"], played.accepted)
        freeze(mass, trainings)
        uploads = Uploads(after.delivered, after.learned, played.before.delay, mass, trainings)
        brought: FloatArray = (rule.coefficients(uploads) * mass).sum(axis=1)
        server = {k.removeprefix("server."): v for k, v in state.items() if k.startswith("server.")}
        if rule.has_server_step():
            server, brought = self._through_server(server, brought, uploads)
        kept = {f"server.{key}": value for key, value in server.items()}
        waiting, left = (after_delivery(now, after.delivered) for now in (mass, trainings))
        return {"waiting": waiting, "trainings": left, **kept}, brought

    def _through_server(
        self, server: State, brought: FloatArray, uploads: Uploads
    ) -> tuple[dict[str, Array], FloatArray]:
        """The rule's server step on the mass instead of a model, instance by instance."""
        after, steps = [], []
        for i, value in enumerate(brought):
            memory: Mapping[str, Any] = {key: array[i] for key, array in server.items()}
            memory, step = self.aggregation.server_step(memory, np.array([value]), uploads.at(i))
            after.append(memory)
            steps.append(step[0])
        return {key: np.stack([m[key] for m in after]) for key in server}, np.array(steps)


class DeviceUploads(Metric):
    """Uploads of each device that arrived."""

    name, label, over_rounds, per_device = "device_uploads", "Uploads delivered", "sum", True

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        return state, played.after.delivered.astype(np.int64)


class DeviceShards(Metric):
    """Shards that each device delivered."""

    name, label, over_rounds, per_device = "device_shards", "Shards delivered", "sum", True

    def measure(self, state: State, played: PlayedRound) -> tuple[State, Array]:
        return state, played.after.reported


def jain(values: Array) -> FloatArray:
    """Jain's index over the last axis, (sum x)^2 / (U sum x^2): 1 if all are equal, 1/U if one has all.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> fw.metrics.jain(np.array([[1, 1, 1, 1], [4, 0, 0, 0]])).tolist()
    [1.0, 0.25]
    """
    x = np.array(values, dtype=np.float64)
    total = x.sum(axis=-1)
    x *= x
    squares = x.shape[-1] * x.sum(axis=-1)
    out: FloatArray = np.where(squares > 0, total**2 / np.where(squares > 0, squares, 1), 1)
    return out
