"""``fw.slots_needed``: how many uploads a round must hold so that the backlog stays below a limit."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedwave.errors import FedwaveError, as_int, check_number, plural
from fedwave.experiments.analysis.statistics import Estimate, estimate
from fedwave.experiments.analysis.tables import markdown, with_interval
from fedwave.network.network import Network, check_network
from fedwave.network.plausible import ImplausibleWarning
from fedwave.schedulers.base import scheduler as find_scheduler
from fedwave.simulation import SchedulerLike, simulate

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class SlotsNeeded:
    """The least number of slots, and every number that was tried. ``fw.slots_needed`` makes one; ``int()`` of it is W.

    ``tried`` has the backlog for every W, by W: its quantile over rounds, or its mean, and the interval over instances.

    >>> import fedwave as fw
    >>> found = fw.slots_needed(fw.paper_network(), "max-weight", 300, rounds=150, burn_in=50, instances=3)
    >>> found.slots, found.is_enough(2), found.is_enough(3)
    (3, False, True)
    """

    slots: int
    tried: Mapping[int, Estimate]
    backlog_below: float
    title: str  # what was run

    def __int__(self) -> int:
        return self.slots

    def is_enough(self, slots: int) -> bool:
        """Does the interval of this W end below the limit?"""
        return _is_below(self.tried[slots], self.backlog_below)

    def to_pandas(self) -> pd.DataFrame:
        """A row for every W that was tried."""
        import pandas as pd

        rows = [(w, e.mean, e.half_width, e.instances, self.is_enough(w)) for w, e in self.tried.items()]
        return pd.DataFrame(rows, columns=["slots", "backlog", "half_width", "instances", "enough"])

    def __repr__(self) -> str:
        rows = [
            [str(w), with_interval(e.mean, e.half_width), "yes" if self.is_enough(w) else "no"]
            for w, e in self.tried.items()
        ]
        table = markdown(["W", "backlog", "enough"], rows)
        return f"W = {self.slots} is the least that keeps the backlog below {self.backlog_below:g}\n{table}{self.title}"


def slots_needed(
    network: Network,
    scheduler: SchedulerLike,
    backlog_below: float,
    quantile: float | None = 0.99,
    *,
    rounds: int = 500,
    instances: int | Sequence[int] = 20,
    burn_in: int = 100,
    seed: int = 0,
) -> SlotsNeeded:
    """The smallest W whose backlog stays below a limit.

    The backlog of an instance is the ``quantile`` over its rounds after the first ``burn_in``; None: the mean over
    these rounds. W is enough if the upper end of the 95 % interval of its mean over instances lies below
    ``backlog_below``. The search is a bisection from 1 to the number of devices: it takes for granted that more slots
    never give a larger backlog. Every W runs on the same worlds.

    Raises FedwaveError if the limit is not kept even where all devices transmit in every round.

    >>> import fedwave as fw
    >>> found = fw.slots_needed(fw.paper_network(), "max-weight", 300, rounds=150, burn_in=50, instances=3)
    >>> int(found), sorted(found.tried)
    (3, [1, 2, 3, 6, 12, 25])
    """
    check_network(network)
    one = find_scheduler(scheduler)
    check_number("backlog_below", backlog_below, "> 0")
    if quantile is not None:
        check_number("quantile", quantile, "> 0", "< 1")
    rounds = as_int("rounds", rounds, 1)
    burn_in = as_int("burn_in", burn_in, 0)
    if burn_in >= rounds:
        raise FedwaveError(f"burn_in is {burn_in}, must be less than rounds, which is {rounds}.")
    tried: dict[int, Estimate] = {}

    def is_enough(slots: int) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ImplausibleWarning)  # too few slots are tried on purpose
            tested = network.replace(slots=slots)
        trace = simulate(tested, one, rounds, instances, seed, record="summary")
        late = trace.backlog[burn_in:]
        tried[slots] = estimate(late.mean(axis=0) if quantile is None else np.quantile(late, quantile, axis=0))
        return _is_below(tried[slots], backlog_below)

    low, high = 0, network.size
    if not is_enough(high):
        least = with_interval(tried[high].mean, tried[high].half_width)
        raise FedwaveError(
            f"backlog_below is {backlog_below:g}, but with W = {high}, when every device transmits in every round, the "
            f"backlog is {least}: raise the limit, or improve the channels."
        )
    while high - low > 1:  # low is too few, high is enough
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    what = "mean" if quantile is None else f"{100 * quantile:g} % quantile"
    found = next(iter(tried.values()))
    title = f"Backlog: {what} over rounds {burn_in + 1} to {rounds}, mean of {plural(found.instances, 'instance')}"
    title += " ± 95 % interval" if found.instances > 1 else ""
    return SlotsNeeded(high, dict(sorted(tried.items())), float(backlog_below), title)


def _is_below(found: Estimate, limit: float) -> bool:
    """The upper end of the interval counts; the value alone where there is one instance."""
    return bool(found.mean + np.nan_to_num(found.half_width) < limit)
