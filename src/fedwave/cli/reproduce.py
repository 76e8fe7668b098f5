"""`fedwave reproduce ...`: the paper's figures, made again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.progress import steps
from fedwave.cli.published import draw_published
from fedwave.cli.report import show_again
from fedwave.cli.request import experiment_of
from fedwave.cli.run import execute, execute_and_show, stopping
from fedwave.cli.terminal import print_error
from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.report.learning import dataset_of
from fedwave.experiments.report.published import published_in
from fedwave.experiments.store.folder import RunFolder, check_is_folder, is_published
from fedwave.experiments.store.lock import check_place, locked
from fedwave.experiments.store.own_files import CONFIG, RUN_FILES, output_files
from fedwave.files.reading import is_there

# The paper's experiment, the quick one, and what the quick one changes.
_EXPERIMENTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "score": ("paper-score", "paper-score", ("rounds=200", "instances=10")),
    "mnist": ("paper-mnist", "quick", ()),
    "cifar10": ("paper-cifar10", "paper-cifar10", ("rounds=3", "instances=1", "training.full_every=0")),
    "theory": ("paper-backlogs", "paper-backlogs", ("instances=50",)),
}


@opt.flat()
def reproduce(
    execution: opt.Local,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[score|mnist|cifar10|theory]",
            help="What to make again; with --from by default all.",
            show_default=False,
        ),
    ] = None,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Any field, such as network.slots=10.")
    ] = None,
    quick: Annotated[
        bool | None,
        typer.Option(
            "--quick/--full", help="A size for a laptop in minutes, or the paper's.", show_default="quick; score: full"
        ),
    ] = None,
    out: Annotated[Path | None, opt.out("Folder for figures and data. Default: out/NAME, or out/published.")] = None,
    stored: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Draw again from a run folder or published results (docs/results); nothing is run."
        ),
    ] = None,
    json: opt.AsJson = False,
) -> None:
    """Reproduce the paper's figures, with confidence bands.

    score: score and backlog of all schedulers (Fig. 2). mnist, cifar10: loss, accuracy and targets reached
    (Figs. 3 to 5). theory: the bound and the schedulers' distance to it, greedy's gap to the optimum, decision times,
    regret, Theorem 1.

    --from a folder of published results (`fedwave publish`): the figures of all of them, and those of the paper's
    section V on one page.
    """
    if name is None and stored is None:
        raise FedwaveError(
            f"Missing argument: name what to make again ({', '.join(_EXPERIMENTS)}), or a folder to draw from (--from)."
        )
    if name is not None and name not in _EXPERIMENTS:
        raise FedwaveError(f"there is no {name!r} to reproduce; {did_you_mean(name, _EXPERIMENTS)}")
    if stored is not None:
        _refuse_sizes(words, quick)
        _draw_again(name, stored, out, json)
        return
    assert name is not None
    if quick is None:
        quick = name != "score"
    full, small, changes = _EXPERIMENTS[name]
    preset = [small, *changes] if quick else [full]
    how = experiment_of([*preset, *(words or ())])
    folder = Path("out", name) if out is None else out
    if name == "theory":
        _theory(how, folder, execution, quick, json)
    else:
        check_place(folder, RUN_FILES | output_files(how))  # before data are downloaded
        execute_and_show(_with_data(how), folder, execution, json)


def _refuse_sizes(words: Sequence[str] | None, quick: bool | None) -> None:
    """What was run cannot be changed by drawing it."""
    asked = ([] if quick is None else ["--quick" if quick else "--full"]) + list(words or ())
    if asked:
        raise FedwaveError(f"{asked[0]} does not go with --from, which draws what was run: leave one of them out.")


def _draw_again(name: str | None, stored: Path, out: Path | None, json: bool) -> None:
    """The figures of a run, of a published result or of several, which are those of ``name`` if that is given."""
    if name == "theory":
        raise FedwaveError("--from does not go with theory, whose figures are computed anew.")
    if name is None:
        draw_published(stored, out, json)
        return
    folder = Path("out", name) if out is None else out
    check_is_folder(stored)
    check = partial(_check_is, name)
    for place in (stored, stored / name):
        if is_published(place):
            draw_published(place, folder, json, check)
            return
    others = [one.name for one in published_in(stored)]
    if others and not is_there(stored / CONFIG):
        raise FedwaveError(f"{stored} has no published result {name!r}; it has {', '.join(others)}.")
    check(RunFolder(stored).stored(), stored)
    show_again(stored, json, out=folder)


def _check_is(name: str, how: Experiment, folder: Path) -> None:
    """Refuse what another name stands for: scores, or another of the two datasets."""
    found = "score" if how.task is None else dataset_of(how)
    if found != name and found in _EXPERIMENTS:
        raise FedwaveError(f"{folder} holds {found}, not {name}: `fedwave reproduce {found} --from {folder}`.")


def _theory(how: Experiment, folder: Path, execution: opt.Local, quick: bool, json: bool) -> None:
    from fedwave.experiments.analysis.labels import title
    from fedwave.experiments.report.theory import FILES, backlog_lines, write_theory

    backlogs = folder / "backlogs"
    with (
        stopping(backlogs, go_on="the same command") as stop,
        locked(folder, FILES),
        execute(how, backlogs, execution, stop) as results,
        steps() as message,
    ):
        rows, paths = write_theory(results, folder, quick, message)
    if json:
        found = {row.label: {**vars(row.backlog), "gap": row.gap} for row in rows}
        output.print_json({"files": [str(path) for path in paths], "backlogs": found})
        return
    heads = f"Long-run backlogs: {title(results.only.data)}"
    output.print_table(output.plain_rows(*backlog_lines(rows), heads), folder, paths)


def _with_data(how: Experiment) -> Experiment:
    """The same experiment, on synthetic data if the real data are unavailable; a message says so."""
    if how.task is None:
        return how
    from fedwave.experiments.config.build import task_of
    from fedwave.experiments.config.parts import Part
    from fedwave.learning.datasets.original_files import NoData

    try:
        task_of(how.task)
        return how
    except NoData as error:
        wanted = str(how.task.dataset)
        print_error(str(error))
        print_error(f"SYNTHETIC DATA is used instead of {wanted}, here and on every figure.")
        task = replace(how.task, dataset=Part("synthetic"), model=None, instead_of=wanted)
        return replace(how, task=task)
