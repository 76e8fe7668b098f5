"""Errors caused by bad input, each one sentence: the value, the rule, the likely fix."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Real
from reprlib import Repr
from typing import Any

_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 3, 60, 60


class FedwaveError(Exception):
    """Base of every error that fedwave explains in one sentence; the command line prints it.

    The exit status of a command is 2 for bad usage or input, and 1 for WorkFailed.

    >>> import fedwave as fw
    >>> try:
    ...     fw.paper_network(slots=30)
    ... except fw.FedwaveError as error:
    ...     print(error)
    slots (W) is 30 but there are only 25 devices: W must not exceed them.
    """


class WorkFailed(FedwaveError):
    """The input was right, but the work failed: units were abandoned, or a disk is full."""


class MissingExtra(FedwaveError, ImportError):
    """A library that an extra of fedwave brings is not installed."""


_EXTRAS = {
    "torch": ("PyTorch", "learn"),
    "ray": ("Ray", "ray"),
    "safetensors": ("safetensors", "learn"),
    "gymnasium": ("Gymnasium", "rl"),
}  # library: its name, and the extra


@contextmanager
def extra_for(what: str) -> Iterator[None]:
    """Raises MissingExtra, which names the extra that ``what`` needs, if an import within the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _EXTRAS:
            raise
        name, extra = _EXTRAS[library]
        raise MissingExtra(f"{what} needs {name}, which is not installed: pip install 'fedwave[{extra}]'.") from None


class HiddenInformation(FedwaveError, AttributeError):
    """A scheduler read something that it did not declare in ``needs``."""


def short_repr(value: Any) -> str:
    """A short representation of a value for a sentence."""
    return re.sub(r"\s*\n\s*", " ", _SHORT.repr(value))  # of an array it has lines


def writes_into_input(error: BaseException) -> bool:
    """Did code write into an array that it may only read? NumPy has no error class for that."""
    return isinstance(error, ValueError) and "read-only" in str(error)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """End a sentence about an unknown name with the nearest known one, or with all of them.

    >>> did_you_mean("balsa_po", ["balsa", "balsa-po"])
    "did you mean 'balsa-po'?"
    """
    known = sorted(known)
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    choice = f"choose from {', '.join(known)}." if known else "there are none."
    return f"did you mean {near[0]!r}?" if near else choice


def check_parameters(what: str, given: Iterable[str], known: Iterable[str], hint: str = "") -> None:
    """Raises FedwaveError, which ends with ``hint``, for a parameter that ``what`` does not have."""
    known = list(known)
    for name in given:
        if name not in known:
            raise FedwaveError(f"{what} has no parameter {name!r}; {did_you_mean(name, known)}{hint}")


def is_number(value: Any) -> bool:
    """Is it one finite real number? A text, None, NaN, infinity or an array is not.

    >>> is_number(2.5), is_number("2.5"), is_number(float("nan"))
    (True, False, False)
    """
    try:
        return isinstance(value, Real) and math.isfinite(value)
    except OverflowError:  # a whole number with more digits than a float can hold
        return False


def is_whole(value: Any) -> bool:
    """Is it one whole number? 5.0 is, 2.5 is not."""
    return is_number(value) and value == int(value)


def is_list(value: Any) -> bool:
    """Can it be read one by one, as a list? A text, bytes, a mapping or an array without an axis cannot.

    >>> is_list(range(3)), is_list("abc"), is_list({1: 2})
    (True, False, False)
    """
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping)):
        return False
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0


def as_int(what: str, value: Any, least: int, most: int | None = None) -> int:
    """``value`` as an int; raises FedwaveError unless it is a whole number from ``least`` to ``most``."""
    if not is_whole(value) or value < least:
        raise FedwaveError(f"{what} is {short_repr(value)}, must be a whole number >= {least}.")
    if most is not None and value > most:
        raise FedwaveError(f"{what} is {short_repr(value)}, must be at most {most:,}.")
    return int(value)


def set_int(part: Any, field: str, least: int, most: int | None = None) -> None:
    """Make a field of a frozen part an int; raises FedwaveError like ``as_int``."""
    object.__setattr__(part, field, as_int(f"{type(part).__name__} {field}", getattr(part, field), least, most))


def check_bool(what: str, value: Any) -> None:
    """Raises FedwaveError unless ``value`` is True or False: any text would count as true."""
    if not isinstance(value, bool):
        raise FedwaveError(f"{what} is {short_repr(value)}, must be true or false.")


_COMPARISONS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


def check_number(what: str, value: Any, *bounds: str, note: str = "") -> None:
    """Raises FedwaveError, which ends with ``note``, unless ``value`` is a number within the bounds.

    >>> check_number("alpha", 0.5, "> 0", "<= 1")
    >>> check_number("alpha", 2, "> 0", "<= 1")
    Traceback (most recent call last):
    fedwave.errors.FedwaveError: alpha is 2, must be a number > 0 and <= 1.
    """
    rules = [bound.split() for bound in bounds]
    if not is_number(value) or not all(_COMPARISONS[sign](value, float(limit)) for sign, limit in rules):
        rule = " ".join(["a number", " and ".join(bounds)]).rstrip()
        raise FedwaveError(f"{what} is {short_repr(value)}, must be {rule}{note}.")


def error_text(error: BaseException, where: str = "") -> str:
    """The class and the text of an error, in one line; ``where`` stands between them."""
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}{where}" + (f": {text}" if text else "")


def plural(number: int, what: str) -> str:
    """A number with its noun.

    >>> plural(1, "instance"), plural(5000, "round")
    ('1 instance', '5,000 rounds')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")
