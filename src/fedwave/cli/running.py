"""Running an experiment from the command line, and showing what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from fedwave.cli import output
from fedwave.cli.watching import watching
from fedwave.errors import FedwaveError, did_you_mean, whole
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.report.learning import Learned, learning_json
from fedwave.experiments.report.outputs import Rows, sweep_rows, write_results
from fedwave.experiments.report.score import as_json
from fedwave.experiments.run.runner import Engine, Results, run_experiment
from fedwave.files import check_folder


def run(
    experiment: Experiment,
    folder: Path | None,
    *,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    events: str | None = None,
) -> Results:
    """Run it with a bar on the terminal."""
    if workers is not None:
        workers = whole("workers", workers, 1)
    chosen = _engine(engine, address, workers)
    if folder is not None:
        check_folder(folder)
    with watching(experiment.name, events) as watch:
        return run_experiment(experiment, folder, workers=workers, engine=chosen, watch=watch)


def _engine(name: str, address: str | None, workers: int | None) -> Engine | None:
    if name == "ray":
        from fedwave.adapters.ray import ray_engine

        return ray_engine(address, workers)
    if name != "local":
        raise FedwaveError(f"there is no engine {name!r}; {did_you_mean(name, ['local', 'ray'])}")
    if address is not None:
        raise FedwaveError(f"--address {address} goes with --engine ray, not with local.")
    return None


def show(results: Results, folder: Path, as_json_: bool) -> None:
    """Write figures and tables beside the results, and print the table."""
    rows, paths = write_results(results, folder)
    if as_json_:
        output.print_json({"files": [str(path) for path in paths], **_json(results, rows)})
        return
    screen = output.console()
    screen.print(_table(results, rows))
    names = ", ".join(path.name for path in paths)
    screen.print(f"Figures and data are in {folder}: {names}", soft_wrap=True)


def heading(experiment: Experiment, name: str | None = None) -> str:
    """What was run, above a table."""
    how = experiment
    return f"{name or how.name}: {how.rounds} rounds, {how.instances} instances, seed {how.seed}"


def _table(results: Results, rows: Rows) -> Table:
    how = results.experiment
    if how.sweep:
        return output.plain_rows(*sweep_rows(results), heading(how))
    if how.task is None:
        return output.comparison_table(rows, how.base, heading(how))  # type: ignore[arg-type]
    learned = Learned.of(results.only)
    data = f"SYNTHETIC DATA (no {learned.dataset})" if learned.synthetic else learned.dataset
    return output.learning_table(rows, how.base, heading(how, data))  # type: ignore[arg-type]


def _json(results: Results, rows: Rows) -> dict[str, Any]:
    how = results.experiment
    if how.sweep:
        names, lines = sweep_rows(results)
        return {"name": how.name, "rows": [dict(zip(names, line, strict=True)) for line in lines]}
    if how.task is None:
        return {"seed": how.seed, "schedulers": as_json(rows)}  # type: ignore[arg-type]
    return learning_json(Learned.of(results.only), rows)  # type: ignore[arg-type]
