"""The numbers that people compare schedulers by, from outcomes on the same worlds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.experiments.results.bootstrap import Interval, bootstrap_ratio
from fedwave.experiments.results.outcome import Outcome, Outcomes
from fedwave.experiments.results.statistics import Estimate, estimate, jain, paired_difference
from fedwave.types import FloatArray


def metrics(outcome: Outcome, burn_in: int = 0) -> dict[str, FloatArray]:
    """One number per instance, ``[I]``, for each thing worth comparing.

    ``burn_in`` leaves the first rounds out of score, backlog and age; the share delivered and the
    fairness count the whole run.
    """
    if not 0 <= burn_in < outcome.rounds:
        raise FedwaveError(
            f"burn_in is {burn_in}, must lie between 0 and the {outcome.rounds} rounds of the run less one."
        )
    arrived = outcome.series["arrived"].sum(axis=0)
    learned = outcome.learned.sum(axis=1)
    return {
        "score": outcome.score[burn_in:].mean(axis=0),
        "backlog": outcome.backlog[burn_in:].mean(axis=0),
        "delivered": learned / np.maximum(arrived, 1),
        "lost": outcome.series["lost"].sum(axis=0) / np.maximum(arrived, 1),
        "jain": jain(outcome.uploads),
        "mean_age": outcome.series["mean_age"][burn_in:].mean(axis=0),
        "worst_age": outcome.series["worst_age"].max(axis=0).astype(np.float64),
    }


@dataclass(frozen=True)
class Row:
    """One scheduler of a comparison."""

    label: str
    values: dict[str, Estimate]  # by the names of metrics()
    score_difference: Estimate  # paired, from the base scheduler
    backlog_difference: Estimate
    backlog_ratio: Interval | None  # to the base's; None where that never has any
    score_differences: FloatArray  # [I], to plan how many instances are wanted


def table(outcomes: Outcomes, base: str, burn_in: int = 0) -> list[Row]:
    """Estimates for every scheduler, and its paired differences from ``base``."""
    if base not in outcomes:
        raise FedwaveError(
            f"differences are wanted from {base!r}, which is not among the schedulers run."
        )
    by_label = {label: metrics(outcome, burn_in) for label, outcome in outcomes.items()}
    return [_row(label, values, by_label[base]) for label, values in by_label.items()]


def _row(label: str, values: dict[str, FloatArray], base: dict[str, FloatArray]) -> Row:
    ratio = bootstrap_ratio(values["backlog"], base["backlog"]) if base["backlog"].any() else None
    return Row(
        label,
        {name: estimate(value) for name, value in values.items()},
        paired_difference(values["score"], base["score"]),
        paired_difference(values["backlog"], base["backlog"]),
        ratio,
        values["score"] - base["score"],
    )
