"""``fw.predict``: the order of schedulers by expected accuracy, from their schedules alone.

The number behind it is the useful mass (theory/useful_mass.py), summed over the rounds. It has no unit of accuracy; one
short training of one scheduler gives it one, because the curves of all schedulers fall near to one line when they are
drawn against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from fedwave.aggregation import Aggregation, Lee
from fedwave.errors import FedwaveError, plural, short_repr
from fedwave.experiments.analysis.statistics import Estimate, estimate, paired_difference
from fedwave.experiments.analysis.tables import markdown, with_interval
from fedwave.network.partition import Labels
from fedwave.parts import registry
from fedwave.theory.useful_mass import ScheduleMass
from fedwave.trace import Trace, labelled_traces
from fedwave.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd

    from fedwave.learning.curves import Curves
    from fedwave.learning.task import Task

    Learnt = Task | Aggregation | str | Mapping[str, Any] | None

_FEWEST_ROUNDS = 3  # in a training that accuracies are predicted from
COLUMNS = ("scheduler", "useful_mass", "half_width", "difference", "difference_half_width", "instances", "accuracy")


@dataclass(frozen=True, eq=False)
class Calibration:
    """Accuracy as a function of the useful mass so far, from the training of one scheduler."""

    label: str
    mass: FloatArray  # [T] so far, the mean over instances
    accuracy: FloatArray  # [T] the best so far

    @property
    def exponent(self) -> float:
        """b of the law 1 - accuracy ~ mass^-b, fitted to the second half of the rounds."""
        half = slice(len(self.mass) // 2, None)
        mass, wrong = self.mass[half], np.maximum(1 - self.accuracy[half], 1e-9)
        if len(mass) < 2 or not mass[0] > 0 or mass[-1] == mass[0]:
            return 0.0
        slope = np.polyfit(np.log(mass), np.log(wrong), 1)[0]
        return float(max(0.0, -slope))

    def at(self, mass: float) -> float:
        """The expected accuracy; beyond the trained rounds, extrapolated by the law."""
        last = float(self.mass[-1])
        if mass <= last or last <= 0:
            return float(np.interp(mass, self.mass, self.accuracy))
        return float(1 - (1 - self.accuracy[-1]) * (mass / last) ** -self.exponent)


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """Schedulers by the useful mass that they deliver, the best first. ``fw.predict`` makes one.

    >>> import fedwave as fw
    >>> net = fw.paper_network()
    >>> found = fw.predict({name: fw.simulate(net, name, rounds=40, instances=3) for name in ("age", "fresh")}, "mnist")
    >>> found
    Prediction for 2 schedulers, the best first
    | scheduler | useful mass | vs fresh |
    |:----------|------------:|---------:|
    | fresh     |      233±39 |          |
    | age       |       81±12 |  -152±37 |
    Useful mass of 40 rounds by lee, 3 instances: shards' worth of local steps that reach the central model.
    """

    useful: Mapping[str, FloatArray]  # V of every round and instance, [T, I], by scheduler
    rule: str  # the aggregation rule that it is counted by
    partition: str = ""  # how classes are spread over the devices; "" where that is not counted
    calibration: Calibration | None = None

    @property
    def schedulers(self) -> tuple[str, ...]:
        """The best first."""
        return tuple(sorted(self.useful, key=lambda label: -float(self.of(label).mean())))

    def of(self, scheduler: str) -> FloatArray:
        """The useful mass of all rounds, ``[I]``: larger is better."""
        if scheduler not in self.useful:
            raise FedwaveError(
                f"there is no scheduler {scheduler!r} in this prediction, only {', '.join(self.useful)}."
            )
        total: FloatArray = self.useful[scheduler].sum(axis=0)
        return total

    def estimate(self, scheduler: str) -> Estimate:
        """The mean over instances, and its interval."""
        return estimate(self.of(scheduler))

    def difference(self, scheduler: str) -> Estimate:
        """The paired difference from the best."""
        return paired_difference(self.of(scheduler), self.of(self.schedulers[0]))

    def accuracy(self, scheduler: str) -> float:
        """The expected accuracy after the last round; NaN without ``calibrated``."""
        if self.calibration is None:
            return np.nan
        return self.calibration.at(float(self.of(scheduler).mean()))

    def calibrated(self, curves: Curves) -> Prediction:
        """With accuracies, from the training of one of the traces, or of its first rounds.

        Whether the curves are of the same network, seed and data cannot be seen from them.
        """
        if curves.label not in self.useful:
            raise FedwaveError(
                f"the curves are those of {curves.label!r}, which is not among {', '.join(self.useful)}: "
                "train one of the traces that were given to predict."
            )
        useful = self.useful[curves.label]
        rounds, instances = curves.accuracy.shape
        if rounds > len(useful) or instances != useful.shape[1]:
            raise FedwaveError(
                f"the curves have {plural(rounds, 'round')} and {plural(instances, 'instance')}, the prediction "
                f"{len(useful)} and {useful.shape[1]}: train the same trace, or its first rounds."
            )
        if rounds < _FEWEST_ROUNDS:
            raise FedwaveError(
                f"the curves have {plural(rounds, 'round')}, too few to go on from: train at least {_FEWEST_ROUNDS}."
            )
        trained = curves.settings.get("aggregation", self.rule)
        if _rule_of(trained) != _rule_of(self.rule):
            raise FedwaveError(
                f"the curves were trained with {trained}, the prediction is for {self.rule}: train the same task."
            )
        classes = curves.settings.get("partition", "iid")
        if self.partition and classes != self.partition:
            raise FedwaveError(
                f"the curves were trained with classes by {classes}, the prediction is for {self.partition}: train "
                "the same task."
            )
        if not np.isfinite(curves.accuracy).any(axis=1).all():
            raise FedwaveError("every instance of the curves diverged: lower eta.")
        mass = useful[:rounds].cumsum(axis=0).mean(axis=1)
        best = np.maximum.accumulate(np.nanmean(curves.accuracy, axis=1))
        return replace(self, calibration=Calibration(curves.label, mass, best))

    def lines(self) -> list[list[Any]]:
        """A line per scheduler, with the columns COLUMNS."""
        found: list[list[Any]] = []
        for label in self.schedulers:
            own, apart = self.estimate(label), self.difference(label)
            numbers = (own.mean, own.half_width, apart.mean, apart.half_width, own.instances)
            found.append([label, *numbers, self.accuracy(label)])
        return found

    def to_pandas(self) -> pd.DataFrame:
        """A row per scheduler, the best first."""
        import pandas as pd

        return pd.DataFrame(self.lines(), columns=list(COLUMNS))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Heading and rows."""
        best = self.schedulers[0]
        rows = []
        for label, mean, half, apart, apart_half, _, accuracy in self.lines():
            difference = "" if label == best else with_interval(apart, apart_half, "+")
            row = [label, with_interval(mean, half), difference]
            rows.append(row if self.calibration is None else [*row, f"{accuracy:.3f}"])
        heading = ["scheduler", "useful mass", f"vs {best}"]
        return (heading if self.calibration is None else [*heading, "accuracy"]), rows

    def note(self) -> str:
        """Explains the numbers."""
        rounds, instances = next(iter(self.useful.values())).shape
        text = (
            f"Useful mass of {plural(rounds, 'round')} by {self.rule}, {plural(instances, 'instance')}: "
            "shards' worth of local steps that reach the central model"
        ) + (f", with classes by {self.partition}." if self.partition else ".")
        if self.calibration is None:
            return text
        made = self.calibration
        beyond = max(float(self.of(label).mean()) for label in self.useful) > made.mass[-1]
        more = f" Accuracy by {plural(len(made.mass), 'round')} of training of {made.label}"
        return text + more + (", beyond them by a power law." if beyond else ".")

    def __repr__(self) -> str:
        count = plural(len(self.useful), "scheduler")
        return f"Prediction for {count}, the best first\n{markdown(*self.table())}{self.note()}"

    def _repr_html_(self) -> str:
        import pandas as pd

        heading, rows = self.table()
        return f"{pd.DataFrame(rows, columns=heading).to_html(index=False)}<p>{self.note()}</p>"


