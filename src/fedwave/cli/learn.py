"""`fedwave train` and the learning half of `fedwave reproduce`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedwave.cli import options as opt
from fedwave.cli.asking import ask
from fedwave.cli.running import run, show
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.run.runner import stored_results
from fedwave.files import check_folder

Quick = Annotated[
    bool,
    typer.Option(
        "--quick/--full", help="A size for a laptop in minutes, or the paper's (for a GPU)."
    ),
]
Stored = Annotated[
    Path | None,
    typer.Option("--from", help="Draw again from the results in this folder; nothing is run."),
]
Device = Annotated[
    str | None, typer.Option("--device", help="auto (a GPU if there is one), cpu or cuda.")
]
Precision = Annotated[
    str | None, typer.Option("--precision", help="float32, float64, or bfloat16 layers.")
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        "--tolerance", help="Leave out local training that weighs less at its delivery; 0: nothing."
    ),
]
Lanes = Annotated[int | None, typer.Option("--lanes", help="Models trained side by side.")]
# The experiment that each size of a reproduction is.
_SIZES: dict[tuple[str, bool], tuple[str, tuple[str, ...]]] = {
    ("mnist", True): ("quick", ()),
    ("mnist", False): ("paper-mnist", ()),
    ("cifar10", True): ("paper-cifar10", ("rounds=3", "instances=1", "training.full_every=0")),
    ("cifar10", False): ("paper-cifar10", ()),
}


def mnist(
    words: opt.Words = None,
    quick: Quick = True,
    rounds: opt.Rounds = None,
    instances: opt.Instances = None,
    seed: opt.Seed = None,
    out: opt.OutFolder = Path("out/mnist"),
    stored: Stored = None,
    device: Device = None,
    precision: Precision = None,
    tolerance: Tolerance = None,
    lanes: Lanes = None,
    workers: opt.Workers = None,
    events: opt.Events = None,
    json: opt.AsJson = False,
) -> None:
    """Figures 3 to 5 on MNIST: training loss, test accuracy, one instance, targets reached."""
    how = _asked("mnist", quick, words, rounds, instances, seed, device, precision, tolerance, lanes)  # fmt: skip
    reproduce(how, out, stored, workers, events, json)


def cifar10(
    words: opt.Words = None,
    quick: Quick = True,
    rounds: opt.Rounds = None,
    instances: opt.Instances = None,
    seed: opt.Seed = None,
    out: opt.OutFolder = Path("out/cifar10"),
    stored: Stored = None,
    device: Device = None,
    precision: Precision = None,
    tolerance: Tolerance = None,
    lanes: Lanes = None,
    workers: opt.Workers = None,
    events: opt.Events = None,
    json: opt.AsJson = False,
) -> None:
    """Figures 3 to 5 on CIFAR-10 with VGG19; needs a GPU for more than a few rounds."""
    how = _asked("cifar10", quick, words, rounds, instances, seed, device, precision, tolerance, lanes)  # fmt: skip
    reproduce(how, out, stored, workers, events, json)


def train(
    words: opt.Words = None,
    task: Annotated[
        str | None, typer.Option("--task", help="mnist, cifar10 or synthetic.", show_default="mnist")
    ] = None,
    schedulers: opt.SchedulersText = None,
    rounds: opt.Rounds = None,
    instances: opt.Instances = None,
    seed: opt.Seed = None,
    aggregation: Annotated[
        str | None,
        typer.Option(
            "--aggregation",
            help="Aggregation rule, such as lee:beta=0.5 or sync.",
            show_default="lee",
        ),
    ] = None,
    skew: Annotated[
        float | None,
        typer.Option("--skew", help="Label skew: Dirichlet(alpha) per device; none: i.i.d."),
    ] = None,
    out: opt.OutFolder = Path("out/train"),
    device: Device = None,
    precision: Precision = None,
    tolerance: Tolerance = None,
    lanes: Lanes = None,
    workers: opt.Workers = None,
    engine: opt.EngineName = "local",
    address: opt.Address = None,
    events: opt.Events = None,
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
    """Train a task on the schedules of several schedulers: accuracy beside score, backlog and fairness."""
    defaults = {
        "name": "train", "task": {"dataset": "mnist"}, "rounds": 25, "instances": 2,
        "training": {"test_images": 2000}, "metric": "accuracy", "targets": [0.7, 0.75, 0.8, 0.85, 0.9, 0.95],
    }  # fmt: skip
    how = ask(
        words, defaults, schedulers=schedulers, rounds=rounds, instances=instances, seed=seed,
        task__dataset=task, task__partition=skew if skew is None else {"name": "dirichlet", "alpha": skew},
        task__aggregation=aggregation, training__device=device,
        training__precision=precision, training__tolerance=tolerance, training__lanes=lanes, devices=devices,
        slots=slots, gamma=gamma, fading=fading, success=success, arrivals=arrivals, settings=settings,
        imports=imports,
    )  # fmt: skip
    _check_task(how)
    results = run(how, out, workers=workers, engine=engine, address=address, events=events)
    show(results, out, json)


def reproduce(
    how: Experiment,
    out: Path,
    stored: Path | None,
    workers: int | None,
    events: str | None,
    json: bool,
) -> None:
    """Run a reproduction, or draw it again from what is stored."""
    check_folder(out)  # before data are fetched
    if stored is not None:
        show(stored_results(stored), out, json)
        return
    how = with_data(how)
    show(run(how, out, workers=workers, events=events), out, json)


def with_data(how: Experiment) -> Experiment:
    """The same experiment, on synthetic data if the real ones cannot be had, loudly."""
    if how.task is None:
        return how
    from fedwave.experiments.config.build import task_of
    from fedwave.experiments.config.parts import Part
    from fedwave.learning.data.dataset import NoData

    try:
        task_of(how.task)
        return how
    except NoData as error:
        wanted = str(how.task.dataset)
        print(f"fedwave: {error}", file=sys.stderr)
        print(
            f"fedwave: SYNTHETIC DATA is used instead of {wanted}, here and on every figure.",
            file=sys.stderr,
        )
        task = replace(how.task, dataset=Part("synthetic"), model=None, instead_of=wanted)
        return replace(how, task=task)


def _asked(
    dataset: str, quick: bool, words: list[str] | None, rounds: int | None, instances: int | None,
    seed: int | None, device: str | None, precision: str | None, tolerance: float | None, lanes: int | None,
) -> Experiment:  # fmt: skip
    preset, changes = _SIZES[dataset, quick]
    return ask(
        [preset, *changes, *(words or ())], {}, rounds=rounds, instances=instances, seed=seed,
        training__device=device, training__precision=precision, training__tolerance=tolerance,
        training__lanes=lanes,
    )  # fmt: skip


def _check_task(how: Experiment) -> None:
    from fedwave.errors import FedwaveError

    if how.task is None:
        raise FedwaveError(
            f"{how.name} has no task to train: add one (task.dataset=mnist), or use `fedwave compare`."
        )
