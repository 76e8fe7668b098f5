"""Schedulers compared on the same worlds: every metric with its interval, and its paired difference from a base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.experiments.report.tables import markdown, with_interval
from fedwave.experiments.results.bootstrap import Interval, bootstrap_ratio
from fedwave.experiments.results.container import curves_of, label_of, labels, metrics_of
from fedwave.experiments.results.statistics import Estimate, estimate, per_instance
from fedwave.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from fedwave.experiments.report.figures.common import Figure

COLUMNS = (
    "scheduler", "metric", "mean", "half_width", "standard_error", "difference", "difference_half_width", "instances",
)  # fmt: skip
# A table for a terminal has no room for these; one in a file has them all.
_LEFT_OUT = {
    "arrived", "lost", "uploads", "lost_share", "worst_device", "mass", "accuracy_on_all", "worst_class",
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """One number per instance for every scheduler and metric.

    An instance that diverged has no number (NaN). It is left out, from a difference if either of the two has none.
    """

    schedulers: tuple[str, ...]
    base: str  # differences are taken from it, instance by instance
    values: Mapping[str, FloatArray]  # [scheduler, instance] by metric
    labels: Mapping[str, str]  # what people call the metrics

    @classmethod
    def of(cls, data: xr.Dataset, base: str, burn_in: int = 0) -> Comparison:
        """Every metric of ``data``; ``burn_in`` rounds are left out of means over rounds."""
        schedulers, names = tuple(labels(data)), metrics_of(data)
        if base not in schedulers:
            raise FedwaveError(
                f"differences are wanted from {base!r}, which is not among the schedulers run."
            )
        values = {name: per_instance(data, name, burn_in) for name in names}
        called = {name: label_of(data, name) for name in names}
        if "loss" in names:
            spikes = [curves_of(data, label).spikes() for label in schedulers]
            values["spikes"] = np.stack(spikes).astype(np.float64)
            called["spikes"] = "spikes of the loss"
        return cls(schedulers, base, values, called)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics: what was learnt first, if anything was."""
        return tuple(sorted(self.values, key=lambda name: {"accuracy": 0, "loss": 1}.get(name, 2)))

    @property
    def brief(self) -> tuple[str, ...]:
        """The metrics of a narrow table."""
        return tuple(name for name in self.metrics if name not in _LEFT_OUT)

    def of_instances(self, scheduler: str, metric: str) -> FloatArray:
        """``[instance]``."""
        found: FloatArray = self.values[metric][self.schedulers.index(scheduler)]
        return found

    def estimate(self, scheduler: str, metric: str) -> Estimate:
        """Mean over the instances that have a number, and its interval."""
        values = self.of_instances(scheduler, metric)
        return estimate(values[np.isfinite(values)])

    def differences(self, scheduler: str, metric: str) -> FloatArray:
        """From the base, of the instances in which both have a number."""
        apart = self.of_instances(scheduler, metric) - self.of_instances(self.base, metric)
        finite: FloatArray = apart[np.isfinite(apart)]
        return finite

    def difference(self, scheduler: str, metric: str) -> Estimate:
        """Mean of the paired differences from the base, and its interval."""
        return estimate(self.differences(scheduler, metric))

    def backlog_ratio(self, scheduler: str) -> Interval | None:
        """Backlog as a share of the base's; None where that never has any."""
        own, base = (self.of_instances(name, "backlog") for name in (scheduler, self.base))
        return bootstrap_ratio(own, base) if base.any() else None

    def diverged(self, scheduler: str) -> int:
        """How many instances have no loss after the last round."""
        if "loss" not in self.values:
            return 0
        return int(np.count_nonzero(~np.isfinite(self.of_instances(scheduler, "loss"))))

    def lines(self) -> list[list[Any]]:
        """A line per scheduler and metric, with the columns COLUMNS."""
        found: list[list[Any]] = []
        for scheduler in self.schedulers:
            for metric in self.metrics:
                own, apart = self.estimate(scheduler, metric), self.difference(scheduler, metric)
                count = int(np.isfinite(self.of_instances(scheduler, metric)).sum())
                found.append([scheduler, metric, *vars(own).values(), apart.mean, apart.half_width, count])  # fmt: skip
        return found

    def to_pandas(self) -> pd.DataFrame:
        """A tidy table: a row per scheduler and metric; ``instances`` counts those that have a number."""
        import pandas as pd

        return pd.DataFrame(self.lines(), columns=list(COLUMNS))

    def to_json(self) -> dict[str, dict[str, Any]]:
        """By scheduler: every metric, its paired difference as ``<metric>_difference``, the ratio of backlogs."""
        found: dict[str, dict[str, Any]] = {}
        for scheduler in self.schedulers:
            own: dict[str, Any] = {}
            for metric in self.metrics:
                own[metric] = vars(self.estimate(scheduler, metric))
                own[f"{metric}_difference"] = vars(self.difference(scheduler, metric))
            ratio = self.backlog_ratio(scheduler)
            own |= {} if ratio is None else {"backlog_ratio": vars(ratio)}
            found[scheduler] = own | {"diverged": self.diverged(scheduler)}
        return found

    def cells(self, scheduler: str, metrics: Sequence[str]) -> list[str]:
        """Means with the half-widths of their intervals, as texts."""
        found = (self.estimate(scheduler, metric) for metric in metrics)
        return [with_interval(value.mean, value.half_width, most=4) for value in found]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Heading and rows of a narrow table; the first metric is followed by its paired difference."""
        first, *others = self.brief
        heading = ["scheduler", first, f"vs {self.base}", *others]
        rows = []
        for scheduler in self.schedulers:
            own, *rest = self.cells(scheduler, self.brief)
            apart = self.difference(scheduler, first)
            text = with_interval(apart.mean, apart.half_width, sign="+", most=4)
            rows.append([self.name(scheduler), own, "-" if scheduler == self.base else text, *rest])
        return heading, rows

    def name(self, scheduler: str) -> str:
        """The scheduler, with the number of its instances that diverged."""
        lost = self.diverged(scheduler)
        return scheduler + (f" ({lost} diverged)" if lost else "")

    def plot(self, *metrics: str) -> Figure:
        """A panel per metric: mean and 95 % interval of every scheduler."""
        from fedwave.experiments.report.figures.comparison import comparison_figure

        return comparison_figure(self, metrics or self.brief)

    def __repr__(self) -> str:
        count = next(iter(self.values.values())).shape[1]
        about = f"Comparison of {len(self.schedulers)} schedulers on {count} instances (± 95 % interval)"
        return f"{about}\n{markdown(*self.table())}"

    def _repr_html_(self) -> str:
        import pandas as pd

        heading, rows = self.table()
        return str(pd.DataFrame(rows, columns=heading).to_html(index=False))
