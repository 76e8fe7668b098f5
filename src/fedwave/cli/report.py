"""`fedwave report`: the tables and figures of a finished run, written again."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.results.container import Results
from fedwave.experiments.results.folder import RunFolder
from fedwave.experiments.run.runner import stored_results
from fedwave.files import check_folder


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished run.")],
    metric: Annotated[
        str | None, typer.Option("--metric", help="First number of the table.", show_default="the experiment's")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write them here instead.", show_default="DIR")
    ] = None,
    json: opt.AsJson = False,
) -> None:  # fmt: skip
    """Write the tables and figures of a finished run again, for example after an upgrade of fedwave.

    Only the folder is needed: neither the files that the run was made from, nor your own parts.
    """
    show_again(folder, json, metric, out)


def show_again(
    folder: Path, json: bool, metric: str | None = None, out: Path | None = None
) -> None:
    """Show what a folder holds; into the folder itself only if no other process is at work in it."""
    if not folder.is_dir():
        raise FedwaveError(f"there is no run folder at {folder}.")
    store, place = RunFolder(folder), folder if out is None else out
    store.stored()  # refuses what is no run folder, before anything is written
    with store.locked() if out is None else nullcontext():
        check_folder(place)
        output.show(_first(metric, stored_results(folder)), place, json)


def _first(metric: str | None, results: Results) -> Results:
    """The same results, with this number first."""
    if metric is None:
        return results
    known = [str(name) for name in results.points[0].data]
    if metric not in known:
        raise FedwaveError(
            f"there is no metric {metric!r} in this run; {did_you_mean(metric, known)}"
        )
    points = [
        replace(at, experiment=replace(at.experiment, metric=metric)) for at in results.points
    ]
    return Results(replace(results.experiment, metric=metric), points)
