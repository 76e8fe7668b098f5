"""`fedwave report`, `verify` and `merge`: finished runs written again, checked, compared and merged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.terminal import print_error
from fedwave.errors import FedwaveError, as_int, did_you_mean
from fedwave.experiments.merge import merging
from fedwave.experiments.report.outputs import output_files
from fedwave.experiments.store.dataset import Results, metrics_of
from fedwave.experiments.store.diff import compare_runs
from fedwave.experiments.store.folder import RunFolder, check_is_folder
from fedwave.experiments.store.load import results_of
from fedwave.experiments.store.lock import check_new, writing_outputs
from fedwave.experiments.store.provenance import other_versions
from fedwave.experiments.store.verify import sound
from fedwave.experiments.store.verify import verify as check_folder
from fedwave.paper.compact import export_compact

_STYLES = {"ok": "green", "note": "yellow", "open": "yellow", "wrong": "bold red", "differs": "bold red"}


@opt.flat()
def report(
    *,
    folder: opt.RunFolderPath,
    words: Annotated[
        list[str] | None,
        opt.argument(
            "KEY=VALUE",
            "Change what is shown: metric=jain (primary metric), against=age (differences from it), burn_in=100.",
        ),
    ] = None,
    out: Annotated[Path | None, opt.out("Folder for tables and figures. Default: the run folder.")] = None,
    compact: Annotated[
        Path | None,
        opt.folder_option(
            "--compact DIR", "Also export a compact copy into this new folder: figures and small tables, to publish."
        ),
    ] = None,
    printing: opt.Printing,
) -> None:
    """Write the tables and figures of a finished run again.

    Only the folder is needed, not the files that the run was made from, nor your own parts.
    """
    if compact is not None:
        if out is not None:
            raise FedwaveError("--compact exports what lies in the run folder: leave out --out.")
        check_new(compact)
        if RunFolder(folder).experiment_as_run.sweep:
            raise FedwaveError(f"{folder} holds a sweep, which has no compact export: publish its summary.csv.")
    show_again(folder, printing, words or (), out)
    if compact is not None:
        paths = export_compact(folder, compact)
        if not (printing.json or printing.quiet):
            output.say_where(compact, paths)


def show_again(folder: Path, printing: opt.Printing, words: Sequence[str] = (), out: Path | None = None) -> None:
    """Write and print the results in a folder, there or in a folder for figures and tables alone."""
    check_is_folder(folder)
    store = RunFolder(folder)
    results = _changed(results_of(store), words)
    if (warning := other_versions(folder, store.done.units.values())) is not None:
        print_error(warning)
    if out is None or os.path.realpath(out) == os.path.realpath(folder):
        with store.locked():
            output.show(results, folder, printing)
        return
    with writing_outputs(out, output_files(results.experiment)):
        output.show(results, out, printing)


def _changed(results: Results, words: Sequence[str]) -> Results:
    """The results with another primary metric, base or burn-in."""
    known = {"metric": metrics_of(results.points[0].data), "against": list(results.experiment.labels)}
    given: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise FedwaveError(f"{word!r} is not a field: write it as key=value.")
        given[name] = value
        if name == "burn_in":
            given[name] = as_int(name, int(value) if value.isdecimal() else value, 0)
        elif name not in known:
            raise FedwaveError(f"{name!r} does not change a report; {did_you_mean(name, [*known, 'burn_in'])}")
        elif value not in known[name]:
            raise FedwaveError(f"{name} is {value!r}, which is not in this run; {did_you_mean(value, known[name])}")
    points = [replace(at, experiment=replace(at.experiment, **given)) for at in results.points]
    return Results(replace(results.experiment, **given), points)


def verify(
    folder: opt.RunFolderPath,
    other: Annotated[Path | None, opt.argument("OTHER", "A second one to compare it with.")] = None,
    json: opt.AsJson = False,
) -> None:
    """Check a run folder (checksums, units, inputs, versions), or compare two runs.

    The exit status is 0 if a folder is sound, or if two runs are the same to the last bit; otherwise 1. Nothing is
    imported or run.
    """
    check_is_folder(folder)
    if other is not None:
        check_is_folder(other)
    found = check_folder(folder) if other is None else compare_runs(folder, other)
    good = sound(found)
    if json:
        output.print_json({"sound" if other is None else "same": good, "findings": [asdict(f) for f in found]})
        raise typer.Exit(0 if good else 1)
    table, before = output.definitions(columns=3), ""
    for one in found:
        table.add_row(Text(one.state, _STYLES[one.state]), one.about if one.about != before else "", one.text)
        before = one.about
    output.console().print(table)
    if other is not None:
        output.print_out(f"A ({folder}) and B ({other}) {'are the same run' if good else 'are NOT the same'}.")
    else:
        only_open = all(one.state in ("ok", "note", "open") for one in found)
        verdict = "sound" if good else "not finished, and sound so far" if only_open else "NOT sound"
        output.print_out(f"{folder} is {verdict}.")
    raise typer.Exit(0 if good else 1)


@opt.flat()
def merge(
    *,
    folders: Annotated[list[Path], opt.argument("DIR", "Finished runs.")],
    out: Annotated[Path, opt.out("New run folder.")],
    printing: opt.Printing,
) -> None:
    """Merge runs of one experiment with different instances, as if run at once.

    A lot: fedwave run EXPERIMENT first_instance=20 instances=10. The folders are checked as by `fedwave verify` and
    stay as they are. Nothing is imported or run.
    """
    with merging(folders, out, print_error) as results:
        output.show(results, out, printing)
