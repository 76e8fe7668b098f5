"""The options that commands share, and the experiment that they ask for.

A command takes a group of options as one argument (see ``flat``).
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

from typer import Argument, Option

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import load_experiment
from fedwave.experiments.run.signals import TIMEOUT
from fedwave.network.network import paper_network

# The fields of an experiment that have an option.
FIELDS = {
    "schedulers": "schedulers",
    "task": "task.dataset",
    "rounds": "rounds",
    "instances": "instances",
    "seed": "seed",
    "burn_in": "burn_in",
    "slots": "network.slots",
}
_ADDRESS = re.compile(r"auto|(\w+://)?[^\s/=]+:\d+")  # a Ray cluster


def folder(place: str | Path) -> Path:
    """The folder that an option names; an empty text would be the current folder."""
    if not str(place):
        raise FedwaveError("path is empty; use '.' for the current folder.")
    return Path(place)


def option(usage: str, help: str, **more: Any) -> Any:
    """An option, such as "--rounds -r N"; the last word stands for its value."""
    *names, metavar = usage.split()
    return Option(*names, metavar=metavar, help=help, show_default=False, **more)


def flag(usage: str, help: str) -> Any:
    """An option without a value, such as "--quiet -q"."""
    return Option(*usage.split(), help=help)


def argument(metavar: str, help: str) -> Any:
    """An argument, as usage shows it."""
    return Argument(metavar=metavar, help=help, show_default=False)


def folder_option(usage: str, help: str) -> Any:
    """An option whose value is a folder."""
    return option(usage, help, parser=folder)


def out(help: str) -> Any:
    """The option ``--out``, which is always a folder."""
    return folder_option("--out -o DIR", help)


Words = Annotated[
    list[str] | None,
    argument(
        "EXPERIMENT|KEY=VALUE",
        "A file (.yaml, .json), a preset (`fedwave list presets`) or a network: paper, random, or a device table "
        "(.csv, .yaml); default: paper. Then any fields, such as network.slots=10.",
    ),
]
Imports = Annotated[list[str] | None, option("--import FILE", "File or module with parts of your own; repeatable.")]
RunFolderPath = Annotated[Path, argument("DIR", "Run folder.")]
AsJson = Annotated[bool, flag("--json", "Print JSON and nothing else.")]


@dataclass(frozen=True)
class Asked:
    """Options for the simulation: fields of the experiment, and the code that it needs."""

    schedulers: Annotated[list[str] | None, option("--schedulers -s A,B", "Schedulers, with commas between.")] = None
    rounds: Annotated[int | None, option("--rounds -r N", "Rounds to play.")] = None
    instances: Annotated[int | None, option("--instances -i N", "Repetitions.")] = None
    seed: Annotated[int | None, option("--seed N", "Equal seeds give equal results.")] = None
    slots: Annotated[int | None, option("--slots W", "Uploads per round.")] = None
    imports: Imports = None


@dataclass(frozen=True)
class AskedWithBurnIn(Asked):
    """What is simulated, and which rounds count."""

    burn_in: Annotated[int | None, option("--burn-in N", "First rounds that means leave out.")] = None


@dataclass(frozen=True)
class AskedWithTask(Asked):
    """Options for simulation and training."""

    task: Annotated[str | None, option("--task -t NAME", "Dataset: mnist, cifar10, synthetic or your own.")] = None


@dataclass(frozen=True)
class Printing:
    """Options for printing."""

    json: AsJson = False
    quiet: Annotated[bool, flag("--quiet -q", "Print errors and warnings only.")] = False


@dataclass(frozen=True)
class Local(Printing):
    """Options for a run on this machine."""

    workers: Annotated[int | None, option("--workers N", "Worker processes. Default: one per core where it pays.")] = (
        None
    )


@dataclass(frozen=True)
class Execution(Local):
    """Options for a run, here or on a cluster."""

    ray: Annotated[
        str | None, option("--ray [ADDRESS]", "Run on a Ray cluster; without an address, start one here.")
    ] = None
    timeout: Annotated[
        float, option("--timeout SECONDS", f"Abandon a unit after this long without progress. Default: {TIMEOUT:g}.")
    ] = TIMEOUT
    events: Annotated[Path | None, option("--events FILE", "Append events as JSON lines.")] = None


def with_ray_address(words: Sequence[str]) -> list[str]:
    """The words of a command line, with an address after every ``--ray``: an empty one if none was given."""
    line = list(words)
    while "--ray" in line:
        at = line.index("--ray")
        given = [word for word in line[at + 1 : at + 2] if _ADDRESS.fullmatch(word)]
        line[at : at + 1 + len(given)] = [f"--ray={''.join(given)}"]
    return line


def flat(defaults: Mapping[str, Any] | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Prepares a command for typer: every argument that is a group becomes one option per field.

    ``defaults`` are the fields that a network alone gets from this command. The help shows them.
    """

    def flattened(command: Callable[..., None]) -> Callable[..., None]:
        hints, parameters = get_type_hints(command, include_extras=True), list[inspect.Parameter]()
        groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
        for name, one in inspect.signature(command).parameters.items():
            types, options = {name: hints[name]}, [(name, one.default)]
            if name in groups:
                types = get_type_hints(groups[name], include_extras=True)
                options = [(f.name, f.default) for f in fields(groups[name])]
            for option, default in options:
                hint = _with_default(types[option], option, defaults or {}) if option in FIELDS else types[option]
                parameters.append(inspect.Parameter(option, one.KEYWORD_ONLY, default=default, annotation=hint))

        @wraps(command)
        def called(**given: Any) -> None:
            for name, kind in groups.items():
                given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
            command(**given)

        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in parameters}
        return called

    return flattened


