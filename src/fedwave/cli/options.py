"""The options that commands share, in groups. A command takes a group as one argument (see ``flat``)."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial, wraps
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

from typer import Argument, Option

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment, TaskConfig
from fedwave.experiments.config.sweep import to_mapping
from fedwave.experiments.run.signals import TIMEOUT
from fedwave.files.writing import check_folder
from fedwave.network.network import paper_network, random_network
from fedwave.parts import registry
from fedwave.plain_text import brief

_OWN = "the experiment's"
_of_network = partial(Option, rich_help_panel="Network")
_of_training = partial(Option, rich_help_panel="Training")


def _parts(family: str, example: str) -> str:
    return f"One of {', '.join(registry.names(family))}, or your own; e.g. {example}."


Words = Annotated[
    list[str] | None,
    Argument(
        metavar="[EXPERIMENT] [KEY=VALUE]...",
        help="EXPERIMENT: a file (.yaml, .json), a preset (`fedwave presets`), or a network: 'paper' (the default), "
        "'random' or a device table (.csv, .yaml). KEY=VALUE: any field, such as network.slots=10.",
    ),
]
Imports = Annotated[
    list[str] | None,
    Option("--import", metavar="FILE", help="A .py file or a module with parts of your own. Can be repeated."),
]


def named(place: str | Path) -> Path:
    """The file or folder that an option names; an empty text would be the current folder."""
    if not str(place):
        raise FedwaveError("'' names no place: give one, such as out/first; here is '.'.")
    return Path(place)


OutFolder = Annotated[Path, Option("--out", "-o", parser=named, metavar="PATH", help="Folder for figures and data.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON and nothing else.")]


# fmt: off
@dataclass(frozen=True)
class Size:
    """How much is run, and from which seed."""

    prefix: ClassVar[str] = ""

    rounds: Annotated[int | None, Option("--rounds", "-t", help="Rounds to play.", show_default=_OWN)] = None
    instances: Annotated[int | None, Option("--instances", "-i", help="Repetitions.", show_default=_OWN)] = None
    first_instance: Annotated[int | None, Option(
        "--first-instance", help="Number of the first: 20 with -i 10 runs the lot 20 to 29, for `fedwave merge`.",
        show_default=_OWN,
    )] = None
    seed: Annotated[int | None, Option("--seed", help="Equal seeds give equal results.", show_default=_OWN)] = None


@dataclass(frozen=True)
class Choice:
    """What is run and looked at."""

    prefix: ClassVar[str] = ""

    schedulers: Annotated[list[str] | None, Option(
        "--schedulers", "-s", help="Names with commas between, such as alsa-pi,balsa:stage_rule=max1.",
        show_default=_OWN,
    )] = None
    metric: Annotated[str | None, Option(
        "--metric", help="First number of tables, and what the figures of a sweep show.", show_default=_OWN,
    )] = None
    imports: Imports = None


@dataclass(frozen=True)
class Radio:
    """Fields of the network."""

    prefix: ClassVar[str] = "network."

    devices: Annotated[int | None, _of_network("--devices", help="Devices of 'random'.")] = None
    slots: Annotated[int | None, _of_network("--slots", "-w", help="W: uploads that fit in a round.")] = None
    gamma: Annotated[float | None, _of_network("--gamma", help="Cost of a waiting shard.")] = None
    fading: Annotated[str | None, _of_network("--fading", help=_parts("fading", "rician:k_factor=6"))] = None
    success: Annotated[str | None, _of_network("--success", help=_parts("success", "harq:tries=3"))] = None
    arrivals: Annotated[str | None, _of_network(
        "--arrivals", help=_parts("arrivals", "negative-binomial:dispersion=2")
    )] = None
    settings: Annotated[list[str] | None, _of_network(
        "--set", help="Any other number, or a device column for all devices: buffer_limit=20. Can be repeated."
    )] = None


@dataclass(frozen=True)
class Training:
    """Where and how models are trained."""

    prefix: ClassVar[str] = "training."

    device: Annotated[str | None, _of_training("--device", help="auto (a GPU if there is one), cpu or cuda.")] = None
    precision: Annotated[str | None, _of_training("--precision", help="float32, float64, bfloat16, or auto.")] = None
    tolerance: Annotated[float | None, _of_training(
        "--tolerance", help="Skip local training that weighs at most this at its delivery; 0 skips nothing."
    )] = None
    lanes: Annotated[int | None, _of_training("--lanes", help="Models trained side by side.")] = None
    test_images: Annotated[int | None, _of_training(
        "--test-images", help="Images that the accuracy of every round is measured on."
    )] = None


@dataclass(frozen=True)
class Execution:
    """Where a run is executed, and who follows it."""

    workers: Annotated[int | None, Option(
        "--workers", help="Processes.", show_default="one per core where it pays"
    )] = None
    engine: Annotated[str, Option("--engine", help="local (processes on this machine) or ray (a cluster).")] = "local"
    address: Annotated[str | None, Option(
        "--address", help="Ray cluster.", show_default="one started on this machine"
    )] = None
    timeout: Annotated[float, Option(
        "--timeout", metavar="SECONDS", help="Give a unit up that finishes no round for so long; inf: never."
    )] = TIMEOUT
    events: Annotated[str | None, Option(
        "--events", help="Append events to this file as JSON lines; -: to standard error."
    )] = None
# fmt: on


# What `run` takes as a field only.
NETWORK_FIELDS = {f"--{one.name}": f"{Radio.prefix}{one.name}" for one in fields(Radio) if one.name != "settings"}
Group = Size | Choice | Radio | Training


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some options, ``vars`` of a group for example, that were given."""
    return {name: value for name, value in options.items() if value not in (None, [])}


