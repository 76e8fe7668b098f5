"""Verdicts on claims: the rules that docs/reproduction.md states.

What a claim says of one scheduler is true, false, or open (None) where the 95 % interval is too wide to tell. A claim
about several holds if it is true of all of them, in part if it is of some, and does not hold if it is false of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedwave.experiments.analysis.statistics import Estimate
from fedwave.experiments.report.figures.common import name_of

HOLDS, PART, NOT = "holds", "in part", "does not hold"
OPEN, UNTESTED = "open", "cannot be tested"
OURS = ("alsa-pi", "balsa", "balsa-po")  # the paper's own three
OTHERS = ("round-robin", "w-max")
PAPER = ("bench", *OURS, *OTHERS)
TARGETS = {"mnist": (0.70, 0.75, 0.80, 0.85, 0.90, 0.95), "cifar10": (0.48, 0.52, 0.56, 0.60, 0.64, 0.68, 0.72)}
# What counts as similar, and what as much: see the page.
SIMILAR_SCORE, SIMILAR_LOSS = 0.01, 0.1  # shares
SIMILAR_ACCURACY, SIMILAR_SHARE, SIMILAR_SPIKES = 0.01, 0.1, 1.0
MUCH = 0.1

Found = tuple[str, str]  # our number, and the verdict


@dataclass(frozen=True)
class Claim:
    """Something that the paper says, and what we find."""

    where: str
    says: str
    found: Callable[..., Found]  # of a trained run: with its name


Truth = bool | None  # None: the interval is too wide to tell


def verdict(fits: Sequence[Truth]) -> str:
    """From what is true of each scheduler, or pair, that a claim is about."""
    if not fits:
        return UNTESTED
    if all(fits):
        return HOLDS
    if any(fits):
        return PART
    return NOT if all(one is False for one in fits) else OPEN


def above(value: Estimate, reach: float) -> Truth:
    """Is it above 0? False if it is at most ``reach``, which counts as no difference."""
    if value.mean > value.half_width:
        return True
    return False if value.mean + value.half_width <= reach else None


def below(value: Estimate, reach: float) -> Truth:
    """The same for less than 0."""
    return above(Estimate(-value.mean, value.half_width, 0), reach)


def within(value: Estimate, reach: float) -> Truth:
    """Does it lie between -reach and reach, with its whole interval?"""
    if abs(value.mean) + value.half_width <= reach:
        return True
    return False if abs(value.mean) - value.half_width > reach else None


def at_most(value: Estimate, reach: float) -> Truth:
    """Does its whole interval lie at ``reach`` or below?"""
    if value.mean + value.half_width <= reach:
        return True
    return False if value.mean - value.half_width > reach else None


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's, of values without ties."""
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


def listed(found: dict[str, str]) -> str:
    """Schedulers with what is found of each."""
    return ", ".join(f"{name_of(name)} {text}" for name, text in found.items())
