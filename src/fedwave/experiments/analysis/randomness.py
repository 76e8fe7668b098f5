"""The random parts of a run, which an interval over its instances covers.

Recorded gains or arrivals are the same in every instance. An interval then covers less than one expects, and nothing
at all where the rest is certain too: such instances are copies, and no interval is given. This follows from the network
and the schedulers, not from the numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedwave.experiments.analysis.statistics import Band, Estimate, band, estimate
from fedwave.types import Array

if TYPE_CHECKING:
    import xarray as xr

WORLD = ("gains", "arrivals", "uploads", "broadcasts", "availability")
LEARNT = ("accuracy", "loss", "accuracy_on_all", "worst_class", "spikes")
_WORDS = {"uploads": "transmission luck", "broadcasts": "missed broadcasts"}


@dataclass(frozen=True)
class Randomness:
    """The random parts that differ between the instances of a comparison."""

    world: tuple[str, ...] = WORLD[:3]  # the drawn part of the network
    drawing: tuple[str, ...] = ()  # schedulers that draw numbers of their own
    trained: bool = False  # weights, samples and their order are drawn
    metric: str = "accuracy"  # of the task

    @classmethod
    def of(cls, data: xr.Dataset) -> Randomness:
        """Reads the attributes of a Dataset of results. Without them (older results), everything counts as random."""
        stored = data.attrs.get("chance")
        world = cls.world if stored is None else tuple(filter(None, stored.split(",")))
        drawing = tuple(json.loads(data.attrs.get("own_draws", "[]")))
        trained = "loss" in data
        # Missed broadcasts matter to training alone.
        return cls(
            tuple(w for w in world if trained or w != "broadcasts"),
            drawing,
            trained,
            data.attrs.get("task_metric", cls.metric),
        )

    def covers(self, scheduler: str, metric: str) -> bool:
        """Do the instances differ, so that an interval says something?"""
        learnt = (*LEARNT, self.metric, f"{self.metric}_on_all")
        return bool(self.world) or scheduler in self.drawing or metric in learnt

    def estimate(self, values: Array, metric: str, *schedulers: str, level: float = 0.95) -> Estimate:
        """Mean and interval; no interval where none of the schedulers' instances differ."""
        found = estimate(values, level)
        if any(self.covers(scheduler, metric) for scheduler in schedulers):
            return found
        return Estimate(found.mean, np.nan, np.nan, found.instances)

    def band(self, values: Array, metric: str, *schedulers: str, skip_nan: bool = False) -> Band:
        """Mean and interval of every round of values ``[T, I]``."""
        mean, half = band(values, skip_nan=skip_nan)
        covered = any(self.covers(scheduler, metric) for scheduler in schedulers)
        return (mean, half) if covered else (mean, np.full_like(half, np.nan))

    @property
    def covered(self) -> tuple[str, ...]:
        """The random parts that the intervals cover, for machines and for sentences."""
        found = [_WORDS.get(part, part) for part in self.world]
        if not self.world and self.drawing:
            found.append(f"the draws of {listed(self.drawing)}")
        return (*found, "training") if self.trained else tuple(found)

    @property
    def note(self) -> str:
        """A sentence for captions; empty where everything is drawn, as one expects."""
        same = [name for name in ("gains", "arrivals") if name not in self.world]
        if not same:
            return ""
        start = f"{listed(same).capitalize()} are recorded"
        only = f"intervals cover {listed(self.covered)} only" if self.covered else ""
        if self.world:
            return f"{start}, the same in every instance: {only}."
        why = f"{start} and no upload fails by chance: instances are copies, ties aside"
        return f"{why}, so they give no interval{'; ' + only if only else ''}."


def intervals_are(what: str, *data: xr.Dataset) -> str:
    """The caption sentence for intervals drawn as ``what`` (bands, bars); empty if there are none."""
    several = any(point.sizes["instance"] > 1 and bool(Randomness.of(point).covered) for point in data)
    return f"{what}: 95 % intervals over instances." if several else ""


def listed(words: Sequence[str]) -> str:
    """Words with commas and an "and"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def notes(found: Sequence[str], wheres: Sequence[str]) -> str:
    """A sentence about each of several points of a sweep: once if it is the same for all, else each with its point."""
    if len(set(found)) == 1:
        return found[0]
    return " ".join(f"At {where}: {note}" for where, note in zip(wheres, found, strict=True) if note)
