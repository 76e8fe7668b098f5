"""Compares predictions from the schedules of a trained experiment with its accuracies.

The schedules are simulated again from the run folder's configuration. At every point of a sweep, schedulers are ranked
in each instance by every predictor and by their accuracy. Spearman's rank correlation of the two, averaged over
instances, is 1 if the predictor knows the order and 0 if it knows nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.experiments.analysis.captions import point_name
from fedwave.experiments.analysis.statistics import Estimate, estimate
from fedwave.experiments.analysis.tables import with_interval
from fedwave.experiments.config.build import class_labels_of, class_mix_of, network_of, schedulers_of
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.files import with_file_names
from fedwave.experiments.store.dataset import Point, scheduler_labels
from fedwave.experiments.store.folder import RunFolder, check_is_folder
from fedwave.experiments.store.load import results_of
from fedwave.parts import registry
from fedwave.simulation import simulate
from fedwave.theory.useful_mass import ScheduleMass
from fedwave.trace import Trace
from fedwave.types import FloatArray

PREDICTORS = ("useful mass", "delivered mass", "fresh shards", "score", "small backlog")
_LAST = 5  # rounds whose mean accuracy is judged: a single one is noisy
_FEWEST = 3  # schedulers that can be ranked


@dataclass(frozen=True, eq=False)
class CheckedPoint:
    """A point of a sweep: its predictions, ``[S, I]`` by predictor, and its accuracies."""

    where: Mapping[str, Any]
    schedulers: tuple[str, ...]
    predicted: Mapping[str, FloatArray]
    useful: FloatArray  # V of every round, [T, S, I]
    accuracy: FloatArray  # in every round, [T, S, I]

    @property
    def learnt(self) -> FloatArray:
        """The accuracy of the last rounds, ``[S, I]``; 0 for a run that diverged: no order is worse."""
        last: FloatArray = np.nan_to_num(self.accuracy[-_LAST:].mean(axis=0))
        # Equal counts of right answers are a tie, however their means are rounded.
        return last.round(9)

    def correlation(self, predictor: str) -> Estimate:
        """Mean over instances of the rank correlation with accuracy over schedulers, and its interval.

        Instances in which all schedulers learnt the same, for example nothing, have no order and are left out.
        """
        each = rank_correlations(self.predicted[predictor], self.learnt)
        return _mean_of_known(np.where(np.ptp(self.learnt, axis=0) > 0, each, np.nan))


@dataclass(frozen=True, eq=False)
class PredictionCheck:
    """The prediction beside the training, at every point of an experiment."""

    name: str
    points: tuple[CheckedPoint, ...]

    def overall(self, predictor: str) -> Estimate:
        """The mean correlation over the points that have one; the interval is over these points."""
        each = [point.correlation(predictor).mean for point in self.points]
        return _mean_of_known(np.array(each))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Heading and rows: a point each, and all of them."""
        rows = [
            [point_name(dict(point.where)) or self.name, *(_cell(point.correlation(k)) for k in PREDICTORS)]
            for point in self.points
        ]
        if len(self.points) > 1:
            rows.append([f"all {len(self.points)}", *(_cell(self.overall(k)) for k in PREDICTORS)])
        return ["rank correlation with accuracy", *PREDICTORS], rows

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "points": [
                {
                    "where": {k: str(v) for k, v in point.where.items()},
                    "accuracy": dict(zip(point.schedulers, point.learnt.mean(axis=1).tolist(), strict=True)),
                    "correlation": {k: vars(point.correlation(k)) for k in PREDICTORS},
                }
                for point in self.points
            ],
            "overall": {k: vars(self.overall(k)) for k in PREDICTORS},
        }


def check_prediction(folder: Path) -> PredictionCheck:
    """Compares predictions from the schedules of a finished, trained run with its accuracies."""
    check_is_folder(folder)
    store = RunFolder(folder)
    results, paths = results_of(store), store.data_paths()
    how = results.experiment
    if how.task is None:
        raise FedwaveError(f"{folder} holds no training that a prediction could be compared with.")
    if how.task.metric_name != "accuracy":
        raise FedwaveError(f"{folder} was tested by {how.task.metric_name}, but only an accuracy can be predicted.")
    if len(how.schedulers) < _FEWEST:
        raise FedwaveError(
            f"{folder} has {len(how.schedulers)} schedulers: an order of fewer than {_FEWEST} says nothing."
        )
    return PredictionCheck(
        how.name, tuple(_checked(point, with_file_names(point.experiment, paths)) for point in results.points)
    )


def rank_correlations(predicted: FloatArray, learnt: FloatArray) -> FloatArray:
    """Spearman's correlation over schedulers in every instance, ``[S, I]`` to ``[I]``; 0 where all are equal.

    >>> rank_correlations(np.array([[1.0, 1], [2, 5], [9, 3]]), np.array([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]])).tolist()
    [1.0, 0.5]
    """
    from scipy.stats import rankdata

    ranks = [rankdata(values, axis=0) for values in (predicted, learnt)]
    apart = [rank - rank.mean(axis=0) for rank in ranks]
    spread = np.sqrt((apart[0] ** 2).sum(axis=0) * (apart[1] ** 2).sum(axis=0))
    together = (apart[0] * apart[1]).sum(axis=0)
    found: FloatArray = np.divide(together, spread, out=np.zeros(together.shape), where=spread > 0)
    return found


def _checked(point: Point, how: Experiment) -> CheckedPoint:
    names = tuple(scheduler_labels(point.data))
    assert how.task is not None
    network, rule = network_of(how.network), registry.build("aggregation", how.task.aggregation)
    made = schedulers_of(how)
    classes, mix = class_labels_of(how, made.values()), class_mix_of(how.task)
    by_name: dict[str, list[FloatArray]] = {name: [] for name in PREDICTORS}
    useful = []
    for label in names:
        ids = point.data["instance"].values.tolist()
        trace = simulate(network, made[label], how.rounds, ids, how.seed, labels=classes)
        _check_same(trace, point, label)
        mass = ScheduleMass.of(trace, rule, mix)
        fresh = (trace.accepted * trace.delivered).sum(axis=2)
        series = (mass.useful, mass.delivered, fresh, trace.score, -trace.backlog)
        for name, values in zip(PREDICTORS, series, strict=True):
            by_name[name].append(np.asarray(values, dtype=np.float64).sum(axis=0))
        useful.append(mass.useful)
    accuracy = point.data["accuracy"].transpose("round", "scheduler", "instance").values
    predicted = {name: np.stack(values) for name, values in by_name.items()}
    return CheckedPoint(point.where, names, predicted, np.stack(useful, axis=1), accuracy)


def _check_same(trace: Trace, point: Point, label: str) -> None:
    stored = point.data["score"].sel(scheduler=label).transpose("round", "instance").values
    if not np.array_equal(stored, trace.score):
        raise FedwaveError(
            f"the schedule of {label} is not the one that was trained: predict with the fedwave that made the run."
        )


def _mean_of_known(values: FloatArray) -> Estimate:
    known = values[np.isfinite(values)]
    return estimate(known) if known.size else Estimate(np.nan, np.nan, np.nan, 0)


def _cell(value: Estimate) -> str:
    return with_interval(value.mean, value.half_width, most=2)
