"""Rules that the parts of a configuration share. Every refusal names the field with its dots."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from reprlib import Repr
from typing import Any

from fedwave.errors import FedwaveError, is_number, whole

# pydantic reads this from the classes, which therefore need not import it.
PYDANTIC: dict[str, Any] = {"extra": "forbid", "strict": True, "use_attribute_docstrings": True}

_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 3, 60, 60


def shown(value: Any) -> str:
    """A value for a sentence: never more than a part of a line."""
    return _SHORT.repr(value)


def check_wholes(config: object, where: str, least: int, *names: str) -> None:
    """Each of these fields is a whole number of at least ``least``; None stands for a default."""
    for name in names:
        value = getattr(config, name)
        if value is not None:
            object.__setattr__(config, name, whole(where + name, value, least))


def check_numbers(config: object, where: str, *names: str, positive: bool = False) -> None:
    """Each of these fields is a finite number, not negative; None stands for a default."""
    for name in names:
        value = getattr(config, name)
        if value is None or (is_number(value) and (value > 0 or (value == 0 and not positive))):
            continue
        rule = "> 0" if positive else ">= 0"
        raise FedwaveError(f"{where}{name} is {shown(value)}, must be a number {rule}.")


def check_choice(where: str, value: Any, known: Iterable[str]) -> None:
    """The value is one of the known names."""
    known = list(known)
    if value not in known:
        raise FedwaveError(f"{where} is {shown(value)}, must be {choice_of(known, value)}")


def choice_of(known: Iterable[str], value: Any) -> str:
    """End a sentence about a name that is none of the known ones.

    >>> choice_of(["async", "sync"], "asynch")
    "async or sync; did you mean 'async'?"
    """
    known = list(known)
    text = " or ".join(filter(None, [", ".join(known[:-1]), known[-1]]))
    near = get_close_matches(value, known, n=1, cutoff=0.7) if isinstance(value, str) else []
    return f"{text}; did you mean {near[0]!r}?" if near else f"{text}."
