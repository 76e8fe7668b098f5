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
from fedwave.errors import FedwaveError, as_int, did_you_mean
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

_DEFAULTS = {"name": "predict", "rounds": 150, "instances": 10}


@opt.flat(_DEFAULTS)
def predict(
    choice: opt.Choice,
    size: opt.Size,
    training: opt.Training,
    radio: opt.Radio,
    words: opt.Words = None,
    aggregation: Annotated[
        str | None,
        typer.Option(
            "--aggregation", help="Aggregation rule, such as constant:beta=1.", show_default="the task's, or lee"
        ),
    ] = None,
    train: Annotated[
        str | None, typer.Option("--train", help="Train this scheduler for some rounds, to predict accuracies.")
    ] = None,
    train_rounds: Annotated[int, typer.Option("--train-rounds", help="Rounds of that training.")] = 20,
    task: Annotated[
        str | None, typer.Option("--task", help="Dataset of that training.", show_default="the experiment's, or mnist")
    ] = None,
    check_folder: Annotated[
        Path | None,
        typer.Option(
            "--check", parser=opt.named, metavar="DIR", help="Compare the prediction with a finished, trained run."
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure", parser=opt.named, metavar="PATH", help="With --check: accuracy against mass (.png, .svg, .pdf)."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", parser=opt.named, metavar="PATH", help="Table (.csv, .json).")
    ] = None,
    json: opt.AsJson = False,
) -> None:
    """Rank schedulers by the accuracy that their schedules lead to, without training.

    Ranked by the useful mass: the shards' worth of local steps that reach the central model, as far as they are of
    use. Training one scheduler for a few rounds (--train) turns it into accuracies.
    """
    if check_folder is not None:
        own = {"task": task, "aggregation": aggregation, "train": train}
        groups = [vars(group) for group in (choice, size, training, radio)]
        asked = [name for part in (*groups, own) for name in opt.given(part) if name != "imports"]
        if asked:
            raise FedwaveError(f"--check takes the experiment from {check_folder}: leave out {opt.spelled(asked[0])}.")
        for source in choice.imports or ():
            import_parts(source)
        _check(check_folder, words, out, figure, json)
        return
    if figure is not None:
        raise FedwaveError("--figure goes with --check DIR: it shows what was trained.")
    opt.check_out(out, ".csv", ".json")
    more = {"task.dataset": task, "task.aggregation": aggregation}
    how = _with_task(experiment_of(words, [choice, size, training, radio], _DEFAULTS, more))
    labels = list(how.labels)
    if train is not None and train not in labels:
        raise FedwaveError(f"--train is {train!r}, which does not run; {did_you_mean(train, labels)}")
    shown = _predicted(how, train, as_int("--train-rounds", train_rounds, 1))
    if out is not None:
        _write(out, shown)
    if json:
        output.print_json(_content(shown))
        return
    table = output.plain_rows(*shown.table(), "Schedulers, the best first")
    table.caption = shown.note()
    output.print_wide(table)
    if out is not None:
        output.print_out(f"Table written to {out}")


def _check(folder: Path, words: list[str] | None, out: Path | None, figure: Path | None, json: bool) -> None:
    """The prediction beside what a run has learnt."""
    from fedwave.experiments.report.figures.common import ENDINGS, write_figure

    if words:
        raise FedwaveError(f"--check takes the experiment from {folder}: leave out {words[0]!r}.")
    opt.check_out(out, ".json")
    opt.check_out(figure, *ENDINGS, name="--figure")
    found = check_prediction(folder)
    if out is not None:
        write_json(out, found.to_json())
    if figure is not None:
        from fedwave.experiments.report.figures.prediction import prediction_figure

        write_figure(prediction_figure(found), figure)
    if json:
        output.print_json(found.to_json())
        return
    table = output.plain_rows(*found.table(), f"{found.name}: does the order hold?")
    table.caption = (
        "1: the order of the schedulers is known, 0: nothing is. Means over instances with 95 % intervals; "
        "accuracy is the mean of the last 5 rounds. A dash: all learnt the same."
    )
    output.print_wide(table)


def _with_task(how: Experiment) -> Experiment:
    """The experiment with a task, which names the rule; nothing of it is loaded unless it is trained."""
    if how.sweep:
        raise FedwaveError(f"{how.name} varies {', '.join(how.sweep)}: drop it with sweep={{}}, and predict one point.")
    how = how if how.task is not None else replace(how, task=TaskConfig())
    check(how)
    return how


def _predicted(how: Experiment, train: str | None, train_rounds: int) -> Prediction:
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

    rounds = min(train_rounds, how.rounds)
    short = simulate(network, schedulers[train], rounds, ids, how.seed, labels=labels)
    settings, sizes = settings_of(how.training)
    with rounds_bar(f"training {train}", rounds) as meter:
        curves = trained({train: short}, task_of(how.task), sizes=sizes, meter=meter, **vars(settings))
    return found.calibrated(curves[train])


def _content(found: Prediction) -> dict[str, Any]:
    rows = [dict(zip(COLUMNS, line, strict=True)) for line in found.lines()]
    return {"rule": found.rule, "note": found.note(), "schedulers": rows}


def _write(out: Path, found: Prediction) -> None:
    if out.suffix == ".json":
        write_json(out, _content(found))
    else:
        write_csv(out, list(COLUMNS), found.lines())
