"""The errors that a user can cause, each told in one sentence: the value, the rule, the likely fix."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class FedwaveError(Exception):
    """Base of every error that bad input causes; the command line prints it and exits with status 2."""


class HiddenInformation(FedwaveError, AttributeError):
    """A scheduler reached for something it did not declare in ``needs``."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """End a sentence about an unknown name with the nearest known one, or with all of them.

    >>> did_you_mean("balsa_po", ["balsa", "balsa-po"])
    "did you mean 'balsa-po'?"
    """
    known = sorted(known)
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
