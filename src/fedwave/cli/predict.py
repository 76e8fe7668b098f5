"""`fedwave predict`: the order of schedulers by expected accuracy, without training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.progress import rounds_bar
from fedwave.cli.request import experiment_of
from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.analysis.prediction import COLUMNS, Prediction
from fedwave.experiments.analysis.prediction import predict as predicted
from fedwave.experiments.analysis.prediction_check import check_prediction
from fedwave.experiments.config.build import (
    check,
    class_mix_of,
    labels_of,
    network_of,
    schedulers_of,
    settings_of,
    task_of,
)
from fedwave.experiments.config.experiment import Experiment, TaskConfig
from fedwave.files.writing import write_csv, write_json
from fedwave.parts import registry
from fedwave.parts.user_code import import_parts
from fedwave.simulation import simulate

_DEFAULTS = {"name": "predict", "rounds": 150, "instances": 10, "task": {"dataset": TaskConfig().dataset.name}}
_TRAINED = 20  # rounds that turn a ranking into accuracies


@opt.flat(_DEFAULTS)
def predict(
    asked: opt.AskedWithTask,
    words: opt.Words = None,
    train: Annotated[
        str | None,
        typer.Option(
            "--train", metavar="SCHEDULER", help=f"Train it for {_TRAINED} rounds, to predict accuracies as well."
        ),
    ] = None,
    check_folder: Annotated[
        Path | None,
        typer.Option("--check", parser=opt.folder, metavar="DIR", help="Check the prediction against a trained run."),
    ] = None,
    out: Annotated[Path | None, opt.out("Folder for table and figure. Default: none.")] = None,
    json: opt.AsJson = False,
) -> None:
    """Rank schedulers by the accuracy that their schedules lead to, without training.

    Ranked by the useful mass: the amount of local training that reaches the central model, counted up to the largest
    step that still helps. Defaults are those of a network alone; a file or preset has its own.
    """
    if check_folder is not None:
        options = {**vars(asked), "imports": None, "train": train}
        given = [*(words or ()), *(f"--{name}" for name, value in options.items() if value not in (None, []))]
        if given:
            raise FedwaveError(f"--check takes the experiment from {check_folder}: leave out {given[0]}.")
        for source in asked.imports or ():
            import_parts(source)
        _check(check_folder, out, json)
        return
    how = _with_task(experiment_of(words, asked, _DEFAULTS))
    if train is not None and train not in how.labels:
        raise FedwaveError(f"--train is {train!r}, which does not run; {did_you_mean(train, how.labels)}")
    with output.own_files(out, {"prediction.csv", "prediction.json"}):
        found = _predicted(how, train)
        rows = [dict(zip(COLUMNS, line, strict=True)) for line in found.lines()]
        content = {"rule": found.rule, "note": found.note(), "schedulers": rows}
        if out is not None:
            write_csv(out / "prediction.csv", list(COLUMNS), found.lines())
            write_json(out / "prediction.json", content)
    _show("Schedulers, the best first", found.table(), found.note(), content if json else None, out)


def _check(folder: Path, out: Path | None, json: bool) -> None:
    """The prediction beside what a run has learnt."""
    found = check_prediction(folder)
    with output.own_files(out, {"check.json", "check.png", "check.svg"}):
        if out is not None:
            from fedwave.experiments.report.figures.common import save_figure
            from fedwave.experiments.report.figures.prediction import prediction_figure

            write_json(out / "check.json", found.to_json())
            save_figure(prediction_figure(found), out / "check")
    note = (
        "1: the predictor knows the order of the schedulers, 0: it knows nothing. Means over instances with 95 % "
        "intervals; accuracy is the mean of the last 5 rounds. A dash: all learnt the same."
    )
    _show(f"{found.name}: does the order hold?", found.table(), note, found.to_json() if json else None, out)


def _show(title: str, lines: tuple[list[str], list[list[str]]], note: str, content: Any, out: Path | None) -> None:
    """The table, or ``content`` as JSON."""
    if content is not None:
        output.print_json(content)
        return
    table = output.plain_rows(*lines, title)
    table.caption = note
    output.print_wide(table)
    if out is not None:
        output.print_out(f"Written to {out}")


def _with_task(how: Experiment) -> Experiment:
    """The experiment with a task, which names the rule; nothing of it is loaded unless it is trained."""
    if how.sweep:
        raise FedwaveError(f"{how.name} varies {', '.join(how.sweep)}: drop it with sweep={{}}, and predict one point.")
    how = how if how.task is not None else replace(how, task=TaskConfig())
    check(how)
    return how


def _predicted(how: Experiment, train: str | None) -> Prediction:
    assert how.task is not None
    network, traces, schedulers = network_of(how.network), {}, schedulers_of(how)
    labels, ids = labels_of(how, schedulers.values()), list(how.instance_numbers)
    for label, scheduler in schedulers.items():
        if "learner" in scheduler.needs:
            raise FedwaveError(
                f"scheduler {label!r} looks at the models, so its schedule is not known before they are trained: "
                "leave it out."
            )
        with rounds_bar(label, how.rounds) as meter:
            traces[label] = simulate(network, scheduler, how.rounds, ids, how.seed, meter=meter, labels=labels)
    rule = registry.build("aggregation", how.task.aggregation)
    found = predicted(traces, rule, labels=class_mix_of(how.task))
    if train is None:
        return found
    from fedwave.learning.train import train as trained

    rounds = min(_TRAINED, how.rounds)
    short = simulate(network, schedulers[train], rounds, ids, how.seed, labels=labels)
    settings, sizes = settings_of(how.training)
    with rounds_bar(f"training {train}", rounds) as meter:
        curves = trained({train: short}, task_of(how.task), sizes=sizes, meter=meter, **vars(settings))
    return found.calibrated(curves[train])
