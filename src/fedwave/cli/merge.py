"""`fedwave merge`: finished lots of an experiment, put together into one run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.terminal import print_error
from fedwave.experiments.merge import merging


def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Folders of finished runs.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", "-o", parser=opt.named, metavar="PATH", help="New run folder.", show_default=False)
    ],
    json: opt.AsJson = False,
) -> None:
    """Put runs of one experiment with different instances together, as if all had been run at once.

    A lot: fedwave run EXPERIMENT --first-instance 20 --instances 10. The folders are checked as `fedwave verify` does
    and stay as they are; nothing is imported or run.
    """
    with merging(folders, out, print_error) as results:
        output.show(results, out, json)
