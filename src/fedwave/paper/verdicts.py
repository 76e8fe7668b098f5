"""Verdicts on claims, by the rules that docs/reproduction.md states; and how their numbers are written.

What a claim says of one scheduler is true, false, or open (None) where the 95 % interval is too wide to tell. A claim
about several holds if it is true of all of them, in part if it is of some, and does not hold if it is false of all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import fedwave as fw
from fedwave.paper.array_types import Floats

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
    found: Callable[..., Found]  # from Results; of a trained run also with its name


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


def above(value: fw.statistics.Estimate, reach: float) -> Truth:
    """Is it above 0? False if it is at most ``reach``, which counts as no difference."""
    if value.mean > value.half_width:
        return True
    return False if value.mean + value.half_width <= reach else None


def below(value: fw.statistics.Estimate, reach: float) -> Truth:
    """The same for less than 0."""
    return above(fw.statistics.Estimate(-value.mean, value.half_width, 0), reach)


def within(value: fw.statistics.Estimate, reach: float) -> Truth:
    """Does it lie between -reach and reach, with its whole interval?"""
    if abs(value.mean) + value.half_width <= reach:
        return True
    return False if abs(value.mean) - value.half_width > reach else None


def at_most(value: fw.statistics.Estimate, reach: float) -> Truth:
    """Does its whole interval lie at ``reach`` or below?"""
    if value.mean + value.half_width <= reach:
        return True
    return False if value.mean - value.half_width > reach else None


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's, of values without ties."""
    first, second = (np.argsort(np.argsort(values)) for values in (one, other))
    return float(np.corrcoef(first, second)[0, 1])


def listed(found: dict[str, str]) -> str:
    """Schedulers with what is found of each."""
    return ", ".join(f"{fw.figures.name_of(name)} {text}" for name, text in found.items())


def finite_estimate(values: Floats) -> fw.statistics.Estimate:
    """Of the instances that did not diverge."""
    return fw.statistics.estimate(values[np.isfinite(values)])


def plain(value: float, digits: int, sign: str = "") -> str:
    """.894, as the tables of accuracies have it."""
    return _without_zero(f"{value:{sign}.{digits}f}")


def pair(value: fw.statistics.Estimate, digits: int, sign: str = "") -> str:
    """.0082 ± .0006"""
    return f"{plain(value.mean, digits, sign)} ± {plain(value.half_width, digits)}"


def _without_zero(number: str) -> str:
    return re.sub(r"^([+-]?)0\.", r"\1.", number)


def with_width(value: fw.statistics.Estimate, digits: int, sign: str = "") -> str:
    """With more digits where the half-width would be rounded to 0, which would read as certainty."""
    if value.half_width > 0:
        digits = max(digits, int(np.ceil(-np.log10(value.half_width))))
    return f"{value.mean:{sign},.{digits}f} ± {value.half_width:,.{digits}f}"
