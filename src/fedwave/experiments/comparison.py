"""Several schedulers on the same worlds, and the numbers that people compare them by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.experiments.statistics import Estimate, estimate, jain, paired_difference
from fedwave.network.network import Network
from fedwave.schedulers.base import Scheduler
from fedwave.simulate import simulate
from fedwave.trace import Trace
from fedwave.types import FloatArray

Traces = Mapping[str, Trace]


def compare(
    network: Network,
    schedulers: Mapping[str, Scheduler],
    rounds: int,
    instances: int | Sequence[int],
    seed: int,
    *,
    record: str = "summary",
    meter: Callable[[str, int], None] | None = None,
) -> dict[str, Trace]:
    """Run every scheduler on the worlds of the same seed; ``meter(label, rounds)`` reports progress."""
    if not schedulers:
        raise FedwaveError("there is no scheduler to compare: name at least one.")
    traces = {}
    for label, chosen in schedulers.items():

        def tick(played: int, label: str = label) -> None:
            if meter is not None:
                meter(label, played)

        traces[label] = simulate(
            network, chosen, rounds, instances, seed, record=record, meter=tick
        )
    return traces


def metrics(trace: Trace, burn_in: int = 0) -> dict[str, FloatArray]:
    """One number per instance, ``[I]``, for each thing worth comparing.

    ``burn_in`` leaves the first rounds out of score, backlog and age; the share delivered and the
    fairness count the whole run.
    """
    if not 0 <= burn_in < trace.rounds:
        raise FedwaveError(
            f"burn_in is {burn_in}, must lie between 0 and the {trace.rounds} rounds of the run less one."
        )
    arrived = trace.series["arrived"].sum(axis=0)
    learned = trace.final.learned.sum(axis=1)
    return {
        "score": trace.score[burn_in:].mean(axis=0),
        "backlog": trace.backlog[burn_in:].mean(axis=0),
        "delivered": learned / np.maximum(arrived, 1),
        "lost": trace.series["lost"].sum(axis=0) / np.maximum(arrived, 1),
        "jain": jain(trace.uploads),
        "mean_age": trace.series["mean_age"][burn_in:].mean(axis=0),
        "worst_age": trace.series["worst_age"].max(axis=0).astype(np.float64),
    }


@dataclass(frozen=True)
class Row:
    """One scheduler of a comparison."""

    label: str
    values: dict[str, Estimate]  # by the names of metrics()
    score_difference: Estimate  # paired, from the base scheduler
    backlog_difference: Estimate


def table(traces: Traces, base: str, burn_in: int = 0) -> list[Row]:
    """Estimates for every scheduler, and its paired differences from ``base``."""
    if base not in traces:
        raise FedwaveError(
            f"differences are wanted from {base!r}, which is not among the schedulers run."
        )
    by_label = {label: metrics(trace, burn_in) for label, trace in traces.items()}
    return [
        Row(
            label,
            {name: estimate(value) for name, value in values.items()},
            paired_difference(values["score"], by_label[base]["score"]),
            paired_difference(values["backlog"], by_label[base]["backlog"]),
        )
        for label, values in by_label.items()
    ]