def _with_default(hint: Any, name: str, defaults: Mapping[str, Any]) -> Any:
    """The type of an option, with its default at the end of the help; a task may have no default."""
    if name == "task":
        value = defaults.get("task", {}).get("dataset")
    elif name == "slots":
        value = paper_network().slots
    else:
        value = defaults.get(name, getattr(Experiment(), name))
    kind, option = get_args(hint)
    option = copy(option)
    if value is not None:
        option.help += f" Default: {','.join(map(str, value)) if isinstance(value, tuple) else value}."
    return Annotated[kind, option]


def experiment_of(
    words: Sequence[str] | None, asked: Asked | None = None, defaults: Mapping[str, Any] | None = None
) -> Experiment:
    """The experiment that a command is asked for.

    Later sources override earlier ones: the file, then ``key=value`` words, then options. ``defaults`` are the
    fields of an experiment that is named by its network only.
    """
    sources = [word for word in words or () if "=" not in word]
    if len(sources) > 1:
        raise FedwaveError(f"{sources[1]!r} comes after {sources[0]!r}: name one experiment, then fields as key=value.")
    asked = asked or Asked()
    given = {**vars(asked), "schedulers": _scheduler_labels(asked.schedulers) if asked.schedulers else None}
    overrides = [word for word in words or () if "=" in word]
    overrides += [f"{key}={_as_yaml(given[name])}" for name, key in FIELDS.items() if given.get(name) is not None]
    return load_experiment(sources[0] if sources else "paper", overrides, asked.imports or (), defaults)


def _scheduler_labels(texts: Sequence[str]) -> list[str]:
    """Schedulers with commas between, in one text or several."""
    labels: list[str] = []
    for item in ",".join(texts).split(","):
        # A comma also separates parameters: an item that begins with 'key=' belongs to the scheduler before it.
        if "=" in item.partition(":")[0] and labels:
            labels[-1] += f",{item}"
        elif item.strip():
            labels.append(item.strip())
    return labels


def _as_yaml(value: Any) -> str:
    """The value in YAML. JSON would write an emoji as two halves, which YAML takes for two characters."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() or ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in text)
