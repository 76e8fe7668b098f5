"""Every exchangeable part by family and name: built-in parts and users' own.

A part is written ``name`` or ``name:key=value,key=value``, for example ``rician:k_factor=6``, or as a mapping,
``{name: rician, k_factor: 6}``. A part within a part separates its own values by semicolons:
``harq:tries=3,model=turbo:blocks=2;slope=7``. Recorded or measured data are read from a file:
``recorded:path=gains.npy``.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import import_module
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints, overload

import numpy as np

from fedwave.errors import FedwaveError, check_parameters, did_you_mean, extra_for, short_repr
from fedwave.parts.built_in import BUILT_IN

Spec = str | Mapping[str, Any]  # a part as text or as a mapping with its name
_P = TypeVar("_P")

FAMILIES = tuple(BUILT_IN)
_WORDS = {
    "success": "success model",
    "availability": "availability model",
    "aggregation": "aggregation rule",
}  # where they differ
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None}
_LONGEST_NAME = 80
_own: dict[str, dict[str, Any]] = {family: {} for family in FAMILIES}


@overload
def register(part: _P, /) -> _P: ...
@overload
def register(part: str, /, *, family: str) -> Callable[[_P], _P]: ...
def register(part: Any, /, *, family: str | None = None) -> Any:
    """Register a part of your own, so that its name can be used wherever parts are named; a decorator.

    A class goes into the family of its base class (``fw.Scheduler``, ``fw.Metric``, ``fw.fading.Fading``, ...) under
    its ``name``. Its parameters are the fields of a frozen dataclass; without parameters it may be a plain class.

    >>> import fedwave as fw
    >>> from dataclasses import dataclass
    >>> @fw.register
    ... @dataclass(frozen=True)
    ... class Loudest(fw.Scheduler):
    ...     name = "loudest"
    ...     needs = frozenset({"channel"})
    ...     power: float = 1.0
    ...
    ...     def priority(self, state, seen, draws):
    ...         return seen.snr**self.power
    >>> fw.scheduler("loudest:power=2")
    Loudest(power=2)
    >>> fw.simulate(fw.paper_network(), "loudest", rounds=20, instances=3).label
    'loudest'

    A function or class that makes a model or a dataset is registered under a name, with its family:

    >>> @fw.register("small-net", family="model")
    ... def small_net():
    ...     from torch import nn
    ...
    ...     return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    """
    if isinstance(part, str):
        if family is None:
            raise FedwaveError(f'register({part!r}) needs a family, such as family="model".')
        return lambda made: _put(_known_family(family), part, made)
    family = getattr(part, "family", None)
    if not isinstance(part, type) or family not in FAMILIES:
        raise FedwaveError(
            f"{part!r} cannot be registered by itself: derive it from a base class, such as fw.Scheduler, or "
            'name it: @fw.register("name", family="model").'
        )
    check_declaration(part)
    return _put(family, part.name, part)  # type: ignore[attr-defined]


def check_declaration(kind: type) -> None:
    """Raises FedwaveError for a class without a valid name, or without what its family requires.

    Parameters must be the fields of a dataclass: files keep them, and equal ones make equal parts.
    """
    name, what = getattr(kind, "name", None), word(kind.family)  # type: ignore[attr-defined]
    if not isinstance(name, str) or not name:
        raise FedwaveError(f'{what} class {kind.__qualname__} has no `name`: add name = "...".')
    _check_name(what, name)
    check_fields(kind, f"{what} {name!r}")
    declared = getattr(kind, "check_declaration", None)
    if declared is not None:
        declared()


def check_fields(kind: type, what: str) -> None:
    """Raises FedwaveError for a parameter that is not a field of a dataclass."""
    for parameter in _not_fields(kind):
        raise FedwaveError(
            f"{what} has the parameter {parameter!r}, which must be a field of a dataclass: put "
            "@dataclass(frozen=True) directly above the class, and leave out __init__. A constant of the class has no "
            "type."
        )


def names(family: str) -> tuple[str, ...]:
    """The names of a family, in order."""
    _load_entry_points()
    return (*BUILT_IN[_known_family(family)], *_own[family])


def built_in(family: str) -> tuple[str, ...]:
    """The names of a family that come with fedwave, in order."""
    return tuple(BUILT_IN[_known_family(family)])


def find(family: str, name: str) -> Any:
    """The class or function that is registered under a name."""
    check_known(family, name)
    own = _own[family]
    return own[name] if name in own else _built_in(BUILT_IN[family][name])


def check_known(family: str, name: str) -> None:
    """Raises FedwaveError if the family has no part of this name; imports no built-in part."""
    if not _is_there(family, name) and name not in names(family):
        raise FedwaveError(
            f"there is no {word(family)} {short_repr(name)}; {did_you_mean(name, names(family))} "
            "If it is your own, import the file that registers it (--import FILE)."
        )


def build(family: str, part: Any, **more: Any) -> Any:
    """A part from its text, its mapping or its class; an object of the family passes through.

    >>> build("fading", "rician:k_factor=6")
    Rician(k_factor=6)
    >>> build("success", {"name": "harq", "tries": 3, "model": "soft"})
    Harq(model=Soft(w0=0.685), tries=3)
    """
    if isinstance(part, (str, Mapping)):
        name, kind, given = _found(family, part, **more)
        return _make(family, kind, given, f"{word(family)} {name!r}")
    kind = part if isinstance(part, type) else type(part)
    if getattr(kind, "family", None) != family:
        example = next(iter(names(family)), "...")
        raise FedwaveError(
            f"{short_repr(part)} is not a part of the family {family!r}: give a name, such as {example!r}, or an "
            "object of its base class."
        )
    check_declaration(kind)
    return _make(family, part, more, f"{word(family)} {kind.name!r}") if part is kind else part


def parse(family: str, part: Spec) -> dict[str, Any]:
    """A part's name and parameters from its text or mapping.

    >>> parse("scheduler", "balsa:stage_rule=max1,prior=gamma:shape=2;rate=1")
    {'name': 'balsa', 'stage_rule': 'max1', 'prior': 'gamma:shape=2,rate=1'}
    """
    if isinstance(part, Mapping):
        if not isinstance(part.get("name"), str) or not part["name"].strip():
            raise FedwaveError(f"{word(family)} {dict(part)!r} has no name: write {{name: ...}}.")
        return {**part, "name": part["name"].strip()}
    name, _, rest = part.partition(":")
    given: dict[str, Any] = {"name": name.strip()}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise FedwaveError(f"{word(family)} {part!r}: {item!r} must read key=value.")
        if key.strip() in given:
            raise FedwaveError(f"{word(family)} {part!r} gives {key.strip()!r} twice: keep one.")
        given[key.strip()] = _value(value.strip().replace(";", ","))
    return given


def text(part: Any) -> str:
    """One line that ``parse`` reads back. For an object, parameters at their defaults are left out.

    >>> text({"name": "balsa", "prior": {"name": "gamma", "shape": 2.0, "rate": 1}})
    'balsa:prior=gamma:shape=2;rate=1'
    >>> import fedwave as fw
    >>> text(fw.success.Turbo(blocks=3))
    'turbo:blocks=3'
    """
    if isinstance(part, str):
        return part.strip()
    name, given = _given(part)
    # The commas within a part's own text become semicolons.
    inside = ",".join(f"{key}={_text(value).replace(',', ';')}" for key, value in given.items())
    return f"{name}:{inside}" if inside else str(name)


def with_defaults(family: str, part: Any) -> dict[str, Any]:
    """A part as a mapping with all its parameters, also those of the parts within it; builds nothing.

    Defaults that are numbers, texts or parts are written out, others (None, arrays, tuples) are left out.

    >>> with_defaults("success", "arq:tries=3")
    {'name': 'arq', 'model': {'name': 'turbo', 'midpoint_db': -1.647, 'slope': 7.468, 'blocks': 1}, 'tries': 3}
    """
    if isinstance(part, (str, Mapping)):
        name, kind, given = _found(family, part)
    else:
        kind, (name, given) = type(part), _given(part)
    inner, defaults = _inner_families(kind), _parameters(kind)
    found: dict[str, Any] = {"name": name}
    for key, value in (defaults | given).items():
        if key in inner and isinstance(value, (str, Mapping)):
            found[key] = with_defaults(inner[key], value)
        elif _is_object(value):
            if key in given or _is_there(value.family, value.name):
                found[key] = with_defaults(value.family, value)
        elif key in given:
            if value is not None or defaults.get(key) is not None:
                found[key] = value
        elif isinstance(value, (bool, int, float, str)) and value == value:  # not NaN
            found[key] = value
    return found


def full_text(family: str, part: Any) -> str:
    """A part with all its parameters in one line, the same for every way to write it; builds nothing.

    >>> full_text("success", "arq:model=turbo")
    'arq:model=turbo:midpoint_db=-1.647;slope=7.468;blocks=1,tries=2'
    >>> full_text("success", {"name": "soft", "w0": 1}) == full_text("success", "soft:w0=1.0")
    True
    """
    return text(with_defaults(family, part))


def check_different(what: str, texts: Iterable[tuple[str, str]], fix: str) -> None:
    """Raises FedwaveError if two of the labelled texts, which ``full_text`` returned, are the same."""
    labels: dict[str, str] = {}
    for label, one in texts:
        first = labels.setdefault(one, label)
        if first is not label:
            raise FedwaveError(f"{what}: {short_repr(label)} is the same as {short_repr(first)}: {fix}.")


def parameter_names(family: str, name: str) -> tuple[str, ...]:
    """The parameters of a part; of one that is read from a file, those of the reader and what else has no default."""
    kind = find(family, name)
    read = _parameters(kind.from_file) if hasattr(kind, "from_file") else {}
    own = (name for name, default in _parameters(kind).items() if not read or default is MISSING)
    return tuple(dict.fromkeys((*read, *own)))


def inner_families(family: str, name: str) -> dict[str, str]:
    """The parameters of a part that are parts themselves, and their families; none if the name is unknown.

    >>> inner_families("scheduler", "balsa")
    {'prior': 'prior'}
    """
    return _inner_families(find(family, name)) if _is_there(family, name) else {}


def own() -> dict[str, dict[str, Any]]:
    """The parts that users have registered, by family and name; user_code.py replaces those of a changed file."""
    return _own


def word(family: str) -> str:
    """The family in a sentence."""
    return _WORDS.get(family, family)


def _found(family: str, part: Spec, **more: Any) -> tuple[str, Any, dict[str, Any]]:
    """A part's name; its class or function, or what reads it from a file; its parameters."""
    given = parse(family, part) | more
    name = given.pop("name")
    kind = find(family, name)
    return name, getattr(kind, "from_file", kind) if "path" in given else kind, given


