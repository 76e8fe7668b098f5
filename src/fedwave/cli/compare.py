"""`fedwave compare`: schedulers on the same worlds, as a table."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.progress import rounds_bar
from fedwave.cli.request import experiment_of
from fedwave.cli.run import execute, execute_and_show, stopping
from fedwave.errors import FedwaveError, is_number
from fedwave.experiments.analysis.labels import sentences
from fedwave.experiments.analysis.statistics import instances_needed
from fedwave.experiments.config.build import check, metrics_of, network_of, schedulers_of
from fedwave.experiments.config.experiment import BASE, Experiment
from fedwave.experiments.config.units import file_words
from fedwave.experiments.report.comparison import COLUMNS, Comparison
from fedwave.experiments.report.devices import worst_note
from fedwave.experiments.store.dataset import joined, unit_dataset
from fedwave.files.writing import check_folder, write_csv, write_json
from fedwave.metrics import metric_names
from fedwave.simulation import simulate

if TYPE_CHECKING:
    import xarray as xr


@opt.flat()
def compare(
    choice: opt.Choice,
    size: opt.Size,
    execution: opt.Execution,
    radio: opt.Radio,
    words: opt.Words = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", help="Scheduler that paired differences are taken from.", show_default=f"{BASE} or the first"
        ),
    ] = None,
    burn_in: Annotated[
        int | None,
        typer.Option(
            "--burn-in", help="First rounds that averages leave out.", show_default=opt.shown_default("burn_in")
        ),
    ] = None,
    half_width: Annotated[
        float | None,
        typer.Option("--half-width", help="Print the instances needed for this half-width of the score's difference."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", parser=opt.named, metavar="PATH", help="Table (.csv, .json), or a run folder for everything."
        ),
    ] = None,
    traces: Annotated[
        Path | None,
        typer.Option(
            "--traces", parser=opt.named, metavar="DIR", help="Keep the trace of each scheduler as DIR/*.npz."
        ),
    ] = None,
    beliefs: Annotated[
        bool, typer.Option("--beliefs", help="Keep what learning schedulers believed in the traces.")
    ] = False,
    json: opt.AsJson = False,
) -> None:
    """Compare schedulers on the same worlds, without training: the quick form of `fedwave run`.

    Prints backlog, score, fairness and age with intervals, and paired differences of all.
    """
    folder = out if out is not None and not out.suffix else None
    more = {"against": against, "burn_in": burn_in}
    how = experiment_of(words, [choice, size, radio], {"name": "compare"}, more)
    how = _without_task(how, choice.metric)
    _check_options(how, folder, half_width, traces, beliefs, execution)
    if folder is None:
        opt.check_out(out, ".csv", ".json")
    if folder is not None:
        execute_and_show(how, folder, execution, json)
        return
    if traces is None:
        with stopping(None) as stop, execute(how, None, execution, stop) as results:
            data = results.only.data
    else:
        data = _traced(how, traces, beliefs)
    comparison = Comparison.of(data, how.base, how.burn_in, how.metric)
    content: dict[str, Any] = {
        "network": how.network.file or how.network.kind,
        "rounds": how.rounds,
        "instances": how.instances,
        "first_instance": how.first_instance,
        "seed": how.seed,
        "burn_in": how.burn_in,
        "metric": how.metric,
        **comparison.about(),
        "schedulers": comparison.to_json(),
    }
    if half_width is not None:
        content["instances_needed"] = {
            label: _instances_needed(comparison, label, half_width)
            for label in comparison.schedulers
            if label != how.base
        }
    if out is not None:
        _write(out, content, comparison)
    if json:
        output.print_json(content)
        return
    note = sentences(comparison.note, worst_note(data))
    output.print_tables(output.comparison_tables(comparison, str(content["network"]), note))
    if half_width is not None:
        output.print_out(_needed_sentence(content["instances_needed"], half_width))
    for what, place in (("Table", out), ("Traces", traces)):
        if place is not None:
            output.print_out(f"{what} written to {place}")


def _instances_needed(comparison: Comparison, label: str, half_width: float) -> int | None:
    """None where instances are copies: no number of them narrows anything."""
    covered = (comparison.randomness.covers(name, "score") for name in (label, comparison.base))
    if not any(covered):
        return None
    return instances_needed(comparison.differences(label, "score"), half_width)


def _needed_sentence(needed: dict[str, int | None], half_width: float) -> str:
    known = ", ".join(f"{label} {count:,}" for label, count in needed.items() if count is not None)
    copies = ", ".join(label for label, count in needed.items() if count is None)
    start = f"Instances for a half-width of {half_width:g} around the difference of the score"
    more = f"No number of instances gives an interval around that of {copies}: they are copies."
    return sentences(f"{start}: {known}." if known else "", more if copies else "")


def _without_task(how: Experiment, metric: str | None) -> Experiment:
    """The same, only simulated; a metric of training that nobody asks for gives way to the default."""
    if how.sweep:
        raise FedwaveError(f"{how.name} varies {', '.join(how.sweep)}: use `fedwave run`, or drop it with sweep={{}}.")
    learnt = set(metric_names(training=True)) - set(metric_names())
    if how.task is not None and metric is None and how.metric in learnt:
        how = replace(how, metric="backlog")
    how = replace(how, task=None)
    check(how)
    return how


def _check_options(
    how: Experiment,
    folder: Path | None,
    half_width: float | None,
    traces: Path | None,
    beliefs: bool,
    execution: opt.Execution,
) -> None:
    """Refuse what cannot be done before the run, not after it."""
    for name, value in (("--half-width", half_width), ("--traces", traces)):
        if value is not None and folder is not None:
            raise FedwaveError(
                f"{name} goes with a table, not with the folder {folder}: give --out a .csv or .json file."
            )
    if traces is not None:
        if execution != opt.Execution():
            raise FedwaveError(
                "--traces simulates in this process: leave out --workers, --engine, --address, --timeout and --events."
            )
        check_folder(traces)
        for path in _trace_files(how, traces).values():
            if path.exists() and not _is_trace(path):
                raise FedwaveError(f"{path} is no trace, and would be replaced: name another folder with --traces.")
    elif beliefs:
        raise FedwaveError("--beliefs are kept in traces: name a folder for them with --traces.")
    if half_width is None:
        return
    if not (is_number(half_width) and half_width > 0):
        raise FedwaveError(f"half_width is {half_width}, must be a number above 0.")
    if how.instances < 2:
        raise FedwaveError("instances is 1, must be 2 or more to show the spread that --half-width is about.")
    if len(how.schedulers) < 2:
        raise FedwaveError(
            f"--half-width is about a difference, but only {how.base} runs: name another scheduler beside it."
        )


def _traced(how: Experiment, folder: Path, beliefs: bool) -> xr.Dataset:
    """Simulate one scheduler after another, and store the whole trace of each."""
    network, parts, paths = network_of(how.network), [], _trace_files(how, folder)
    for label, scheduler in schedulers_of(how).items():
        with rounds_bar(label, how.rounds) as meter:
            trace = simulate(
                network,
                scheduler,
                how.rounds,
                how.instance_numbers,
                how.seed,
                beliefs=beliefs,
                metrics=metrics_of(how),
                meter=meter,
            )
        trace.save(paths[label])
        parts.append(unit_dataset({label: trace}))
    return joined(parts, how.labels, how.instance_numbers)


def _trace_files(how: Experiment, folder: Path) -> dict[str, Path]:
    words = file_words([(label,) for label in how.labels])
    return {label: folder / f"{word}.npz" for label, word in zip(how.labels, words, strict=True)}


def _is_trace(path: Path) -> bool:
    with suppress(OSError, zipfile.BadZipFile):
        if path.is_file():
            with zipfile.ZipFile(path) as archive:
                return {"header.npy", "series/score.npy"} <= set(archive.namelist())
    return False


def _write(out: Path, content: dict[str, Any], comparison: Comparison) -> None:
    if out.suffix == ".json":
        write_json(out, content)
    else:
        write_csv(out, COLUMNS, comparison.lines())
