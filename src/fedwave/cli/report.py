"""`fedwave report`: the tables and figures of a finished run, written again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.terminal import print_error
from fedwave.errors import FedwaveError, as_int, did_you_mean
from fedwave.experiments.run.runner import stored_results
from fedwave.experiments.store.dataset import Results, metrics_of
from fedwave.experiments.store.folder import RunFolder, check_is_folder
from fedwave.experiments.store.lock import locked, refuse_links
from fedwave.experiments.store.mend import mend
from fedwave.experiments.store.own_files import RUN_FILES, files_of_run, output_files
from fedwave.experiments.store.provenance import other_versions
from fedwave.experiments.store.sealed import Damaged
from fedwave.paper.compact import export_compact


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
    compact: Annotated[
        Path | None,
        typer.Option(
            "--compact",
            parser=opt.named,
            metavar="PATH",
            help="Also export a compact copy into this new folder: figures and small tables, to publish.",
        ),
    ] = None,
    json: opt.AsJson = False,
) -> None:
    """Write the tables and figures of a finished run again, for example after an upgrade of fedwave.

    Only the folder is needed: neither the files that the run was made from, nor your own parts.
    """
    show_again(folder, json, {"metric": metric, "against": against, "burn_in": burn_in}, out)
    if compact is not None:
        paths = export_compact(folder, compact)
        if not json:
            output.say_where(compact, paths)


def show_again(folder: Path, json: bool, asked: Mapping[str, Any] | None = None, out: Path | None = None) -> None:
    """Show what a folder holds, there or in a folder for figures and tables alone."""
    check_is_folder(folder)
    refuse_links(folder, RUN_FILES)
    _say_versions(folder)
    if out is None or os.path.realpath(out) == os.path.realpath(folder):
        store = RunFolder(folder)
        files = output_files(store.stored()) | files_of_run(store, store.units())
        with locked(folder, files):
            for said in mend(folder):
                print_error(said)
            output.show(_changed(stored_results(folder), asked or {}), folder, json)
        return
    results = _changed(stored_results(folder), asked or {})
    with locked(out, output_files(results.experiment)):
        output.show(results, out, json)


def _say_versions(folder: Path) -> None:
    with suppress(Damaged):  # of provenance.json: no result depends on it, and `fedwave verify` says so
        said = other_versions(folder, "is shown with")
        if said is not None:
            print_error(said)


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