def _make(family: str, kind: Any, given: dict[str, Any], what: str) -> Any:
    nested = any(isinstance(value, str) and ":" in value for value in given.values())
    hint = " Separate the parameters of a part within a part by ';'." if nested else ""
    check_parameters(what, given, _parameter_names(kind), hint)
    if kind in _own[family].values():  # built-in parts check their own parameters
        _check_numbers(kind, given, what)
    hints, inner = _hints(kind), _inner_families(kind)
    empty = {k for k, v in given.items() if v is None and NoneType in get_args(hints.get(k))}
    values = {k: build(inner[k], v) if k in inner.keys() - empty else v for k, v in given.items()}
    try:
        return kind(**values)
    except TypeError as error:  # text instead of a number, or a missing parameter
        raise FedwaveError(f"{what} cannot be built: {error}.") from None


def _check_numbers(kind: Any, given: Mapping[str, Any], what: str) -> None:
    """Raises FedwaveError for text in a field whose type hint is a number: it would fail in the middle of a run."""
    hints = _hints(kind)
    for name, value in given.items():
        options = {hints.get(name), *get_args(hints.get(name))}
        if options & {int, float} and str not in options and isinstance(value, str):
            raise FedwaveError(f"{what}: {name} is {value!r}, must be a number.")


@cache
def _parameters(kind: Any) -> dict[str, Any]:
    """The parameters of a class or function and their defaults, MISSING for one that has none."""
    try:
        known = inspect.signature(kind).parameters
    except (TypeError, ValueError):
        return {}
    found = {name: MISSING if one.default is one.empty else one.default for name, one in known.items()}
    for one in fields(kind) if is_dataclass(kind) else ():
        if one.name in found and one.default_factory is not MISSING:
            found[one.name] = one.default_factory()
    return found


