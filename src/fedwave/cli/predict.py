"""`fedwave predict`: the order of schedulers by expected accuracy, without training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.progress import rounds_bar
from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.analysis.prediction import COLUMNS, Prediction
from fedwave.experiments.analysis.prediction import predict as predicted
from fedwave.experiments.analysis.prediction_check import check_prediction
from fedwave.experiments.config import build
from fedwave.experiments.config.experiment import Experiment, TaskConfig
from fedwave.parts import registry
from fedwave.parts.user_code import import_parts
from fedwave.schedulers.base import Scheduler
from fedwave.simulation import simulate

_DEFAULTS = {"name": "predict", "rounds": 150, "instances": 10, "task": {"dataset": TaskConfig().dataset.name}}
_TRAINED = 20  # rounds that turn a ranking into accuracies


@opt.flat(_DEFAULTS)
def predict(
    *,
    asked: opt.AskedWithTask,
    words: opt.Words = None,
    train: Annotated[
        str | None, opt.option("--train SCHEDULER", f"Train it for {_TRAINED} rounds, to predict accuracies as well.")
    ] = None,
    check_folder: Annotated[
        Path | None, opt.folder_option("--check DIR", "Check the prediction against a trained run.")
    ] = None,
    out: Annotated[Path | None, opt.out("Folder for the table, with --check also a figure. Default: none.")] = None,
    printing: opt.Printing,
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
        _check(check_folder, out, printing)
        return
    how = opt.experiment_of(words, asked, _DEFAULTS)
    if how.sweep:
        raise FedwaveError(f"{how.name} varies {', '.join(how.sweep)}: drop it with sweep={{}}, and predict one point.")
    how = replace(how, task=how.task or TaskConfig())  # it names the rule; data are loaded only to train
    build.check_buildable(how)
    schedulers = build.schedulers_of(how)
    if train is not None and train not in schedulers:
        raise FedwaveError(f"--train is {train!r}, which does not run; {did_you_mean(train, schedulers)}")
    if seeing := [label for label, one in schedulers.items() if "learner" in one.needs]:
        raise FedwaveError(f"scheduler {seeing[0]!r} looks at the models, so it cannot be predicted: leave it out.")
    with output.writing(out, ("prediction.csv", "prediction.json")) as write:
        found = _predicted(how, schedulers, train, printing.quiet)
        rows = [dict(zip(COLUMNS, line, strict=True)) for line in found.lines()]
        content = {"rule": found.rule, "note": found.note(), "schedulers": rows}
        paths = write({"prediction.csv": (list(COLUMNS), found.lines()), "prediction.json": content})
    table = output.plain_table(*found.table(), "Schedulers, the best first", found.note())
    output.print_answer(printing, content, table, out, paths)


def _check(folder: Path, out: Path | None, printing: opt.Printing) -> None:
    """Print the prediction beside the accuracies of a trained run."""
    from fedwave.experiments.report.figures.prediction import prediction_figure

    found = check_prediction(folder)
    with output.writing(out, ("check.json", "check")) as write:
        paths = write({"check.json": found.to_json(), "check": prediction_figure(found)} if out else {})
    note = (
        "1: the predictor knows the order of the schedulers, 0: it knows nothing. Means over instances with 95 % "
        "intervals; accuracy is the mean of the last 5 rounds. A dash: all learnt the same."
    )
    table = output.plain_table(*found.table(), f"{found.name}: does the order hold?", note)
    output.print_answer(printing, found.to_json(), table, out, paths)


def _predicted(how: Experiment, schedulers: Mapping[str, Scheduler], train: str | None, quiet: bool) -> Prediction:
    assert how.task is not None
    network, instances = build.network_of(how.network), list(how.instance_numbers)
    labels, traces = build.class_labels_of(how, schedulers.values()), {}
    play = partial(simulate, network, instances=instances, seed=how.seed, labels=labels)
    for label, scheduler in schedulers.items():
        with rounds_bar(label, how.rounds, quiet=quiet) as meter:
            traces[label] = play(scheduler, how.rounds, meter=meter)
    rule = registry.build("aggregation", how.task.aggregation)
    found = predicted(traces, rule, labels=build.class_mix_of(how.task))
    if train is None:
        return found
    from fedwave.learning.train import train as trained

    rounds = min(_TRAINED, how.rounds)
    settings, sizes = build.settings_of(how.training)
    with rounds_bar(f"training {train}", rounds, quiet=quiet) as meter:
        short = {train: play(schedulers[train], rounds)}
        curves = trained(short, build.task_of(how.task), sizes=sizes, meter=meter, **vars(settings))
    return found.calibrated(curves[train])
