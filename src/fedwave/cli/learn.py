"""`fedwave train` and the learning half of `fedwave reproduce`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.experiments.learning import (
    PRESETS,
    Learned,
    Preset,
    learning_json,
    run_learning,
    write_learning,
)
from fedwave.files import check_folder
from fedwave.network.network import Network, paper_network
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.registry import PAPER_SCHEDULERS, scheduler

if TYPE_CHECKING:
    from fedwave.learning.task import Task

Quick = Annotated[
    bool,
    typer.Option(
        "--quick/--full", help="A size for a laptop in minutes, or the paper's (for a GPU)."
    ),
]
WantedRounds = Annotated[
    int | None, typer.Option("--rounds", "-t", help="Rounds, instead of the preset's.")
]
WantedInstances = Annotated[
    int | None, typer.Option("--instances", "-i", help="Repetitions, instead of the preset's.")
]
Device = Annotated[str, typer.Option("--device", help="auto (a GPU if there is one), cpu or cuda.")]
Precision = Annotated[
    str, typer.Option("--precision", help="float32, float64, or bfloat16 layers.")
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        "--tolerance", help="Leave out local training that weighs less at its delivery; 0: nothing."
    ),
]
Block = Annotated[int | None, typer.Option("--block", help="Models trained side by side.")]


def mnist(
    quick: Quick = True,
    rounds: WantedRounds = None,
    instances: WantedInstances = None,
    seed: opt.Seed = 0,
    out: opt.OutFolder = Path("out/mnist"),
    device: Device = "auto",
    precision: Precision = "float32",
    tolerance: Tolerance = None,
    block: Block = None,
    json: opt.AsJson = False,
) -> None:
    """Figures 3 to 5 on MNIST: training loss, test accuracy, one instance, targets reached."""
    _reproduce(
        "mnist", quick, rounds, instances, tolerance, seed, out, device, precision, block, json
    )


def cifar10(
    quick: Quick = True,
    rounds: WantedRounds = None,
    instances: WantedInstances = None,
    seed: opt.Seed = 0,
    out: opt.OutFolder = Path("out/cifar10"),
    device: Device = "auto",
    precision: Precision = "bfloat16",
    tolerance: Tolerance = None,
    block: Block = None,
    json: opt.AsJson = False,
) -> None:
    """Figures 3 to 5 on CIFAR-10 with VGG19; needs a GPU for more than a few rounds."""
    _reproduce(
        "cifar10", quick, rounds, instances, tolerance, seed, out, device, precision, block, json
    )


def train(
    network: opt.NetworkArgument = "paper",
    task: Annotated[str, typer.Option("--task", help="mnist, cifar10 or synthetic.")] = "mnist",
    schedulers: opt.SchedulersText = None,
    rounds: opt.Rounds = 25,
    instances: opt.Instances = 2,
    seed: opt.Seed = 0,
    mode: Annotated[
        str, typer.Option("--mode", help="async, or sync: data wait until scheduled.")
    ] = "async",
    skew: Annotated[
        float | None,
        typer.Option("--skew", help="Label skew: Dirichlet(alpha) per device; none: i.i.d."),
    ] = None,
    beta: Annotated[
        float | None, typer.Option("--beta", help="Decay of undelivered gradients.")
    ] = None,
    out: opt.OutFolder = Path("out/train"),
    device: Device = "auto",
    precision: Precision = "float32",
    tolerance: Tolerance = None,
    block: Block = None,
    json: opt.AsJson = False,
    devices: opt.Devices = None,
    slots: opt.Slots = None,
    gamma: opt.Gamma = None,
    fading: opt.FadingText = None,
    per: opt.SuccessText = None,
    arrivals: opt.ArrivalsText = None,
    settings: opt.Settings = None,
) -> None:
    """Train a task on the schedules of several schedulers: accuracy beside score, backlog and fairness."""
    check_folder(out)
    net = opt.build_network(network, devices, slots, gamma, fading, per, arrivals, settings)
    chosen = opt.build_schedulers(schedulers or list(PAPER_SCHEDULERS))
    from fedwave.learning.partition import Dirichlet, Iid
    from fedwave.learning.task import task as make_task

    numbers: dict[str, Any] = {} if beta is None else {"beta": beta}
    made = make_task(task, partition=Iid() if skew is None else Dirichlet(skew), **numbers)
    like = PRESETS[("cifar10" if task == "cifar10" else "mnist", "quick")]
    preset = replace(
        like, dataset=task, rounds=rounds, instances=instances,
        tolerance=1e-6 if tolerance is None else tolerance,
    )  # fmt: skip
    _run(
        preset,
        net,
        chosen,
        made,
        seed,
        out,
        _settings(device, precision, block) | {"mode": mode},
        json,
    )


def _reproduce(
    dataset: str, quick: bool, rounds: int | None, instances: int | None, tolerance: float | None, seed: int,
    out: Path, device: str, precision: str, block: int | None, json: bool,
) -> None:  # fmt: skip
    check_folder(out)
    settings = _settings(device, precision, block)
    preset = PRESETS[dataset, "quick" if quick else "full"]
    changes: dict[str, Any] = {"rounds": rounds, "instances": instances, "tolerance": tolerance}
    preset = replace(preset, **{k: v for k, v in changes.items() if v is not None})
    chosen = {name: scheduler(name) for name in PAPER_SCHEDULERS}
    _run(preset, paper_network(), chosen, _task_or_synthetic(dataset), seed, out, settings, json)


def _task_or_synthetic(dataset: str) -> Task:
    from fedwave.learning.data import NoData
    from fedwave.learning.task import task as make_task

    try:
        return make_task(dataset)
    except NoData as error:
        print(f"fedwave: {error}", file=sys.stderr)
        print(
            f"fedwave: SYNTHETIC DATA is used instead of {dataset}, here and on every figure.",
            file=sys.stderr,
        )
        return make_task("synthetic")


def _settings(device: str, precision: str, block: int | None) -> dict[str, Any]:
    from fedwave.learning.replay import available_device

    device = available_device(device)
    if device == "cpu" and precision == "bfloat16":
        precision = "float32"  # half precision saves nothing there
    return {
        "device": device,
        "precision": precision,
        "block": (1024 if device == "cuda" else 64) if block is None else block,
    }


def _run(
    preset: Preset, network: Network, chosen: Mapping[str, Scheduler], task: Task, seed: int, out: Path,
    settings: Mapping[str, Any], json: bool,
) -> None:  # fmt: skip
    with output.progress([preset.dataset], preset.rounds) as meter:
        learned = run_learning(
            preset,
            network,
            chosen,
            task,
            seed,
            settings,
            out,
            lambda played: meter(preset.dataset, played),
            workers=_workers(settings["device"], preset),
        )
    rows, paths = write_learning(learned, out)
    if json:
        output.print_json({"files": [str(path) for path in paths], **learning_json(learned, rows)})
        return
    screen = output.console()
    screen.print(output.learning_table(rows, learned.base, _heading(learned)))
    screen.print(
        f"Figures and data are in {out}: {', '.join(path.name for path in paths)}", soft_wrap=True
    )


def _workers(device: str, preset: Preset) -> int:
    """One process per core on a CPU, but none for a run that is over before they have started."""
    if device != "cpu" or preset.rounds < 10:
        return 1
    return min(os.cpu_count() or 1, preset.instances)


def _heading(learned: Learned) -> str:
    p = learned.preset
    data = f"SYNTHETIC DATA (no {p.dataset})" if learned.synthetic else p.dataset
    return f"{data}: {p.rounds} rounds, {p.instances} instances, seed {learned.seed}"