@overload
def predict(traces: Trace, task: Learnt = ..., *, labels: Labels | None = ...) -> FloatArray: ...
@overload
def predict(
    traces: Mapping[str, Trace] | Iterable[Trace], task: Learnt = ..., *, labels: Labels | None = ...
) -> Prediction: ...
def predict(
    traces: Trace | Mapping[str, Trace] | Iterable[Trace], task: Learnt = None, *, labels: Labels | None = None
) -> FloatArray | Prediction:
    """Predict how well a schedule trains a model, without training: larger is better.

    For one trace, returns its useful mass: one number per instance, ``[I]``. For several traces, or a mapping of labels
    to traces, returns a Prediction: the schedulers in the order of their expected accuracy.

    ``task`` says how uploads are aggregated: a Task, an aggregation rule ("constant:beta=1") or the name of a dataset,
    which stands for the paper's rule. ``labels`` says how classes are spread over the devices
    (``fw.partition.Labels``); a Task knows it. Traces need a full record, and the same number of rounds.

    >>> import fedwave as fw
    >>> net = fw.paper_network()
    >>> traces = [fw.simulate(net, name, rounds=40, instances=3) for name in ("age", "fresh", "alsa-pi")]
    >>> fw.predict(traces, "mnist").schedulers
    ('fresh', 'alsa-pi', 'age')
    """
    rule = _rule_of(task)
    if labels is None:
        of_task: Callable[[], Labels] | None = getattr(task, "labels", None)
        labels = None if of_task is None else of_task()
    if not (labels is None or isinstance(labels, Labels)):
        raise FedwaveError(f"labels is {short_repr(labels)}, must be fw.partition.Labels(...).")
    if isinstance(traces, Trace):
        total: FloatArray = ScheduleMass.of(traces, rule, labels).useful.sum(axis=0)
        return total
    many = labelled_traces(traces)
    if len({(trace.rounds, trace.instance_numbers) for trace in many.values()}) > 1:
        raise FedwaveError("traces that are compared must have the same rounds and instances.")
    first = next(iter(many.values()))
    if any(not np.array_equal(trace.arrivals, first.arrivals) for trace in many.values()):
        raise FedwaveError(
            "traces that are compared must be of the same worlds, but their arrivals differ: simulate all of them on "
            "the same network with the same seed and instances, or predict each by itself."
        )
    useful = {label: ScheduleMass.of(trace, rule, labels).useful for label, trace in many.items()}
    skewed = labels is not None and not labels.same_everywhere
    partition = registry.full_text("partition", labels.partition) if labels and skewed else ""
    return Prediction(useful, registry.text(rule), partition)


def _rule_of(task: Any) -> Aggregation:
    if task is None:
        return Lee()
    rule = getattr(task, "aggregation", task)
    if isinstance(rule, Aggregation):
        return rule
    if not isinstance(rule, (str, Mapping)):
        raise FedwaveError(f"task is {short_repr(task)}, must be a Task, an aggregation rule or the name of a dataset.")
    if registry.parse("aggregation", rule)["name"] in registry.names("dataset"):
        return Lee()
    made: Aggregation = registry.build("aggregation", rule)
    return made
