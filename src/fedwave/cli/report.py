"""`fedwave report`: the tables and figures of a finished run, written again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.terminal import print_error
from fedwave.errors import FedwaveError, as_int, did_you_mean
from fedwave.experiments.store.dataset import Results, metrics_of
from fedwave.experiments.store.folder import RunFolder, check_is_folder
from fedwave.experiments.store.load import results_of
from fedwave.experiments.store.lock import writing_outputs
from fedwave.experiments.store.output_names import output_files
from fedwave.experiments.store.provenance import other_versions


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished run.")],
    metric: Annotated[
        str | None, typer.Option("--metric", help="First number of the table.", show_default="the experiment's")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", help="Scheduler that paired differences are taken from.", show_default="the experiment's"
        ),
    ] = None,
    burn_in: Annotated[
        int | None,
        typer.Option("--burn-in", help="First rounds that averages leave out.", show_default="the experiment's"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write them here instead.", show_default="DIR")
    ] = None,
    json: opt.AsJson = False,
) -> None:
    """Write the tables and figures of a finished run again, for example after an upgrade of fedwave.

    Only the folder is needed: neither the files that the run was made from, nor your own parts.
    """
    show_again(folder, json, {"metric": metric, "against": against, "burn_in": burn_in}, out)


def show_again(folder: Path, json: bool, asked: Mapping[str, Any] | None = None, out: Path | None = None) -> None:
    """Show what a folder holds, there or in a folder for figures and tables alone."""
    check_is_folder(folder)
    store = RunFolder(folder)
    results = _changed(results_of(store), asked or {})
    if said := other_versions(folder, store.done.units.values(), "is shown with"):
        print_error(said)
    if out is None or os.path.realpath(out) == os.path.realpath(folder):
        with store.locked():
            output.show(results, folder, json)
        return
    with writing_outputs(out, output_files(results.experiment)):
        output.show(results, out, json)


def _changed(results: Results, asked: Mapping[str, Any]) -> Results:
    """The same results, shown as asked for."""
    given = {name: value for name, value in asked.items() if value is not None}
    known = {"metric": metrics_of(results.points[0].data), "against": list(results.experiment.labels)}
    for name, choices in known.items():
        if name in given and given[name] not in choices:
            raise FedwaveError(
                f"--{name} is {given[name]!r}, which is not in this run; {did_you_mean(given[name], choices)}"
            )
    if "burn_in" in given:
        given["burn_in"] = as_int("--burn-in", given["burn_in"], 0)
    points = [replace(at, experiment=replace(at.experiment, **given)) for at in results.points]
    return Results(replace(results.experiment, **given), points)
