"""Schedulers compared on the same worlds: every metric with its interval, and its paired difference from a base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError, did_you_mean, plural
from fedwave.experiments.analysis.bootstrap import Interval, bootstrap_ratio
from fedwave.experiments.analysis.captions import burn_in_note, sentences, title
from fedwave.experiments.analysis.randomness import Randomness
from fedwave.experiments.analysis.statistics import Estimate, instances_needed, per_instance
from fedwave.experiments.analysis.tables import markdown, with_interval
from fedwave.experiments.report.figures.comparison import comparison_figure
from fedwave.experiments.store.dataset import curves_of, long_name, metrics_of, scheduler_labels, task_metric
from fedwave.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from fedwave.experiments.report.figures.common import Figure

COLUMNS = (
    "scheduler",
    "metric",
    "mean",
    "half_width",
    "standard_error",
    "difference",
    "difference_half_width",
    "instances",
    "difference_instances",
)
# A table for a terminal has no room for these; one in a file has them all.
_LEFT_OUT = {"arrived", "lost", "uploads", "lost_share", "worst_device", "mass", "worst_class"}
Table = tuple[list[str], list[list[str]]]  # heading and rows


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Schedulers compared on the same worlds: one number per instance for every scheduler and metric.

    ``fw.compare`` makes one. It prints as two tables: means with 95 % intervals, and paired differences from ``base``.
    An instance that diverged has no number (NaN). Means leave it out, and differences leave out an instance in which
    either of the two has none; infinite numbers are left out too. The ``instances`` of an Estimate count the others,
    and tables show "(2 of 4)".

    >>> import fedwave as fw
    >>> found = fw.compare(fw.paper_network(), ["alsa-pi", "max-weight"], rounds=50, instances=4)
    >>> found.base, found.metrics[:3]
    ('alsa-pi', ('backlog', 'score', 'arrived'))
    >>> apart = found.difference("max-weight", "backlog")
    >>> round(apart.mean, 1), round(apart.half_width, 1)
    (-11.0, 4.6)
    """

    schedulers: tuple[str, ...]
    base: str  # differences are taken from it, instance by instance
    values: Mapping[str, FloatArray]  # [scheduler, instance] by metric
    long_names: Mapping[str, str]  # what people call the metrics
    first: str = ""  # the metric that was asked for: it comes first everywhere
    title: str = ""  # what was run
    note: str = ""  # what one must know of the intervals and means; may be empty
    randomness: Randomness = field(default_factory=Randomness)

    @classmethod
    def of(cls, data: xr.Dataset, base: str, burn_in: int = 0, first: str = "") -> Comparison:
        """Every metric of ``data``, ``first`` in front; ``burn_in`` rounds are left out of means over rounds."""
        schedulers, names = tuple(scheduler_labels(data)), metrics_of(data)
        if base not in schedulers:
            raise FedwaveError(f"differences are wanted from {base!r}, which is not among the schedulers run.")
        if first and first not in names:
            raise FedwaveError(f"there is no metric {first!r} in these results; {did_you_mean(first, names)}")
        on_all = f"{task_metric(data)}_on_all"
        if on_all in names and not np.isfinite(data[on_all].values).any():
            names.remove(on_all)  # it was never measured
        values = {name: per_instance(data, name, burn_in) for name in names}
        called = {name: long_name(data, name) for name in names}
        if "loss" in names:
            values["spikes"] = np.stack([curves_of(data, k).spikes() for k in schedulers])
            called["spikes"] = "Spikes of the loss"
        randomness = Randomness.of(data)
        note = sentences(burn_in_note(burn_in), randomness.note)
        return cls(schedulers, base, values, called, first, title(data), note, randomness)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics: what was asked for first, then what was learnt."""
        order = dict.fromkeys([self.first, self.randomness.metric, "loss", *self.values])
        return tuple(name for name in order if name in self.values)

    @property
    def brief(self) -> tuple[str, ...]:
        """The metrics of a narrow table."""
        left_out = {*_LEFT_OUT, f"{self.randomness.metric}_on_all"}
        return tuple(name for name in self.metrics if name == self.first or name not in left_out)

    @property
    def instances(self) -> int:
        """How many instances were run."""
        return int(next(iter(self.values.values())).shape[1])

    @property
    def has_intervals(self) -> bool:
        """Is there more than one instance, and do they differ?"""
        return self.instances > 1 and any(
            self.randomness.covers(scheduler, metric) for scheduler in self.schedulers for metric in self.metrics
        )

    def of_instances(self, scheduler: str, metric: str) -> FloatArray:
        """``[instance]``."""
        asked = (("scheduler", scheduler, self.schedulers), ("metric", metric, self.metrics))
        for what, name, known in asked:
            if name not in known:
                hint = did_you_mean(str(name), known)
                raise FedwaveError(f"there is no {what} {name!r} in this comparison; {hint}")
        found: FloatArray = self.values[metric][self.schedulers.index(scheduler)]
        return found

    def estimate(self, scheduler: str, metric: str) -> Estimate:
        """Mean over the instances that have a finite number, and its interval."""
        values = self.of_instances(scheduler, metric)
        return self.randomness.estimate(values[np.isfinite(values)], metric, scheduler)

    def differences(self, scheduler: str, metric: str) -> FloatArray:
        """From the base, of the instances in which both have a number."""
        own, base = (self.of_instances(name, metric) for name in (scheduler, self.base))
        with np.errstate(invalid="ignore"):  # infinite in both: no number
            apart = own - base
        finite: FloatArray = apart[np.isfinite(apart)]
        return finite

    def difference(self, scheduler: str, metric: str) -> Estimate:
        """Mean of the paired differences from the base, and its interval."""
        return self.randomness.estimate(self.differences(scheduler, metric), metric, scheduler, self.base)

    def instances_needed(self, scheduler: str, half_width: float, metric: str = "score") -> int | None:
        """How many instances narrow the paired difference's interval to this half-width.

        None where all instances are copies: no number of them narrows anything.
        """
        if not any(self.randomness.covers(name, metric) for name in (scheduler, self.base)):
            return None
        return instances_needed(self.differences(scheduler, metric), half_width)

    def backlog_ratio(self, scheduler: str) -> Interval | None:
        """Backlog as a share of the base's; None where that never has any."""
        own, base = (self.of_instances(name, "backlog") for name in (scheduler, self.base))
        if not base.any():
            return None
        covered = (self.randomness.covers(name, "backlog") for name in (scheduler, self.base))
        if not any(covered):
            return Interval(float(own.mean() / base.mean()), np.nan, np.nan)
        return bootstrap_ratio(own, base)

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
                numbers = (own.mean, own.half_width, own.standard_error, apart.mean, apart.half_width)
                found.append([scheduler, metric, *numbers, own.instances, apart.instances])
        return found

    def to_pandas(self) -> pd.DataFrame:
        """A tidy table: a row per scheduler and metric; ``instances`` counts those with a finite number."""
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
            if ratio is not None:
                own["backlog_ratio"] = vars(ratio)
            found[scheduler] = own | {"diverged": self.diverged(scheduler)}
        return found

    def about(self) -> dict[str, Any]:
        """What must be known to read the numbers, for machines: the base, and what the intervals cover."""
        return {"against": self.base, "intervals_cover": list(self.randomness.covered), "note": self.note}

    def cells(self, scheduler: str, metrics: Sequence[str], paired: bool = False) -> list[str]:
        """Means, or paired differences from the base, with the half-widths of their intervals, as texts."""
        of, sign = (self.difference, "+") if paired else (self.estimate, "")
        found = (of(scheduler, metric) for metric in metrics)
        return [with_interval(e.mean, e.half_width, sign, most=4) + self.share(e) for e in found]

    def share(self, value: Estimate) -> str:
        """How many instances an estimate is the mean of, where it left some out: " (2 of 4)"."""
        left_out = 0 < value.instances < self.instances
        return f" ({value.instances} of {self.instances})" if left_out else ""

    def left_out(self, *metrics: str) -> str:
        """A sentence about instances that the means of these metrics, or of any, leave out; empty if they do not."""
        missing = (~np.isfinite(self.values[metric]) for metric in metrics or self.metrics)
        if not any((part.any(axis=1) & ~part.all(axis=1)).any() for part in missing):
            return ""
        return "(n of N): the mean of n of N instances, the others have no finite number."

    def table(self, paired: bool = False) -> Table:
        """Heading and rows of a narrow table: the mean of every brief metric, or its paired difference from the base.

        The base has no row of differences.
        """
        shown = [k for k in self.schedulers if not (paired and k == self.base)]
        rows = [[self.name(k), *self.cells(k, self.brief, paired)] for k in shown]
        return [f"vs {self.base}" if paired else "scheduler", *self.brief], rows

    def name(self, scheduler: str) -> str:
        """The scheduler, with the number of its instances that diverged."""
        lost = self.diverged(scheduler)
        return scheduler + (f" ({lost} diverged)" if lost else "")

    def plot(self, *metrics: str) -> Figure:
        """A panel per metric: mean and 95 % interval of every scheduler. A matplotlib Figure, with ``savefig``."""
        return comparison_figure(self, metrics or self.brief)

    def __repr__(self) -> str:
        about = f"Comparison of {plural(len(self.schedulers), 'scheduler')}: {self.title}"
        about += " (± 95 % interval)" if self.has_intervals else ""
        tables = [markdown(*self.table())]
        if len(self.schedulers) > 1:
            tables.append(f"paired differences from {self.base}:\n{markdown(*self.table(paired=True))}")
        return "\n".join(filter(None, (about, "".join(tables), self._footer())))

    def _repr_html_(self) -> str:
        import pandas as pd

        tables = [self.table(), self.table(paired=True)] if len(self.schedulers) > 1 else [self.table()]
        shown = [pd.DataFrame(r, columns=h).to_html(index=False) for h, r in tables]
        return f"<p>{escape(self.title)}</p>{''.join(shown)}<p>{escape(self._footer())}</p>"

    def _footer(self) -> str:
        return sentences(self.left_out(*self.brief), self.note)
