"""`fedwave reproduce ...`: the paper's figures, made again."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.progress import steps
from fedwave.cli.request import experiment_of
from fedwave.cli.run import execute
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.run.runner import stored_results
from fedwave.files import check_folder

app = typer.Typer(
    no_args_is_help=True, help="Make the paper's figures again, with confidence bands."
)
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
# The preset of each reproduction, and what its quick size changes.
_PRESETS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "score": ("paper-score", "paper-score", ("rounds=200", "instances=10")),
    "mnist": ("paper-mnist", "quick", ()),
    "cifar10": (
        "paper-cifar10", "paper-cifar10", ("rounds=3", "instances=1", "training.full_every=0"),
    ),
    "theory": ("paper-backlogs", "paper-backlogs", ("instances=50",)),
}  # fmt: skip


@app.command()
@opt.flat
def score(
    size: opt.Size,
    execution: opt.Execution,
    words: opt.Words = None,
    quick: Quick = False,
    out: opt.OutFolder = Path("out/score"),
    stored: Stored = None,
    json: opt.AsJson = False,
) -> None:
    """Figure 2: the score and backlog of all schedulers on the paper's network."""
    how = _experiment("score", quick, words, [size])
    _reproduce(how, out, stored, execution, json)


@app.command()
@opt.flat
def mnist(
    size: opt.Size,
    training: opt.Training,
    execution: opt.Execution,
    words: opt.Words = None,
    quick: Quick = True,
    out: opt.OutFolder = Path("out/mnist"),
    stored: Stored = None,
    json: opt.AsJson = False,
) -> None:
    """Figures 3 to 5 on MNIST: training loss, test accuracy, one instance, targets reached."""
    how = _experiment("mnist", quick, words, [size, training])
    _reproduce(how, out, stored, execution, json)


@app.command()
@opt.flat
def cifar10(
    size: opt.Size,
    training: opt.Training,
    execution: opt.Execution,
    words: opt.Words = None,
    quick: Quick = True,
    out: opt.OutFolder = Path("out/cifar10"),
    stored: Stored = None,
    json: opt.AsJson = False,
) -> None:
    """Figures 3 to 5 on CIFAR-10 with VGG19; needs a GPU for more than a few rounds."""
    how = _experiment("cifar10", quick, words, [size, training])
    _reproduce(how, out, stored, execution, json)


@app.command()
@opt.flat
def theory(
    size: opt.Size,
    execution: opt.Execution,
    words: opt.Words = None,
    quick: Quick = True,
    out: opt.OutFolder = Path("out/theory"),
    json: opt.AsJson = False,
) -> None:
    """The bound and the schedulers' distance to it, greedy's gap to the optimum, decision times, regret, Theorem 1."""
    from fedwave.experiments.report.theory import backlog_lines, write_theory

    how = _experiment("theory", quick, words, [size])
    check_folder(out)
    results = execute(how, out / "backlogs", execution)
    with steps() as message:
        rows, paths = write_theory(results, out, quick, message)
    if json:
        backlogs = {row.label: {**vars(row.backlog), "gap": row.gap} for row in rows}
        output.print_json({"files": [str(path) for path in paths], "backlogs": backlogs})
        return
    output.console().print(output.plain_rows(*backlog_lines(rows), output.heading(how)))
    output.say(f"Figures and data are in {out}: {', '.join(p.name for p in paths)}")


def _experiment(
    name: str, quick: bool, words: list[str] | None, groups: list[opt.Group]
) -> Experiment:
    full, small, changes = _PRESETS[name]
    preset = [small, *changes] if quick else [full]
    return experiment_of([*preset, *(words or ())], groups)


def _reproduce(
    how: Experiment, out: Path, stored: Path | None, execution: opt.Execution, json: bool
) -> None:
    """Run a reproduction, or draw it again from what is stored."""
    check_folder(out)  # before data are downloaded
    results = (
        stored_results(stored) if stored is not None else execute(_with_data(how), out, execution)
    )
    output.show(results, out, json)


def _with_data(how: Experiment) -> Experiment:
    """The same experiment, on synthetic data if the real data are unavailable; a message says so."""
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
