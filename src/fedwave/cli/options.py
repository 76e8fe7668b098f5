"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwave import registry
from fedwave.errors import FedwaveError
from fedwave.files import check_folder

_RADIO = "Network"
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[CONFIG] [KEY=VALUE]...",
        help="CONFIG: an experiment (.yaml), a preset (`fedwave presets`), a device table (.csv, .yaml), 'random', or "
        "'paper' (the default). KEY=VALUE: any of its fields, such as network.slots=10.",
    ),
]
Rounds = Annotated[
    int | None, typer.Option("--rounds", "-t", help="Rounds to play.", show_default="500")
]
Instances = Annotated[
    int | None,
    typer.Option("--instances", "-i", help="Independent repetitions.", show_default="50"),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", help="The same seed gives the same worlds and results.", show_default="0"
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", help="Processes at work.", show_default="one per core where it pays"),
]
EngineName = Annotated[
    str, typer.Option("--engine", help="local (processes on this machine) or ray (a cluster).")
]
Address = Annotated[
    str | None,
    typer.Option("--address", help="The Ray cluster to use; none: one started on this machine."),
]
Events = Annotated[
    str | None,
    typer.Option(
        "--events", help="Append what happens to this file as JSON lines; -: standard error."
    ),
]
SchedulersText = Annotated[
    list[str] | None,
    typer.Option(
        "--schedulers", "-s", help="Names with commas between; the paper's if none is given."
    ),
]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import", help="A .py file or a module with parts of your own. Can be repeated."
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
        help=f"One of {', '.join(registry.names('fading'))}; e.g. rician:k_factor=6.",
        rich_help_panel=_RADIO,
    ),
]
SuccessText = Annotated[
    str | None,
    typer.Option(
        "--success",
        help=f"One of {', '.join(registry.names('success'))}; e.g. harq:tries=3.",
        rich_help_panel=_RADIO,
    ),
]
ArrivalsText = Annotated[
    str | None,
    typer.Option(
        "--arrivals",
        help=f"One of {', '.join(registry.names('arrivals'))}; e.g. negative-binomial:dispersion=2.",
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
