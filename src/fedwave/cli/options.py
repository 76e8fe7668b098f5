"""From the words of the command line to a Network and its schedulers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedwave.components import ARRIVALS, FADINGS, SUCCESS_MODELS, part, scheduler_from_text
from fedwave.errors import FedwaveError, did_you_mean
from fedwave.files import check_folder
from fedwave.network.devices import read_devices
from fedwave.network.network import Network, paper_network, random_network
from fedwave.schedulers.base import Scheduler

_RADIO = "Network"
NetworkArgument = Annotated[
    str,
    typer.Argument(
        help="'paper' (the paper's 25 devices), 'random' (see --devices), or a device table (.csv, .yaml).",
        show_default=True,
    ),
]
Rounds = Annotated[int, typer.Option("--rounds", "-t", help="Rounds to play.")]
Instances = Annotated[int, typer.Option("--instances", "-i", help="Independent repetitions.")]
Seed = Annotated[
    int, typer.Option("--seed", help="The same seed gives the same worlds and results.")
]
SchedulersText = Annotated[
    list[str] | None,
    typer.Option(
        "--schedulers", "-s", help="Names with commas between; the paper's if none is given."
    ),
]
OutFolder = Annotated[Path, typer.Option("--out", "-o", help="Folder for figures and data.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of a table.")]
Devices = Annotated[
    int | None,
    typer.Option("--devices", help="Devices of the 'random' network.", rich_help_panel=_RADIO),
]
Slots = Annotated[
    int | None,
    typer.Option("--slots", "-w", help="W: uploads that fit in a round.", rich_help_panel=_RADIO),
]
Gamma = Annotated[
    float | None, typer.Option("--gamma", help="Cost of a waiting shard.", rich_help_panel=_RADIO)
]
FadingText = Annotated[
    str | None,
    typer.Option(
        "--fading",
        help=f"One of {', '.join(FADINGS)}; e.g. rician:k_factor=6.",
        rich_help_panel=_RADIO,
    ),
]
SuccessText = Annotated[
    str | None,
    typer.Option(
        "--per",
        help=f"One of {', '.join(SUCCESS_MODELS)}; e.g. harq:tries=3.",
        rich_help_panel=_RADIO,
    ),
]
ArrivalsText = Annotated[
    str | None,
    typer.Option(
        "--arrivals",
        help=f"One of {', '.join(ARRIVALS)}; e.g. negative-binomial:dispersion=2.",
        rich_help_panel=_RADIO,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any other field, or a device column for all devices: buffer_limit=20. Can be repeated.",
        rich_help_panel=_RADIO,
    ),
]


def check_out(out: Path | None, *endings: str) -> None:
    """Find out before a long run, not after it, that its results cannot be written."""
    if out is None:
        return
    if out.suffix not in endings:
        raise FedwaveError(f"--out {out} must end in {' or '.join(endings)}.")
    check_folder(out.parent)


def build_network(
    source: str,
    devices: int | None,
    slots: int | None,
    gamma: float | None,
    fading: str | None,
    per: str | None,
    arrivals: str | None,
    settings: list[str] | None,
) -> Network:
    """The network that the options describe."""
    changes: dict[str, Any] = dict(_setting(text) for text in settings or ())
    for name, value in (("slots", slots), ("gamma", gamma)):
        if value is not None:
            changes[name] = value
    for name, text, kinds in (
        ("fading", fading, FADINGS),
        ("per", per, SUCCESS_MODELS),
        ("arrivals", arrivals, ARRIVALS),
    ):
        if text is not None:
            changes[name] = part(text, kinds, name)
    if devices is not None and source != "random":
        raise FedwaveError(f"--devices goes with the 'random' network, not with {source!r}.")
    if source == "paper":
        return paper_network(**changes)
    if source == "random":
        size = 100 if devices is None else devices
        return random_network(size, changes.pop("slots", max(1, size // 5)), **changes)
    if Path(source).suffix.lower() in (".csv", ".yaml", ".yml"):
        table = read_devices(source)
        return Network(table, slots=changes.pop("slots", min(5, len(table)))).replace(**changes)
    raise FedwaveError(
        f"there is no network {source!r}; {did_you_mean(source, ['paper', 'random'])} "
        "A device table must end in .csv, .yaml or .yml."
    )


def build_schedulers(texts: list[str]) -> dict[str, Scheduler]:
    """Schedulers by the text that names them, commas separating several: their labels in the results."""
    labels: list[str] = []
    for text in texts:
        for item in text.split(","):
            # A comma also separates parameters: an item with '=' belongs to the scheduler before it.
            if "=" in item and ":" not in item and labels:
                labels[-1] += f",{item}"
            elif item.strip():
                labels.append(item.strip())
    if not labels:
        raise FedwaveError(
            "no scheduler is named: name at least one, as `fedwave schedulers` lists them."
        )
    for label in labels:
        if labels.count(label) > 1:
            raise FedwaveError(f"scheduler {label!r} is named twice: name each once.")
    return {label: scheduler_from_text(label) for label in labels}


def _setting(text: str) -> tuple[str, float]:
    key, equals, value = text.partition("=")
    try:
        if not equals:
            raise ValueError
        return key.strip(), float(value)
    except ValueError:
        raise FedwaveError(
            f"--set {text!r} must read field=number, such as buffer_limit=20."
        ) from None
