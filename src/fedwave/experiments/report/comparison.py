"""Schedulers compared on the same worlds: every metric with its interval, and its paired difference from a base."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.aggregation import Lee
from fedwave.errors import FedwaveError, check_number, did_you_mean, plural
from fedwave.experiments.analysis.bootstrap import Interval, bootstrap_ratio
from fedwave.experiments.analysis.captions import burn_in_note, sentences, title
from fedwave.experiments.analysis.randomness import LEARNT, Randomness, listed
from fedwave.experiments.analysis.statistics import (
    Estimate,
    instances_needed,
    over_rounds_quantile,
    per_instance,
    warm_up_rounds,
)
from fedwave.experiments.analysis.tables import markdown, with_interval
from fedwave.experiments.report.figures.comparison import comparison_figure
from fedwave.experiments.store.dataset import (
    curves_of,
    join_units,
    long_name,
    metrics_of,
    scheduler_labels,
    task_metric,
)
from fedwave.network.network import Network
from fedwave.schedulers.base import Scheduler
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
    "difference_percent",
    "difference_percent_half_width",
    "instances",
    "difference_instances",
)
LEVEL = 0.95  # of every interval
MOST_INSTANCES = 1000  # that are run to reach the half-width asked for
BOUND = "bound"  # the row of what no scheduler can exceed
NEVER = -1  # rounds until a backlog settles that does not
_LARGEST_BOUND = 2000  # devices; for more, the bound takes longer than the table
_SHARES = {*LEARNT, "delivered_share", "lost_share", "worst_device", "jain"}  # shares of a whole: no percent of them
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
    ('alsa-pi', ('backlog', 'backlog_p99', 'score'))
    >>> apart = found.difference("max-weight", "backlog")
    >>> round(apart.mean, 1), round(apart.half_width, 1)
    (-11.0, 4.6)
    >>> found.verdict[:74]
    'max-weight has the smallest backlog: 11.0 ± 4.6 (9.9 %) less than alsa-pi.'
    """

    schedulers: tuple[str, ...]
    base: str  # differences are taken from it, instance by instance
    values: Mapping[str, FloatArray]  # [scheduler, instance] by metric
    long_names: Mapping[str, str]  # what people call the metrics
    first: str = ""  # the metric that was asked for: it comes first everywhere
    title: str = ""  # what was run
    note: str = ""  # what one must know of the intervals and means; may be empty
    more: str = ""  # sentences of the caller
    randomness: Randomness = field(default_factory=Randomness)
    better: Mapping[str, str] = field(default_factory=dict)  # "higher" or "lower", by metric
    rival: str = ""  # the verdict compares the best scheduler with it; empty: with the second
    network: Network | None = None  # whose bound is shown
    warm_up: int | None = None  # first rounds that start empty and are included; None: they are left out
    unlimited: tuple[str, ...] = ()  # schedulers by which more devices transmit than there are slots

    @classmethod
    def of(
        cls,
        data: xr.Dataset,
        base: str,
        burn_in: int = 0,
        first: str = "",
        *,
        rival: str | None = None,
        network: Network | None = None,
        remark: str = "",
    ) -> Comparison:
        """Every metric of ``data``, ``first`` in front; ``burn_in`` rounds are left out of means over rounds.

        ``remark`` is added to the note.
        """
        schedulers, names = tuple(scheduler_labels(data)), metrics_of(data)
        if base not in schedulers:
            raise FedwaveError(f"differences are wanted from {base!r}, which is not among the schedulers run.")
        if first and first not in names:
            raise FedwaveError(f"there is no metric {first!r} in these results; {did_you_mean(first, names)}")
        on_all = f"{task_metric(data)}_on_all"
        if on_all in names and not np.isfinite(data[on_all].values).any():
            names.remove(on_all)  # it was never measured
        values, called = dict[str, FloatArray](), dict[str, str]()
        for name in names:
            values[name], called[name] = per_instance(data, name, burn_in), long_name(data, name)
            if name == "backlog":
                values["backlog_p99"] = over_rounds_quantile(data, name, 0.99, burn_in)
                called["backlog_p99"] = "Backlog, 99 % quantile over rounds (shards)"
        better = {name: str(data[name].attrs.get("better", "")) for name in names} | {"backlog_p99": "lower"}
        if "loss" in names:
            values["spikes"] = np.stack([curves_of(data, k).spikes() for k in schedulers])
            called["spikes"] = "Spikes of the loss"
        randomness = Randomness.of(data)
        note = sentences(burn_in_note(burn_in), randomness.note)
        unlimited, warm_up = _unlimited(data), None if burn_in else _warm_up(data)
        about = (schedulers, base, values, called, first, title(data), note, remark, randomness, better)
        return cls(*about, rival or "", network, warm_up, unlimited)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics: what was asked for first, with its quantile, then what was learnt."""
        order = dict.fromkeys([self.first, f"{self.first}_p99", self.randomness.metric, "loss", *self.values])
        return tuple(name for name in order if name in self.values)

    @property
    def brief(self) -> tuple[str, ...]:
        """The metrics of a narrow table."""
        left_out = {*_LEFT_OUT, f"{self.randomness.metric}_on_all"}
        return tuple(name for name in self.metrics if name == self.first or name not in left_out)

    @property
    def ranking(self) -> tuple[str, ...]:
        """The schedulers by the mean of the metric that was asked for, the best first; as given if it has no best."""
        better = self.better.get(self.first, "")
        if not better:
            return self.schedulers
        means = {k: self.estimate(k, self.first).mean * (-1 if better == "higher" else 1) for k in self.schedulers}
        return tuple(sorted(self.schedulers, key=lambda k: np.inf if np.isnan(means[k]) else means[k]))

    @cached_property
    def bounds(self) -> Mapping[str, float]:
        """What no scheduler can exceed in the long run, by metric; empty where no bound is known."""
        net = self.network
        if net is None or not isinstance(net.slots, int) or net.size > _LARGEST_BOUND:
            return {}
        from fedwave.theory.bound import backlog_bound

        try:
            least = float(backlog_bound(net))
        except FedwaveError:  # the network is not one that it holds for
            return {}
        found = {"backlog": least, "score": float(net.rates.sum()) - net.gamma * least}
        return {name: bound for name, bound in found.items() if name in self.values and np.isfinite(bound)}

    @property
    def remark(self) -> str:
        """Why a mean may lie beyond the bound, if that is shown, and what the caller had to say."""
        found = []
        if self.unlimited and (self.bounds or self.verdict):
            than = "more devices than there are slots transmit"
            found.append(f"By {listed(self.unlimited)} {than}: neither the bound nor the verdict is about it.")
        if self.bounds and self.warm_up == NEVER:
            why = "the backlog has not settled after half of the rounds: run more"
            found.append(f"The bound holds for the long run, and {why}.")
        elif self.bounds and self.warm_up:
            first = f"the first {plural(self.warm_up, 'round')}, which start empty, are included"
            out = f"burn_in={self.warm_up} leaves them out"
            found.append(f"The bound holds for the long run, and {first} ({out}).")
        return sentences(*found, self.more)

    @property
    def verdict(self) -> str:
        """Which scheduler is best by the metric that was asked for, and by how much, in words."""
        ranking = [k for k in self.ranking if k not in self.unlimited]
        if len(ranking) < 2 or not self.better.get(self.first):
            return ""
        best, second, *_ = ranking
        named = self.rival in ranking[1:]
        other = self.rival if named else second
        values = self._apart(best, other, self.first)
        if not values.size:
            return ""
        count = len(ranking)
        pairs = count - 1 if named else count * (count - 1) // 2
        level = 1 - (1 - LEVEL) / pairs
        apart = self.randomness.estimate(values, self.first, best, other, level=level)
        metric = self.first.replace("_", " ")
        if not np.isnan(apart.half_width) and abs(apart.mean) <= apart.half_width:
            found = f"No difference in {metric} can be shown between {best} and {other}: "
            found += f"{with_interval(apart.mean, apart.half_width, '+', most=4)}."
        else:
            size = with_interval(abs(apart.mean), apart.half_width, most=4).replace("±", " ± ")
            percent = self.percent(best, self.first, other).mean
            size += "" if np.isnan(percent) else f" ({with_interval(abs(percent), np.nan, most=1)} %)"
            most, than = ("smallest", "less") if self.better[self.first] == "lower" else ("largest", "more")
            found = f"{best} has the {most} {metric}: {size} {than} than {other}."
        if np.isnan(apart.half_width):
            return f"{found} There is no interval, so chance is not excluded."
        if pairs == 1:
            return f"{found} The interval is that of the paired difference (95 %)."
        which = f"with {other}" if named else "of two schedulers"
        return f"{found} The interval covers all {pairs} pairs {which} at once (95 %), since the data chose the best."

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
        return self._apart(scheduler, self.base, metric)

    def _apart(self, scheduler: str, other: str, metric: str) -> FloatArray:
        own, base = (self.of_instances(name, metric) for name in (scheduler, other))
        with np.errstate(invalid="ignore"):  # infinite in both: no number
            apart = own - base
        finite: FloatArray = apart[np.isfinite(apart)]
        return finite

    def difference(self, scheduler: str, metric: str) -> Estimate:
        """Mean of the paired differences from the base, and its interval."""
        return self.randomness.estimate(self.differences(scheduler, metric), metric, scheduler, self.base)

    def percent(self, scheduler: str, metric: str, other: str = "") -> Estimate:
        """Paired difference from the base, or another scheduler, in percent of its mean.

        NaN for metrics that are shares themselves, and where that mean is not above 0.
        """
        other = other or self.base
        own, base = (self.of_instances(name, metric) for name in (scheduler, other))
        there = np.isfinite(own) & np.isfinite(base)
        own, base = own[there], base[there]
        if metric in _SHARES or not base.size or base.mean() <= 0:
            return Estimate(np.nan, np.nan, np.nan, 0)
        ratio = own.mean() / base.mean()
        # What is left of the ratio in every instance has mean 0; its spread is that of the ratio (delta method).
        left = self.randomness.estimate((own - ratio * base) / base.mean(), metric, scheduler, other)
        return Estimate(100 * (ratio - 1), 100 * left.half_width, 100 * left.standard_error, left.instances)

    def instances_to_add(self, half_width: float, most: int = MOST_INSTANCES) -> int:
        """How many more instances to run next, until the interval of every difference is narrow enough; 0: none.

        The interval is that of the metric that was asked for; of its mean if there is one scheduler. Never more than
        ``most`` in all, and at most four times what there is, since a small pilot misjudges the spread.
        """
        if self.widest <= half_width or self.instances >= most:
            return 0
        wanted = 10
        if self.instances > 1:
            spreads = [values for name in self.schedulers if (values := self._told(name)).size > 1]
            if np.isnan(self.widest) or not spreads:  # copies, or no numbers: more of them narrow nothing
                return 0
            wanted = max(instances_needed(values, half_width) for values in spreads)
        least = self.instances + max(1, self.instances // 10)
        return min(max(wanted, least), 4 * max(self.instances, 10), most) - self.instances

    @property
    def widest(self) -> float:
        """The largest half-width of the paired differences; of the mean if there is one scheduler."""
        if len(self.schedulers) == 1:
            return self.estimate(self.base, self.metrics[0]).half_width
        halves = [self.difference(k, self.metrics[0]).half_width for k in self.schedulers if k != self.base]
        return float(max(halves, key=lambda half: np.inf if np.isnan(half) else half))

    def _told(self, scheduler: str) -> FloatArray:
        """The values whose interval is to be narrow."""
        if len(self.schedulers) > 1:
            return self.differences(scheduler, self.metrics[0])
        own = self.of_instances(scheduler, self.metrics[0])
        finite: FloatArray = own[np.isfinite(own)]
        return finite

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
                share = self.percent(scheduler, metric)
                numbers = [own.mean, own.half_width, own.standard_error, apart.mean, apart.half_width]
                numbers += [share.mean, share.half_width]
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
                own[f"{metric}_difference_percent"] = vars(self.percent(scheduler, metric))
            ratio = self.backlog_ratio(scheduler)
            if ratio is not None:
                own["backlog_ratio"] = vars(ratio)
            found[scheduler] = own | {"diverged": self.diverged(scheduler)}
        return found

    def about(self) -> dict[str, Any]:
        """What must be known to read the numbers, for machines: the base, what the intervals cover, the verdict."""
        about = {"against": self.base, "intervals_cover": list(self.randomness.covered)}
        about |= {"note": sentences(self.remark, self.note), "ranking": list(self.ranking)}
        return about | {"verdict": self.verdict, "bounds": dict(self.bounds)}

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

        The best scheduler comes first, and the bound last. The base has no row of differences.
        """
        shown = [k for k in self.ranking if not (paired and k == self.base)]
        rows = [[self.name(k), *self.cells(k, self.brief, paired)] for k in shown]
        if self.bounds and not paired:
            limits = (self.bounds.get(metric) for metric in self.brief)
            rows.append([BOUND, *("" if one is None else with_interval(one, np.nan) for one in limits)])
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
        return "\n".join(filter(None, (about, "".join(tables), self.verdict, self._footer())))

    def _repr_html_(self) -> str:
        import pandas as pd

        tables = [self.table(), self.table(paired=True)] if len(self.schedulers) > 1 else [self.table()]
        shown = [pd.DataFrame(r, columns=h).to_html(index=False) for h, r in tables]
        return f"<p>{escape(self.title)}</p>{''.join(shown)}<p>{escape(sentences(self.verdict, self._footer()))}</p>"

    def _footer(self) -> str:
        return sentences(self.left_out(*self.brief), self.remark, self.note)


