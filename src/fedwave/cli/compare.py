"""`fedwave compare`: schedulers on the same worlds, as a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.run import execute, execute_and_show
from fedwave.errors import FedwaveError
from fedwave.experiments.config.build import check
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.report.summary import comparison_of
from fedwave.experiments.store.dataset import Results
from fedwave.metrics import metric_names


@opt.flat()
def compare(
    *,
    asked: opt.Asked,
    words: opt.Words = None,
    out: Annotated[Path | None, opt.out("Run folder, with figures and data. Default: none.")] = None,
    execution: opt.Local,
) -> None:
    """Compare schedulers on the same worlds, without training.

    Prints means with 95 % intervals and paired differences. Some fields: metric=jain against=age burn_in=100.
    Defaults are those of a network alone; a file or preset has its own.
    """
    how = _without_task(opt.experiment_of(words, asked, defaults={"name": "compare"}), words)
    if out is not None:
        execute_and_show(how, out, execution)
        return
    with execute(how, None, execution) as results:
        if execution.json:
            output.print_json(_summary(results))
        elif not execution.quiet:
            output.print_tables(output.result_tables(results, how.network.file or how.network.kind))


def _summary(results: Results) -> dict[str, Any]:
    how, comparison = results.experiment, comparison_of(results.only)
    settings = ("rounds", "instances", "first_instance", "seed", "burn_in", "metric")
    return {
        "network": how.network.file or how.network.kind,
        **{name: getattr(how, name) for name in settings},
        **comparison.about(),
        "schedulers": comparison.to_json(),
    }


def _without_task(how: Experiment, words: list[str] | None) -> Experiment:
    """The same, only simulated; a metric of training that was not asked for gives way to the default."""
    if how.sweep:
        raise FedwaveError(f"{how.name} varies {', '.join(how.sweep)}: use `fedwave run`, or drop it with sweep={{}}.")
    learnt = set(metric_names(training=True)) - set(metric_names())
    asked = any(word.startswith("metric=") for word in words or ())
    if how.task is not None and not asked and how.metric in learnt:
        how = replace(how, metric="backlog")
    how = replace(how, task=None)
    check(how)
    return how