def _parameter_names(kind: Any) -> tuple[str, ...]:
    reader = getattr(kind, "from_file", None)
    return tuple(dict.fromkeys((*(_parameters(reader) if reader else ()), *_parameters(kind))))


@cache
def _not_fields(kind: type) -> tuple[str, ...]:
    """The parameters of a class that are not fields of a dataclass: of its __init__, and attributes with a type."""
    kept = {one.name for one in fields(kind)} if is_dataclass(kind) else set()
    ours = [base for base in kind.__mro__ if base.__module__.startswith("fedwave.")]
    declared = {name for base in ours for name in (*inspect.get_annotations(base), *vars(base))}
    typed = [
        name
        for base in kind.__mro__
        if base not in ours
        for name, hint in inspect.get_annotations(base).items()
        if "ClassVar" not in str(hint) and name not in declared
    ]
    return tuple(name for name in (*_parameters(kind), *typed) if name not in kept)


def _given(part: Any) -> tuple[str, dict[str, Any]]:
    """The name of a mapping or an object, and its parameters; of an object those that are not its defaults."""
    if isinstance(part, Mapping):
        return part["name"], {key: value for key, value in part.items() if key != "name"}
    kind: Any = type(part)
    values = {one.name: getattr(part, one.name) for one in fields(part) if one.init} if is_dataclass(part) else {}
    defaults = _parameters(kind)
    # By their texts: parameters may be arrays or objects without an equality of their own.
    given = {key: value for key, value in values.items() if repr(value) != repr(defaults.get(key))}
    return getattr(part, "name", kind.__name__), given