def with_more_instances(
    data: xr.Dataset,
    lot: Callable[[int, int], xr.Dataset],
    compared: Callable[[xr.Dataset], Comparison],
    half_width: float,
    most: int = MOST_INSTANCES,
) -> tuple[xr.Dataset, str]:
    """The results with instances added until the intervals are narrow enough, and a sentence about it.

    ``lot(first, count)`` runs further instances. They continue the same worlds, so the result is that of one run.
    """
    check_number("half_width", half_width, "> 0")
    while more := (found := compared(data)).instances_to_add(half_width, most):
        numbers = data["instance"].values.tolist()
        first = max(numbers) + 1
        numbers += range(first, first + more)
        data = join_units([data, lot(first, more)], scheduler_labels(data), numbers)
    if found.widest <= half_width:
        return data, f"Instances were added until the widest interval was at most ±{half_width:g}."
    widest = "there is none" if np.isnan(found.widest) else f"the widest is ±{found.widest:.2g}"
    return data, f"Intervals of at most ±{half_width:g} were not reached with {found.instances:,} instances: {widest}."


def _unlimited(data: xr.Dataset) -> tuple[str, ...]:
    """The schedulers by which more uploads arrived in a round than there are slots, such as the paper's Bench."""
    slots = str(data.attrs.get("slots", ""))
    if "uploads" not in data or not slots.isdigit():
        return ()
    return tuple(k for k in scheduler_labels(data) if int(data["uploads"].sel(scheduler=k).max()) > int(slots))


def _warm_up(data: xr.Dataset) -> int:
    """The first rounds by which the scheduler with the smallest backlog differs from the long run."""
    if "backlog" not in data:
        return 0
    backlog = data["backlog"].mean("instance").transpose("scheduler", "round").values
    limited = [k not in _unlimited(data) for k in scheduler_labels(data)]
    rows = backlog[limited] if any(limited) else backlog
    found = warm_up_rounds(rows[rows.mean(axis=1).argmin()])
    return NEVER if found is None else found


def rule_remark(schedulers: Mapping[str, Scheduler]) -> str:
    """A sentence about schedulers that plan for an aggregation rule which nobody named."""
    open_ = [label for label, one in schedulers.items() if getattr(one, "aggregation", one) is None]
    if not open_:
        return ""
    verb, named = ("plans", open_[0]) if len(open_) == 1 else ("plan", "NAME")
    return (
        f"Without a task, {listed(open_)} {verb} for the aggregation rule {Lee.name}; choose another as in "
        f"{named}:aggregation=sync."
    )
