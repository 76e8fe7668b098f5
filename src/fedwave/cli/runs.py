"""`fedwave simulate` and `fedwave compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.errors import FedwaveError
from fedwave.experiments.comparison import compare as run_comparison
from fedwave.experiments.comparison import table
from fedwave.experiments.score import BASE, as_json
from fedwave.files import write_csv, write_json
from fedwave.schedulers.registry import PAPER_SCHEDULERS
from fedwave.simulate import simulate as run_simulation


def simulate(
    network: opt.NetworkArgument = "paper",
    scheduler: Annotated[
        str,
        typer.Option(
            "--scheduler", "-s", help="See `fedwave schedulers`; e.g. balsa:stage_rule=max1."
        ),
    ] = "balsa",
    rounds: opt.Rounds = 500,
    instances: opt.Instances = 50,
    seed: opt.Seed = 0,
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
    per: opt.SuccessText = None,
    arrivals: opt.ArrivalsText = None,
    settings: opt.Settings = None,
) -> None:
    """Run one scheduler on a network and print what it brings."""
    opt.check_out(out, ".npz")
    net = opt.build_network(network, devices, slots, gamma, fading, per, arrivals, settings)
    chosen = opt.build_schedulers([scheduler])
    if len(chosen) != 1:
        raise FedwaveError(
            f"simulate runs one scheduler, not {scheduler!r}: use `fedwave compare`."
        )
    label, one = next(iter(chosen.items()))
    record = "full" if out and not summary else "summary"
    with output.progress([label], rounds) as meter:
        trace = run_simulation(
            net, one, rounds, instances, seed, record=record, beliefs=beliefs,
            meter=lambda played: meter(label, played),
        )  # fmt: skip
    if out:
        trace.save(out)
    rows = table({label: trace}, label)
    if json:
        output.print_json(
            {"seed": seed, "rounds": rounds, "instances": instances, **as_json(rows)[label]}
        )
        return
    screen = output.console()
    screen.print(
        output.comparison_table(
            rows, label, output.title(network, net.size, rounds, instances, seed)
        )
    )
    if out:
        screen.print(f"Trace written to {out}", soft_wrap=True)


def compare(
    network: opt.NetworkArgument = "paper",
    schedulers: opt.SchedulersText = None,
    rounds: opt.Rounds = 500,
    instances: opt.Instances = 50,
    seed: opt.Seed = 0,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            help="Whom to take paired differences from.",
            show_default=f"{BASE} or the first",
        ),
    ] = None,
    burn_in: Annotated[
        int, typer.Option("--burn-in", help="Leave the first rounds out of the means.")
    ] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the table to this .csv or .json file.")
    ] = None,
    json: opt.AsJson = False,
    devices: opt.Devices = None,
    slots: opt.Slots = None,
    gamma: opt.Gamma = None,
    fading: opt.FadingText = None,
    per: opt.SuccessText = None,
    arrivals: opt.ArrivalsText = None,
    settings: opt.Settings = None,
) -> None:
    """Run several schedulers on the same worlds and compare them with confidence intervals."""
    opt.check_out(out, ".csv", ".json")
    net = opt.build_network(network, devices, slots, gamma, fading, per, arrivals, settings)
    chosen = opt.build_schedulers(schedulers or list(PAPER_SCHEDULERS))
    base = against or (BASE if BASE in chosen else next(iter(chosen), BASE))
    if base not in chosen:
        raise FedwaveError(
            f"--against {base!r} is not among the schedulers: add it to --schedulers."
        )
    with output.progress(list(chosen), rounds) as meter:
        traces = run_comparison(net, chosen, rounds, instances, seed, meter=meter)
    rows = table(traces, base, burn_in)
    content = {
        "network": network, "rounds": rounds, "instances": instances, "seed": seed,
        "against": base, "burn_in": burn_in, "schedulers": as_json(rows),
    }  # fmt: skip
    if out is not None and out.suffix == ".json":
        write_json(out, content)
    elif out is not None:
        table_rows = (
            [label, quantity, *estimate.values()]
            for label, quantities in as_json(rows).items()
            for quantity, estimate in quantities.items()
        )
        write_csv(
            out, ["scheduler", "quantity", "mean", "half_width", "standard_error"], table_rows
        )
    if json:
        output.print_json(content)
        return
    screen = output.console()
    screen.print(
        output.comparison_table(
            rows, base, output.title(network, net.size, rounds, instances, seed)
        )
    )
    if out is not None:
        screen.print(f"Table written to {out}", soft_wrap=True)