@cache
def _inner_families(kind: Any) -> dict[str, str]:
    """Parameters that are parts themselves, by the family of the class in their type hint."""
    found = {}
    for name, hint in _hints(kind).items():
        for option in (hint, *get_args(hint)):
            family = getattr(option, "family", None) if isinstance(option, type) else None
            if family in FAMILIES:
                found[name] = family
    return found


@cache
def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind if isinstance(kind, type) else getattr(kind, "__func__", kind))
    except (NameError, TypeError):  # a user's type hint that cannot be resolved
        return {}


def _put(family: str, name: str, part: _P) -> _P:
    _check_name(word(family), name)
    known = _own[family].get(name)
    if known is None and name in BUILT_IN[family]:
        known = _built_in(BUILT_IN[family][name])
    # A file that is imported again defines its classes again: they replace the old ones.
    if known is not None and _origin(known) != _origin(part):
        place, qualified = _origin(known)
        raise FedwaveError(
            f"the name {name!r} is already used by {qualified} of {place}: choose another name for your {word(family)}."
        )
    _own[family][name] = part
    return part


def _origin(part: Any) -> tuple[str, str]:
    return str(getattr(part, "__module__", "")), str(getattr(part, "__qualname__", part))


def _check_name(what: str, name: str) -> None:
    plain = name.isprintable() and name == name.strip() and not set(name) & set(":,;=")
    if not plain or len(name) > _LONGEST_NAME:  # it becomes a part of file names
        raise FedwaveError(
            f"the {what} name {short_repr(name)} must be one line of at most {_LONGEST_NAME} characters, "
            "without : , ; = and without spaces around it."
        )


def _is_there(family: str, name: str) -> bool:
    """Is the name known without loading the entry points?"""
    return name in BUILT_IN[_known_family(family)] or name in _own[family]


def _known_family(family: str) -> str:
    if family not in FAMILIES:
        raise FedwaveError(f"there is no family {family!r}; {did_you_mean(str(family), FAMILIES)}")
    return family


@cache
def _built_in(place: str) -> Any:
    module, _, attribute = place.partition(":")
    with extra_for(attribute):
        return getattr(import_module(module), attribute)


@cache
def _load_entry_points() -> None:
    """Installed packages can register parts: each entry point of the group is a module that does."""
    from importlib.metadata import entry_points

    for entry in entry_points(group="fedwave.parts"):
        known = {family: dict(parts) for family, parts in _own.items()}
        try:
            import_module(entry.module)
        except (Exception, SystemExit) as error:  # a broken package must not break every command
            _own.update(known)
            why = f"{entry.module} cannot be imported: {type(error).__name__}: {error}"
            warnings.warn(f"the parts of an installed package are missing: {why}", stacklevel=2)


def _is_object(value: Any) -> bool:
    """True for an object of a family."""
    return getattr(type(value), "family", None) in FAMILIES


def _text(value: Any) -> str:
    """The text of a parameter, the same for equal numbers and for a list and a tuple."""
    if _is_object(value) or (isinstance(value, Mapping) and isinstance(value.get("name"), str)):
        return text(value)
    if isinstance(value, str):
        return value
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(repr(one) if isinstance(one, str) else _text(one) for one in value)}]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return next((word for word, it in _LITERALS.items() if it is value), " ".join(str(value).split()))


def _value(text: str) -> Any:
    if text in _LITERALS:
        return _LITERALS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
