"""Verdicts on claims, by the rules that docs/reproduction.md states; and how their numbers are written.

What a claim says of one scheduler is true, false, or open (None) where the 95 % interval is too wide to tell. A claim
about several holds if it is true of all of them, in part if it is of some, and does not hold if it is false of all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from scipy import stats

import fedwave as fw
from fedwave.paper import Floats

Estimate = fw.statistics.Estimate
HOLDS, PART, NOT = "holds", "in part", "does not hold"
OPEN, UNTESTED = "open", "cannot be tested"
OURS = ("alsa-pi", "balsa", "balsa-po")  # the paper's own three
OTHERS = ("round-robin", "w-max")
PAPER = ("bench", *OURS, *OTHERS)
TARGETS = {"mnist": (0.70, 0.75, 0.80, 0.85, 0.90, 0.95), "cifar10": (0.48, 0.52, 0.56, 0.60, 0.64, 0.68, 0.72)}

Found = tuple[str, str]  # our number, and the verdict
Test = TypeVar("Test", bound=Callable[..., Found])  # of Results; of a trained run also with its name


@dataclass(frozen=True)
class Claim:
    """Something that the paper says, and what we find."""

    where: str
    says: str
    found: Callable[..., Found]


class Claims(list[Claim]):
    """Claims in the order of their table."""

    def add(self, where: str, says: str) -> Callable[[Test], Test]:
        """Adds a claim, with the decorated function as its test."""

        def keep(test: Test) -> Test:
            self.append(Claim(where, says, test))
            return test

        return keep

    def state(self, where: str, says: str, text: str, judged: str) -> None:
        """Adds a claim that needs no number of ours, or has one without data here."""
        self.append(Claim(where, says, lambda data: (text, judged)))


Truth = bool | None  # None: the interval is too wide to tell
Rule = Callable[[Estimate, float], Truth]


def verdict(fits: Sequence[Truth]) -> str:
    """From what is true of each scheduler, or pair, that a claim is about."""
    if not fits:
        return UNTESTED
    if all(fits):
        return HOLDS
    if any(fits):
        return PART
    return NOT if all(one is False for one in fits) else OPEN


def judged(found: Mapping[Any, Estimate], rule: Rule, reach: float) -> str:
    """The verdict on a claim that ``rule`` is true of all that was found."""
    return verdict([rule(value, reach) for value in found.values()])


def together(fits: Sequence[Truth]) -> Truth:
    """Are all true? False if one is false."""
    return True if all(fits) else False if False in fits else None


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
    return at_most(Estimate(abs(value.mean), value.half_width, 0), reach)


def at_most(value: Estimate, reach: float) -> Truth:
    """Does its whole interval lie at ``reach`` or below?"""
    if value.mean + value.half_width <= reach:
        return True
    return False if value.mean - value.half_width > reach else None


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's."""
    return float(stats.spearmanr(one, other).statistic)


def finite_estimate(values: Floats) -> Estimate:
    """Of the instances that did not diverge."""
    return fw.statistics.estimate(values[np.isfinite(values)])


def listed(found: Mapping[str, Any], write: Callable[..., str] = str, *how: Any) -> str:
    """Schedulers with what is found of each, as ``write`` writes it."""
    return ", ".join(f"{fw.figures.name_of(name)} {write(value, *how)}" for name, value in found.items())


def plain(value: float, digits: int, sign: str = "") -> str:
    """.894, as the tables of accuracies have it."""
    return re.sub(r"^([+-]?)0\.", r"\1.", f"{value:{sign}.{digits}f}")


def pair(value: Estimate, digits: int, sign: str = "") -> str:
    """.0082 ± .0006"""
    return f"{plain(value.mean, digits, sign)} ± {plain(value.half_width, digits)}"


def with_width(value: Estimate, digits: int, sign: str = "") -> str:
    """With more digits where the half-width would be rounded to 0, which would read as certainty."""
    if value.half_width > 0:
        digits = max(digits, int(np.ceil(-np.log10(value.half_width))))
    return f"{value.mean:{sign},.{digits}f} ± {value.half_width:,.{digits}f}"
