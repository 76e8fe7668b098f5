"""`fedwave simulate` and `fedwave compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.asking import ask
from fedwave.cli.running import heading, run, show
from fedwave.errors import FedwaveError, is_number
from fedwave.experiments.config.build import network_of, schedulers_of
from fedwave.experiments.config.experiment import BASE, Experiment
from fedwave.experiments.results.comparison import COLUMNS, Comparison
from fedwave.experiments.results.container import unit_dataset
from fedwave.experiments.results.statistics import instances_needed
from fedwave.files import write_csv, write_json
from fedwave.simulate import simulate as run_simulation


def simulate(
    words: opt.Words = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler", "-s", help="See `fedwave schedulers`; e.g. balsa:stage_rule=max1.",
            show_default="balsa",
        ),
    ] = None,
    rounds: opt.Rounds = None,
    instances: opt.Instances = None,
    seed: opt.Seed = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Keep the whole trace in this .npz file.")
    ] = None,
    summary: Annotated[
        bool,
        typer.Option(
            "--summary", help="Keep one number per round, not per device: for large networks."
        ),
    ] = False,
    beliefs: Annotated[
        bool, typer.Option("--beliefs", help="Keep what a learning scheduler thought, too.")
    ] = False,
    json: opt.AsJson = False,
    devices: opt.Devices = None,
    slots: opt.Slots = None,
    gamma: opt.Gamma = None,
    fading: opt.FadingText = None,
    success: opt.SuccessText = None,
    arrivals: opt.ArrivalsText = None,
    settings: opt.Settings = None,
    imports: opt.Imports = None,
) -> None:  # fmt: skip
    """Run one scheduler on a network and print what it brings."""
    opt.check_out(out, ".npz")
    how = ask(
        words, {"name": "simulate", "schedulers": ["balsa"]}, schedulers=[scheduler] if scheduler else None,
        rounds=rounds, instances=instances, seed=seed, devices=devices, slots=slots, gamma=gamma,
        fading=fading, success=success, arrivals=arrivals, settings=settings, imports=imports,
        only_simulate=True,
    )  # fmt: skip
    if len(how.schedulers) != 1:
        raise FedwaveError(
            f"simulate runs one scheduler, not {len(how.schedulers)}: choose one with --scheduler, or use "
            "`fedwave compare`."
        )
    _check_single(how)
    (label, one), *_ = schedulers_of(how).items()
    network = network_of(how.network)
    record = "full" if out and not summary else "summary"
    with output.progress(label, how.rounds) as meter:
        trace = run_simulation(
            network, one, how.rounds, how.instances, how.seed, record=record, beliefs=beliefs, meter=meter
        )  # fmt: skip
    if out:
        trace.save(out)
    comparison = Comparison.of(unit_dataset({label: trace}), label, how.burn_in)
    if json:
        about = {"seed": how.seed, "rounds": how.rounds, "instances": how.instances}
        output.print_json({**about, **comparison.to_json()[label]})
        return
    screen = output.console()
    name = f"{how.network.file or how.network.kind}, {network.size} devices"
    screen.print(output.comparison_table(comparison, heading(how, name)))
    if out:
        screen.print(f"Trace written to {out}", soft_wrap=True)


def compare(
    words: opt.Words = None,
    schedulers: opt.SchedulersText = None,
    rounds: opt.Rounds = None,
    instances: opt.Instances = None,
    seed: opt.Seed = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            help="Whom to take paired differences from.",
            show_default=f"{BASE} or the first",
        ),
    ] = None,
    burn_in: Annotated[
        int | None,
        typer.Option("--burn-in", help="Rounds left out of the averages.", show_default="0"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Write the table to this .csv or .json file, or everything to this folder."
        ),
    ] = None,
    half_width: Annotated[
        float | None,
        typer.Option(
            "--half-width", help="Say how many instances this half-width of the score's difference takes."
        ),
    ] = None,
    workers: opt.Workers = None,
    json: opt.AsJson = False,
    devices: opt.Devices = None,
    slots: opt.Slots = None,
    gamma: opt.Gamma = None,
    fading: opt.FadingText = None,
    success: opt.SuccessText = None,
    arrivals: opt.ArrivalsText = None,
    settings: opt.Settings = None,
    imports: opt.Imports = None,
) -> None:  # fmt: skip
    """Compare schedulers on the same worlds: score, backlog, fairness, age, with intervals."""
    folder = out if out is not None and not out.suffix else None
    if folder is None:
        opt.check_out(out, ".csv", ".json")
    how = ask(
        words, {"name": "compare"}, schedulers=schedulers, rounds=rounds, instances=instances, seed=seed,
        against=against, burn_in=burn_in, devices=devices, slots=slots, gamma=gamma, fading=fading, success=success,
        arrivals=arrivals, settings=settings, imports=imports,
        only_simulate=True,
    )  # fmt: skip
    if folder is None:
        _check_single(how)
    if half_width is not None:
        _check_plan(how, half_width, folder)
    results = run(how, folder, workers=workers)
    if folder is not None:
        show(results, folder, json)
        return
    comparison = Comparison.of(results.only.data, how.base, how.burn_in)
    content: dict[str, Any] = {
        "network": how.network.file or how.network.kind, "rounds": how.rounds, "instances": how.instances,
        "seed": how.seed, "against": how.base, "burn_in": how.burn_in, "schedulers": comparison.to_json(),
    }  # fmt: skip
    if half_width is not None:
        others = [label for label in comparison.schedulers if label != how.base]
        content["instances_needed"] = {
            label: instances_needed(comparison.differences(label, "score"), half_width)
            for label in others
        }
    if out is not None:
        if out.suffix == ".json":
            write_json(out, content)
        else:
            write_csv(out, COLUMNS, comparison.lines())
    if json:
        output.print_json(content)
        return
    screen = output.console()
    screen.print(output.comparison_table(comparison, heading(how, str(content["network"]))))
    if half_width is not None:
        needed = ", ".join(f"{k} {n:,}" for k, n in content["instances_needed"].items())
        screen.print(
            f"Instances for a half-width of {half_width:g} around the difference: {needed}.",
            soft_wrap=True,
        )
    if out is not None:
        screen.print(f"Table written to {out}", soft_wrap=True)


def _check_single(how: Experiment) -> None:
    """Before a run, not after it."""
    if how.sweep:
        raise FedwaveError(
            f"{how.name} varies {', '.join(how.sweep)}: use `fedwave sweep`, or drop it with sweep={{}}."
        )


def _check_plan(how: Experiment, half_width: float, folder: Path | None) -> None:
    """Can this run tell how many instances a half-width takes?"""
    if not (is_number(half_width) and half_width > 0):
        raise FedwaveError(f"half_width is {half_width}, must be a number above 0.")
    if how.instances < 2:
        raise FedwaveError(
            "instances is 1, must be 2 or more to show the spread that --half-width is about."
        )
    if len(how.schedulers) < 2:
        raise FedwaveError(
            f"--half-width is about a difference, but only {how.base} runs: name another scheduler beside it."
        )
    if folder is not None:
        raise FedwaveError(
            f"--half-width goes with a table, not with the folder {folder}: give --out a .csv or .json file."
        )
