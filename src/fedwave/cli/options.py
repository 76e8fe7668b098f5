"""The options that commands share. A command takes a group of them as one argument (see ``flat``)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_type_hints

from typer import Argument, Option

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.run.signals import TIMEOUT
from fedwave.network.network import paper_network

# The fields of an experiment that have an option.
FIELDS = {
    "schedulers": "schedulers",
    "task": "task.dataset",
    "rounds": "rounds",
    "instances": "instances",
    "seed": "seed",
    "slots": "network.slots",
}
_ADDRESS = re.compile(r"auto|(\w+://)?[^\s/=]+:\d+")  # of a Ray cluster


def folder(place: str | Path) -> Path:
    """The folder that an option names; an empty text would be the current folder."""
    if not str(place):
        raise FedwaveError("path is empty; use '.' for the current folder.")
    return Path(place)


Words = Annotated[
    list[str] | None,
    Argument(
        metavar="[EXPERIMENT] [KEY=VALUE]...",
        help="A file (.yaml, .json), a preset (`fedwave list presets`) or a network: paper, random, or a device table "
        "(.csv, .yaml); default: paper. Then any fields, such as network.slots=10.",
        show_default=False,
    ),
]
Imports = Annotated[
    list[str] | None, Option("--import", metavar="FILE", help="File or module with parts of your own; repeatable.")
]
RunFolderPath = Annotated[Path, Argument(metavar="DIR", help="Run folder.", show_default=False)]
AsJson = Annotated[bool, Option("--json", help="Print JSON and nothing else.")]


def out(help: str) -> Any:
    """The option ``--out``, which is always a folder."""
    return Option("--out", "-o", parser=folder, metavar="DIR", help=help, show_default=False)


def _option(*names: str, metavar: str, help: str) -> Any:
    return Option(*names, metavar=metavar, help=help, show_default=False)


@dataclass(frozen=True)
class Asked:
    """What is simulated: fields of the experiment, and the code that it needs."""

    schedulers: Annotated[
        list[str] | None, _option("--schedulers", "-s", metavar="A,B", help="Schedulers, with commas between.")
    ] = None
    rounds: Annotated[int | None, _option("--rounds", "-r", metavar="N", help="Rounds to play.")] = None
    instances: Annotated[int | None, _option("--instances", "-i", metavar="N", help="Repetitions.")] = None
    seed: Annotated[int | None, _option("--seed", metavar="N", help="Equal seeds give equal results.")] = None
    slots: Annotated[int | None, _option("--slots", metavar="W", help="Uploads per round.")] = None
    imports: Imports = None


@dataclass(frozen=True)
class AskedWithTask(Asked):
    """What is simulated and trained."""

    task: Annotated[
        str | None, _option("--task", "-t", metavar="NAME", help="Dataset: mnist, cifar10, synthetic or your own.")
    ] = None


@dataclass(frozen=True)
class Local:
    """How a run is executed on this machine."""

    workers: Annotated[
        int | None, _option("--workers", metavar="N", help="Worker processes. Default: one per core where it pays.")
    ] = None
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print errors and warnings only.")] = False


@dataclass(frozen=True)
class Execution(Local):
    """How a run is executed, here or on a cluster."""

    ray: Annotated[
        str | None,
        _option("--ray", metavar="[ADDRESS]", help="Run on a Ray cluster; without an address, start one here."),
    ] = None
    timeout: Annotated[
        float,
        _option(
            "--timeout",
            metavar="SECONDS",
            help=f"Abandon a unit after this long without progress. Default: {TIMEOUT:g}.",
        ),
    ] = TIMEOUT
    events: Annotated[Path | None, _option("--events", metavar="FILE", help="Append events as JSON lines.")] = None


def with_ray_address(words: Sequence[str]) -> list[str]:
    """The words of a command line, with an address after every ``--ray``: an empty one if none was given."""
    found: list[str] = []
    for word in words:
        if found and found[-1] == "--ray":
            found[-1] = f"--ray={word}" if _ADDRESS.fullmatch(word) else "--ray="
            if _ADDRESS.fullmatch(word):
                continue
        found.append(word)
    return [*found[:-1], "--ray="] if found[-1:] == ["--ray"] else found


def flat(defaults: Mapping[str, Any] = MappingProxyType({})) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command as typer wants it: every argument that is a group becomes one option per field.

    ``defaults`` are the fields that a network alone gets from this command. The help shows them.
    """
    return lambda command: _flat(command, defaults)


def _flat(command: Callable[..., None], defaults: Mapping[str, Any]) -> Callable[..., None]:
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters = []
    for name, one in inspect.signature(command).parameters.items():
        options = [(name, hints[name], one.default)]
        if name in groups:
            types = get_type_hints(groups[name], include_extras=True)
            options = [(f.name, types[f.name], f.default) for f in fields(groups[name])]
        for option, hint, default in options:
            annotation = _with_default(hint, option, defaults) if option in FIELDS else hint
            parameters.append(inspect.Parameter(option, one.KEYWORD_ONLY, default=default, annotation=annotation))

    @wraps(command)
    def called(**given: Any) -> None:
        for name, kind in groups.items():
            assert isinstance(kind, type)
            given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
        command(**given)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters}
    return called


def _with_default(hint: Any, name: str, defaults: Mapping[str, Any]) -> Any:
    """The type of an option, with its default in the help."""
    kind, option = get_args(hint)
    option, text = copy(option), default_text(name, defaults)
    option.help += f" Default: {text}." if text else ""
    return Annotated[kind, option]


def default_text(name: str, defaults: Mapping[str, Any]) -> str:
    """What a network alone is run with, for the option ``name``; empty if it has no task."""
    value: Any = defaults
    for word in FIELDS[name].split("."):
        value = value.get(word) if isinstance(value, Mapping) else None
    if value is None and name == "slots":
        value = paper_network().slots
    elif value is None and name != "task":
        value = getattr(Experiment(), name)
    if isinstance(value, (list, tuple)):
        value = ",".join(map(str, value))
    return "" if value is None else str(value)
