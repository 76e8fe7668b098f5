"""Running an experiment from the command line, and showing what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from fedwave.cli import output
from fedwave.cli.watching import watching
from fedwave.errors import FedwaveError, did_you_mean, whole
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.report.learning import dataset_of, is_synthetic
from fedwave.experiments.report.outputs import comparison_of, summary, sweep_rows, write_results
from fedwave.experiments.results.container import Results
from fedwave.experiments.run.runner import Engine, run_experiment
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


def show(results: Results, folder: Path, as_json: bool) -> None:
    """Write figures and tables beside the results, and print the table."""
    paths = write_results(results, folder)
    if as_json:
        output.print_json({"files": [str(path) for path in paths], **_json(results)})
        return
    screen = output.console()
    screen.print(_table(results))
    names = ", ".join(path.name for path in paths)
    screen.print(f"Figures and data are in {folder}: {names}", soft_wrap=True)


def heading(experiment: Experiment, name: str | None = None) -> str:
    """What was run, above a table."""
    how = experiment
    return f"{name or how.name}: {how.rounds} rounds, {how.instances} instances, seed {how.seed}"


def _table(results: Results) -> Table:
    how = results.experiment
    if how.sweep:
        return output.plain_rows(*sweep_rows(results, brief=True), heading(how))
    name = None
    if how.task is not None:
        name = dataset_of(how)
        name = f"SYNTHETIC DATA (no {name})" if is_synthetic(how) else name
    return output.comparison_table(comparison_of(results.only), heading(how, name))


def _json(results: Results) -> dict[str, Any]:
    if not results.experiment.sweep:
        return summary(results.only)
    names, lines = sweep_rows(results)
    rows = [dict(zip(names, line, strict=True)) for line in lines]
    return {"name": results.experiment.name, "rows": rows}
