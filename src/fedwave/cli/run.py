"""`fedwave run`, `train`, `compare` and `resume`: experiments that are run, into a run folder or for a table."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.folders import show_again
from fedwave.cli.progress import run_bar
from fedwave.cli.terminal import print_error
from fedwave.errors import FedwaveError, WorkFailed
from fedwave.experiments.analysis.captions import sentences
from fedwave.experiments.config.build import check_buildable, network_of, schedulers_of
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.report.comparison import MOST_INSTANCES, rule_remark, with_more_instances
from fedwave.experiments.report.outputs import output_files
from fedwave.experiments.report.summary import comparison_of, summary
from fedwave.experiments.run.runner import running
from fedwave.experiments.run.signals import StopRequest, Terminated
from fedwave.experiments.store.dataset import Point, Results
from fedwave.experiments.store.folder import RunFolder, check_is_folder
from fedwave.experiments.store.inputs import resume_command
from fedwave.experiments.store.lock import check_own_file
from fedwave.memory import memory_error
from fedwave.metrics import metric_names

if TYPE_CHECKING:
    import xarray as xr

TRAIN = {
    "name": "train",
    "task": {"dataset": "mnist"},
    "rounds": 25,
    "instances": 2,
    "training": {"test_images": 2000},
    "metric": "accuracy",
    "targets": [0.7, 0.75, 0.8, 0.85, 0.9, 0.95],
}
_TRAINED = Path("out/train")


@opt.flat()
def run(
    *,
    asked: opt.AskedWithTask,
    words: opt.Words = None,
    out: Annotated[Path | None, opt.out("Run folder. Default: out/NAME of the experiment.")] = None,
    execution: opt.Execution,
) -> None:
    """Run an experiment into a folder, with figures and tables.

    It is simulated, trained if it has a task, and swept: sweep.network.slots=[2,5,10]. The same command again resumes a
    stopped run. Defaults are those of a network alone; a file or preset has its own.
    """
    how = opt.experiment_of(words, asked)
    # Without characters that a folder's name must not contain, so that it stays in out/.
    plain = re.sub(r"[^\w.\u0080-\U0010ffff-]+|[\s/]+", "-", how.name).strip(".-")
    execute_and_show(how, Path("out", plain or "experiment") if out is None else out, execution)


@opt.flat(TRAIN)
def train(
    *,
    asked: opt.AskedWithTask,
    words: opt.Words = None,
    out: Annotated[Path, opt.out(f"Run folder. Default: {_TRAINED}.")] = _TRAINED,
    execution: opt.Local,
) -> None:
    """Train a task on the schedules of several schedulers.

    The same as `fedwave run`, with small defaults for a first look. They are those of a network alone; a file or preset
    has its own.
    """
    how = opt.experiment_of(words, asked, TRAIN)
    if how.task is None:
        raise FedwaveError(f"{how.name} has no task to train: add one (--task mnist), or use `fedwave compare`.")
    execute_and_show(how, out, execution)


@opt.flat()
def compare(
    *,
    asked: opt.AskedWithBurnIn,
    words: opt.Words = None,
    out: Annotated[Path | None, opt.out("Run folder, with figures and data. Default: none.")] = None,
    half_width: Annotated[
        float | None,
        opt.option(
            "--half-width H", f"Add instances until differences are known to ±H; at most {MOST_INSTANCES:,} in all."
        ),
    ] = None,
    execution: opt.Local,
) -> None:
    """Compare schedulers on the same worlds, without training.

    Prints means with 95 % intervals, the bound, paired differences and a verdict. Some fields: metric=jain against=age.
    Defaults are those of a network alone; a file or preset has its own.
    """
    how = _without_task(opt.experiment_of(words, asked, defaults={}), words)
    remark = rule_remark(schedulers_of(how))
    compared = partial(comparison_of, network=network_of(how.network), remark=remark)
    if out is not None:
        if half_width is not None:
            raise FedwaveError(
                "--half-width and --out cannot be given together: find the number of instances first, then run it with "
                "--instances N --out DIR."
            )
        execute_and_show(how, out, execution, compared)
        return
    with execute(how, None, execution) as results:
        pass
    if half_width is not None:
        data, said = with_more_instances(
            results.only.data,
            lambda first, count: _lot(how, first, count, execution),
            lambda data: compared(replace(results.only, data=data)),
            half_width,
        )
        how = replace(results.experiment, instances=data.sizes["instance"])
        results = Results(how, [Point({}, how, data)])
        compared = partial(compared, remark=sentences(said, remark))
    if execution.json:
        output.print_json(summary(results, compared))
    elif not execution.quiet:
        output.print_tables(output.result_tables(results, compared))


def _lot(how: Experiment, first: int, count: int, execution: opt.Local) -> xr.Dataset:
    """Further instances of an experiment."""
    with execute(replace(how, first_instance=first, instances=count), None, execution) as results:
        return results.only.data


@opt.flat()
def resume(*, folder: opt.RunFolderPath, imports: opt.Imports = None, execution: opt.Execution) -> None:
    """Resume a run that was stopped.

    Finished units are kept, others continue from their checkpoints. For a finished run, the tables and figures are
    written again, as by `fedwave report`.
    """
    check_is_folder(folder)
    store = RunFolder(folder)
    store.check_begun()
    if store.is_finished():
        show_again(folder, execution)
    else:
        execute_and_show(store.experiment(imports or ()), folder, execution)


def execute_and_show(
    experiment: Experiment, folder: Path, execution: opt.Local, compared: output.Compared = comparison_of
) -> None:
    """Run it into a folder, write its figures and tables, and print the table."""
    with execute(experiment, folder, execution) as results:
        output.show(results, folder, execution, compared)


@contextmanager
def execute(
    experiment: Experiment, folder: Path | None, execution: opt.Local, go_on: str | None = None
) -> Iterator[Results]:
    """Run it with a progress bar on the terminal; its folder stays locked until the end of the block.

    Ctrl-C, SIGTERM, SIGHUP or too little memory within the block ends in one line that names the command that
    continues (``go_on``; by default `fedwave resume`).
    """
    how = execution if isinstance(execution, opt.Execution) else opt.Execution(**vars(execution))
    if go_on is None and folder is not None:
        go_on = f"`{resume_command(folder, experiment.imports)}`"

    def is_kept() -> bool:
        return folder is not None and RunFolder(folder).exists()

    def last_words() -> str:
        return f"stopped; {f'{go_on} continues from here' if is_kept() else 'nothing was kept'}."

    try:
        asked: dict[str, Any] = {"workers": how.workers, "timeout": how.timeout, "stop": StopRequest(last_words)}
        if how.ray is not None:
            from fedwave.adapters.ray import ray_engine

            asked["engine"] = ray_engine(how.ray or None, how.workers)
        if folder is not None and how.events is not None:
            check_own_file(how.events, folder, output_files(experiment))
        with ExitStack() as held:
            with run_bar(experiment.name, quiet=how.quiet, events=how.events) as watch:
                results = held.enter_context(running(experiment, folder, watch=watch, **asked))
            yield results
    except (KeyboardInterrupt, Terminated) as stopped:
        print_error(last_words())
        status = 128 + signal.SIGINT if isinstance(stopped, KeyboardInterrupt) else stopped.code
        raise SystemExit(status) from None
    except MemoryError as error:  # not foreseen by any estimate
        if not is_kept():
            raise
        raise WorkFailed(
            f"there is too little memory ({memory_error(error)}); finished units are kept: {go_on} continues, with "
            "fewer --workers or where there is more memory."
        ) from None


def _without_task(how: Experiment, words: list[str] | None) -> Experiment:
    """The experiment without its task. The default replaces a metric of training that was not asked for."""
    if how.sweep:
        raise FedwaveError(f"{how.name} varies {', '.join(how.sweep)}: use `fedwave run`, or drop it with sweep={{}}.")
    learnt = set(metric_names(training=True)) - set(metric_names())
    asked = any(word.startswith("metric=") for word in words or ())
    if how.task is not None and not asked and how.metric in learnt:
        how = replace(how, metric="backlog")
    how = replace(how, task=None)
    check_buildable(how)
    return how
