"""`fedwave reproduce ...`: the paper's figures, reproduced, or redrawn from stored results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.progress import steps
from fedwave.cli.run import execute, execute_and_show
from fedwave.cli.terminal import print_error
from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.store.folder import check_is_folder
from fedwave.experiments.store.lock import make_run_folder

# The paper's experiment, and one of minutes.
_EXPERIMENTS = {
    "score": (["paper-score"], ["paper-score", "rounds=200", "instances=10"]),
    "mnist": (["paper-mnist"], ["quick"]),
    "cifar10": (["paper-cifar10"], ["paper-cifar10", "rounds=3", "instances=1", "training.full_every=0"]),
    "theory": (["paper-backlogs"], ["paper-backlogs", "instances=50"]),
}
_PAGE = ("section-v.png", "section-v.pdf")


@opt.flat()
def reproduce(
    *,
    name: Annotated[
        str | None, opt.argument("score|mnist|cifar10|theory", "What to reproduce; with --from by default all.")
    ] = None,
    words: Annotated[list[str] | None, opt.argument("KEY=VALUE", "Any field, such as training.device=cuda.")] = None,
    quick: Annotated[
        bool | None,
        typer.Option(
            "--quick/--full", help="Minutes on a laptop, or the paper's size.", show_default="quick; score: full"
        ),
    ] = None,
    out: Annotated[Path | None, opt.out("Folder for figures and data. Default: out/NAME, or out/published.")] = None,
    stored: Annotated[
        Path | None,
        opt.option(
            "--from DIR", "Draw the figures of a run folder or of compact exports (docs/results); nothing is run."
        ),
    ] = None,
    execution: opt.Local,
) -> None:
    """Reproduce the paper's figures, with confidence bands.

    score: score and backlog of all schedulers (Fig. 2). mnist, cifar10: loss, accuracy and targets reached
    (Figs. 3 to 5). theory: the bound and the schedulers' distance to it, greedy's gap to the optimum, decision times,
    regret, Theorem 1.

    --from a folder of compact exports (`fedwave report --compact`): the figures of all of them, and those of the
    paper's section V on one page.
    """
    if name is None and stored is None:
        raise FedwaveError(
            f"Missing argument: name what to reproduce ({', '.join(_EXPERIMENTS)}), or a folder to draw from (--from)."
        )
    if name is not None and name not in _EXPERIMENTS:
        raise FedwaveError(f"there is no {name!r} to reproduce; {did_you_mean(name, _EXPERIMENTS)}")
    if stored is not None:
        sizes = ([] if quick is None else ["--quick" if quick else "--full"]) + list(words or ())
        if sizes:
            raise FedwaveError(f"{sizes[0]} does not go with --from, which draws what was run: leave one of them out.")
        _draw_stored(name, stored, out or Path("out", name or "published"), execution)
        return
    assert name is not None
    if quick is None:
        quick = name != "score"
    how = opt.experiment_of([*_EXPERIMENTS[name][quick], *(words or ())])
    folder = Path("out", name) if out is None else out
    if name == "theory":
        _theory(how, folder, execution, quick)
    else:
        make_run_folder(folder)  # before data are downloaded
        execute_and_show(_with_data(how), folder, execution)


def _draw_stored(name: str | None, stored: Path, out: Path, printing: opt.Printing) -> None:
    """Draws one result; of several results, each in a folder of its own, and the page."""
    from fedwave.paper.compact import compact_in, is_compact, read_compact
    from fedwave.paper.section_v import on_page, section_figure

    if name == "theory":
        raise FedwaveError("--from does not go with theory, whose figures are always computed.")
    check_is_folder(stored)
    several = not is_compact(stored) and name is None
    place = stored / name if name is not None and is_compact(stored / name) else stored
    found = [read_compact(folder) for folder in (compact_in(stored) if several else [place])]
    if not found:
        raise FedwaveError(f"{stored} holds no results to draw: name a finished run, or a folder of compact exports.")
    kind = found[0].kind
    if name is not None and name != kind and kind in _EXPERIMENTS:
        raise FedwaveError(f"{place} holds {kind}, not {name}: `fedwave reproduce {kind} --from {place}`.")
    kinds = on_page(found) if several else {}
    paths: list[Path] = []
    with steps(printing.quiet) as message:
        for one in found:
            message(one.name)
            paths += _write(out / one.name if several else out, one.figures())
        if kinds:
            message("section V")
            paths += _write(out, dict.fromkeys(_PAGE, section_figure(found)))
    for kind, (shown, *others) in kinds.items():
        for one in others:
            print_error(f"{_PAGE[0]} shows {shown.name}, not {one.name}: one result of {kind} fits.")
    about = {one.name: {"title": one.title, "fedwave": one.fedwave, "schedulers": one.schedulers} for one in found}
    rows = [[one.name, one.title, one.fedwave] for one in found]
    table = output.plain_table(["result", "what was run", "fedwave"], rows, str(stored))
    output.print_answer(printing, {"files": list(map(str, paths)), "results": about}, table, out, paths)


def _write(folder: Path, figures: Mapping[str, Any]) -> list[Path]:
    with output.writing(folder, figures) as write:
        return write(figures)


def _theory(how: Experiment, folder: Path, execution: opt.Local, quick: bool) -> None:
    from fedwave.experiments.analysis.captions import title
    from fedwave.experiments.config.build import network_of
    from fedwave.paper import reproduce_theory as theory

    runs = folder / "backlogs"
    with (
        output.writing(folder, {*theory.FILES, "backlogs/"}) as write,
        execute(how, runs, execution, go_on="the same command") as results,
        steps(execution.quiet) as message,
    ):
        data = results.only.data
        message("the bound")
        table, files = theory.backlogs(data, network_of(how.network), how.base, how.burn_in)
        paths = write(files)
        for part, make in theory.PARTS.items():
            message(part)
            paths += write(make(quick))
    content = {"files": list(map(str, paths)), "backlogs": files["backlogs.json"]["schedulers"]}
    lines = output.plain_table(*table, f"Long-run backlogs: {title(data)}")
    output.print_answer(execution, content, lines, folder, paths)


def _with_data(how: Experiment) -> Experiment:
    """The experiment, on synthetic data if the real data are unavailable; prints that."""
    from fedwave.experiments.config.build import task_of
    from fedwave.experiments.config.parts import Part
    from fedwave.learning.datasets.original_files import NoData

    if how.task is None:
        return how
    try:
        task_of(how.task)
        return how
    except NoData as error:
        wanted = str(how.task.dataset)
        print_error(str(error))
        print_error(f"SYNTHETIC DATA is used instead of {wanted}, here and on every figure.")
        return replace(how, task=replace(how.task, dataset=Part("synthetic"), model=None, instead_of=wanted))
