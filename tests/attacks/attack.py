"""What an attack is, and what can come of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

GOOD = ("refused", "right")
# The worst first: an attack that has several outcomes counts as the worst of them.
BAD = ("outside", "killed", "hang", "traceback", "silent", "fussy", "ugly")
MEANING = {
    "refused": "one sentence, exit status 2; damage that is noticed",
    "right": "accepted, and the result is the right one",
    "outside": "a file outside --out was written, changed or removed",
    "killed": "died by a signal, or wanted more memory than it may have",
    "hang": "no answer within 20 seconds",
    "traceback": "a raw exception",
    "silent": "accepted, but wrong, or damage that was not noticed",
    "fussy": "refused though it is fine",
    "ugly": "a refusal of many lines or words, or control characters in what is printed",
}


class Verdict(NamedTuple):
    """What came of an attack."""

    outcome: str
    detail: str = ""


def worst(*verdicts: Verdict) -> Verdict:
    """The worst of several; of equal ones the first."""
    order = (*BAD, *GOOD)
    return min(verdicts, key=lambda one: order.index(one.outcome))


@dataclass(frozen=True)
class Attack:
    """One attack, built in the current folder and ready to go."""

    what: str  # for people
    go: Callable[[], Verdict]
    allowed: tuple[str, ...] = ("out",)  # what may change in the current folder: names, with all below them
    draw: bool = False  # are figures really drawn? Otherwise an empty file stands for each, which takes no time
    environment: dict[str, str] = field(default_factory=dict)