def spelled(name: str) -> str:
    """An option as it is written, by the name of its field."""
    return f"--{name.replace('_', '-')}"


_WITHOUT_DEFAULT = ("training.lanes", "network.settings", "imports")  # or one for each machine


def shown_default(field: str, defaults: Mapping[str, Any] | None = None) -> str:
    """What the help says about a field of the experiment that is not given: what a network alone would run with."""
    value = _inside(defaults or {}, field)
    if value is None:
        value = _inside(_plain_experiment(), field)
    if isinstance(value, (list, tuple)):
        value = ",".join(value)
    return f"{value}, or the experiment's"


@cache
def _plain_experiment() -> dict[str, Any]:
    """Every field of an experiment that is a network alone; of a network, the numbers that it is built with."""
    network = paper_network()
    built = {
        "slots": f"{network.slots}; of 'random' a fifth of the devices",
        "gamma": network.gamma,
        "devices": inspect.signature(random_network).parameters["devices"].default,
        "fading": network.fading.name,
        "success": network.success.name,
        "arrivals": network.arrivals.name,
    }
    return to_mapping(Experiment()) | {"task": to_mapping(TaskConfig()), "network": built}


def _inside(content: Mapping[str, Any], field: str) -> Any:
    for word in field.split("."):
        content = content.get(word) if isinstance(content, Mapping) else None  # type: ignore[assignment]
    return content


def _with_default(hint: Any, field: str, defaults: Mapping[str, Any]) -> Any:
    """The type of an option, with its default in the help."""
    if field in _WITHOUT_DEFAULT:
        return hint
    kind, option = get_args(hint)
    option = copy(option)
    option.show_default = shown_default(field, defaults)
    return Annotated[kind, option]


def flat(
    defaults: Mapping[str, Any] | None = MappingProxyType({}),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command as typer wants it: every argument that is a group becomes one option per field.

    ``defaults`` are the fields that a network alone gets from this command, beside those of every experiment; None:
    the command takes no network, so the help names no numbers.
    """
    return lambda command: _flat(command, defaults)


def _flat(command: Callable[..., None], defaults: Mapping[str, Any] | None) -> Callable[..., None]:
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters = []
    for name, one in inspect.signature(command).parameters.items():
        options = {name: (hints[name], one.default)}
        if name in groups:
            types = get_type_hints(groups[name], include_extras=True)
            options = {f.name: (types[f.name], f.default) for f in fields(groups[name])}
            prefix = getattr(groups[name], "prefix", None)  # those of Execution are no fields
            if defaults is not None and prefix is not None:
                options = {
                    option: (_with_default(hint, f"{prefix}{option}", defaults), default)
                    for option, (hint, default) in options.items()
                }
        parameters += [
            inspect.Parameter(option, one.KEYWORD_ONLY, default=default, annotation=hint)
            for option, (hint, default) in options.items()
        ]

    @wraps(command)
    def called(**given: Any) -> None:
        for name, kind in groups.items():
            assert isinstance(kind, type)
            given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
        command(**given)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters}
    return called


def _refuse_run_folder(out: Path, name: str) -> None:
    """A file among those of a run would replace one of them, or look like one."""
    from fedwave.experiments.store.lock import is_run_folder

    place = Path(os.path.realpath(out)).parent
    for folder in (place, place.parent):  # beside its files, or in one of its own folders
        if is_run_folder(folder):
            raise FedwaveError(f"{name} {brief(out)} lies in the run folder {folder}: choose another place.")


def check_out(out: Path | None, *endings: str, name: str = "--out") -> None:
    """Refuse a file that cannot be written before a long run, not after it; ``name`` is the option's."""
    if out is None:
        return
    if out.suffix not in endings:
        raise FedwaveError(f"{name} {brief(out)} must end in {' or '.join(endings)}.")
    check_folder(out.parent)
    _refuse_run_folder(out, name)
    try:
        usable = not out.exists() or out.is_file()
    except OSError as error:  # a name that is too long
        raise FedwaveError(f"{name} {brief(out)} cannot be written: {error.strerror}.") from None
    if not usable:
        raise FedwaveError(f"{name} {out} is no plain file: choose another name.")
