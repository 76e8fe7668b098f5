"""`fedwave run`, `train` and `resume`: experiments that end in a run folder."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.progress import watching
from fedwave.cli.report import show_again
from fedwave.cli.request import experiment_of, folder_of
from fedwave.cli.terminal import print_error
from fedwave.errors import FedwaveError, as_int, did_you_mean
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.run.runner import Engine, running
from fedwave.experiments.run.signals import StopRequest, Terminated, checked_timeout
from fedwave.experiments.store.dataset import Results
from fedwave.experiments.store.folder import RunFolder, check_is_folder
from fedwave.experiments.store.lock import check_own_file, check_run_place
from fedwave.experiments.store.output_names import output_files
from fedwave.experiments.store.trusted_code import resume_command
from fedwave.memory import memory_error

_TARGETS = [0.7, 0.75, 0.8, 0.85, 0.9, 0.95]
TRAIN = {
    "name": "train",
    "task": {"dataset": "mnist"},
    "rounds": 25,
    "instances": 2,
    "training": {"test_images": 2000},
    "metric": "accuracy",
    "targets": _TARGETS,
}


def _of_task(field: str) -> str:
    return opt.shown_default(f"task.{field}", TRAIN)


@opt.flat()
def run(
    choice: opt.Choice,
    size: opt.Size,
    execution: opt.Execution,
    words: opt.Words = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            parser=opt.named,
            metavar="PATH",
            help="Run folder.",
            show_default="out/NAME of the experiment",
        ),
    ] = None,
    json: opt.AsJson = False,
) -> None:
    """Run any experiment into a folder, with figures and tables: simulated, trained if it has a task, or swept.

    A sweep: fedwave run paper sweep.network.slots=[2,5,10]. The same command again continues a run that was stopped.
    """
    how = experiment_of(words, [choice, size])
    folder = folder_of(how) if out is None else out
    execute_and_show(how, folder, execution, json)


@opt.flat(TRAIN)
def train(
    choice: opt.Choice,
    size: opt.Size,
    training: opt.Training,
    execution: opt.Execution,
    radio: opt.Radio,
    words: opt.Words = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--task", help="Dataset: mnist, cifar10, synthetic, or your own.", show_default=_of_task("dataset")
        ),
    ] = None,
    aggregation: Annotated[
        str | None,
        typer.Option(
            "--aggregation",
            help="Aggregation rule, such as lee:beta=0.5 or sync.",
            show_default=_of_task("aggregation"),
        ),
    ] = None,
    skew: Annotated[
        float | None,
        typer.Option("--skew", help="Label skew: Dirichlet(alpha) per device.", show_default=_of_task("partition")),
    ] = None,
    out: opt.OutFolder = Path("out/train"),
    json: opt.AsJson = False,
) -> None:
    """Train a task on the schedules of several schedulers: the quick form of `fedwave run`.

    On a network alone its defaults are small, for a first look; a file or a preset has its own.
    """
    partition = None if skew is None else {"name": "dirichlet", "alpha": skew}
    how = experiment_of(
        words,
        [choice, size, training, radio],
        TRAIN,
        {"task.dataset": task, "task.partition": partition, "task.aggregation": aggregation},
    )
    if how.task is None:
        raise FedwaveError(f"{how.name} has no task to train: add one (task.dataset=mnist), or use `fedwave compare`.")
    execute_and_show(how, out, execution, json)


@opt.flat(None)
def resume(
    execution: opt.Execution,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run that was stopped.")],
    imports: Annotated[
        list[str] | None, typer.Option("--import", metavar="FILE", help="A file or module that the run imports.")
    ] = None,
    json: opt.AsJson = False,
) -> None:
    """Continue a run that was stopped: finished units are kept, others continue from their checkpoints.

    Of a finished run the tables and figures are written again, as `fedwave report` does.
    """
    check_is_folder(folder)
    store = RunFolder(folder)
    store.stored()  # refuses what is no run folder
    if store.is_finished():
        show_again(folder, json)
        return
    execute_and_show(store.experiment(imports or ()), folder, execution, json)


def execute_and_show(experiment: Experiment, folder: Path, execution: opt.Execution, json: bool) -> None:
    """Run it into a folder, write its figures and tables, and print the table."""
    go_on = f"`{resume_command(folder, experiment.imports)}`"
    with stopping(folder, go_on) as stop, execute(experiment, folder, execution, stop) as results:
        output.show(results, folder, json)


@contextmanager
def stopping(folder: Path | None, go_on: str = "") -> Iterator[StopRequest]:
    """Ctrl-C, SIGTERM, SIGHUP or too little memory within the block ends in one line: what was kept, and ``go_on``."""

    def sentence() -> str:
        what = "nothing was kept"
        if folder is not None and RunFolder(folder).exists():
            what = f"{go_on} goes on from here"
        return f"stopped; {what}."

    try:
        yield StopRequest(sentence)
    except (KeyboardInterrupt, Terminated) as stopped:
        print_error(sentence())
        status = 128 + signal.SIGINT if isinstance(stopped, KeyboardInterrupt) else stopped.code
        raise SystemExit(status) from None
    except MemoryError as error:  # what no estimate has foreseen
        if folder is None or not RunFolder(folder).exists():
            raise
        raise FedwaveError(
            f"there is too little memory ({memory_error(error)}); finished units are kept: {go_on} goes on, with fewer "
            "--workers or where there is more memory."
        ) from None


@contextmanager
def execute(
    experiment: Experiment, folder: Path | None, execution: opt.Execution, stop: StopRequest
) -> Iterator[Results]:
    """Run it with a progress bar on the terminal; its folder stays locked until the end of the block."""
    workers = execution.workers
    if workers is not None:
        workers = as_int("workers", workers, 1)
    timeout = checked_timeout(execution.timeout)
    engine = _engine(execution.engine, execution.address, workers, timeout)
    if folder is not None:
        if execution.events not in (None, "-"):
            check_own_file(Path(str(execution.events)), folder, output_files(experiment))
        check_run_place(folder)
    with ExitStack() as held:
        with watching(experiment.name, execution.events) as watch:
            run = running(experiment, folder, workers=workers, engine=engine, watch=watch, timeout=timeout, stop=stop)
            results = held.enter_context(run)
        yield results


def _engine(name: str, address: str | None, workers: int | None, timeout: float) -> Engine | None:
    if name == "ray":
        from fedwave.adapters.ray import ray_engine

        return ray_engine(address, workers, timeout)
    if name != "local":
        raise FedwaveError(f"there is no engine {name!r}; {did_you_mean(name, ['local', 'ray'])}")
    if address is not None:
        raise FedwaveError(f"--address {address} goes with --engine ray, not with local.")
    return None
