"""The two calls that do a whole study: compare schedulers on a network, or run an experiment into a folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.errors import FedwaveError, as_int, is_list, short_repr
from fedwave.experiments.analysis.captions import sentences
from fedwave.experiments.config.experiment import BASE, Experiment
from fedwave.experiments.report.comparison import MOST_INSTANCES, Comparison, rule_remark, with_more_instances
from fedwave.experiments.run.signals import TIMEOUT
from fedwave.experiments.store.dataset import join_units, unit_dataset
from fedwave.files.reading import as_path
from fedwave.metrics import MetricSet
from fedwave.network.network import Network
from fedwave.network.partition import Labels
from fedwave.parts import registry
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.base import scheduler as find_scheduler
from fedwave.simulation import MetricLike, SchedulerLike, simulate

if TYPE_CHECKING:
    import xarray as xr

    from fedwave.experiments.run.runner import Event, Watcher


def compare(
    network: Network,
    schedulers: Iterable[SchedulerLike] | Mapping[str, SchedulerLike],
    rounds: int = 500,
    instances: int | Sequence[int] = 50,
    seed: int = 0,
    *,
    against: str | None = None,
    burn_in: int = 0,
    metric: str = "backlog",
    metrics: Iterable[MetricLike] = (),
    labels: Labels | None = None,
    half_width: float | None = None,
    most_instances: int = MOST_INSTANCES,
) -> Comparison:
    """Run schedulers on the same worlds: every metric with its interval, its paired difference, and a verdict.

    ``schedulers`` are names, names with parameters or Scheduler objects; a mapping gives them labels. ``against`` is
    the label that differences are taken from: alsa-pi, or the first. ``burn_in`` rounds are left out of
    metrics that are a mean over rounds. ``metric`` comes first in tables; ``metrics`` are measured in addition to the
    built-in ones. ``labels`` are for schedulers that see them, as in ``simulate``.

    ``half_width`` adds instances until the 95 % interval of every paired difference of ``metric`` is at most that wide
    to each side, or until there are ``most_instances``. The verdict compares the best with ``against``, or the second.

    >>> import fedwave as fw
    >>> table = fw.compare(fw.paper_network(), ["alsa-pi", "max-weight"], rounds=50, instances=4)
    >>> table.difference("max-weight", "backlog").mean < 0
    True
    """
    chosen, watched = _labelled(schedulers), MetricSet(metrics).more
    burn_in = as_int("burn_in", burn_in, 0)
    rival = None if against is None else str(against)
    base = rival if rival is not None else BASE if BASE in chosen else next(iter(chosen))
    if base not in chosen:
        raise FedwaveError(f"against is {base!r}, must be one of {', '.join(chosen)}.")
    if not isinstance(metric, str):
        raise FedwaveError(f"metric is {short_repr(metric)}, must be a name, such as 'backlog'.")
    most = as_int("most_instances", most_instances, 1)

    def lot(numbers: int | Sequence[int]) -> xr.Dataset:
        record: Any = {"record": "summary", "metrics": watched, "labels": labels}
        traces = ((label, simulate(network, one, rounds, numbers, seed, **record)) for label, one in chosen.items())
        parts = [unit_dataset({label: trace}) for label, trace in traces]
        return join_units(parts, list(chosen), parts[0]["instance"].values.tolist())

    def compared(data: xr.Dataset, said: str = "") -> Comparison:
        remark = sentences(said, rule_remark(chosen))
        return Comparison.of(data, base, burn_in, metric, rival=rival, network=network, remark=remark)

    data = lot(instances)
    if half_width is None:
        return compared(data)
    return compared(*with_more_instances(data, lambda n, more: lot(range(n, n + more)), compared, half_width, most))


def run(
    experiment: Experiment | Mapping[str, Any] | str | Path,
    folder: str | Path,
    *,
    overrides: str | Sequence[str] = (),
    imports: str | Path | Sequence[str | Path] = (),
    workers: int | None = None,
    progress: bool = False,
    timeout: float = TIMEOUT,
) -> xr.Dataset:
    """Run an experiment into a run folder, as ``fedwave run`` does: results, figures and tables.

    ``experiment`` is a YAML file, a preset's name, a network ("paper", "random", a device table), a mapping or an
    Experiment. A run that was stopped is resumed. ``overrides`` read ``field=value``; ``imports`` are files with parts
    of your own. ``workers`` is a number of processes. ``progress`` shows a bar with the time left on standard error.
    A unit that finishes no round in ``timeout`` seconds is abandoned: an error says so when the others are finished.
    After Ctrl-C, KeyboardInterrupt is raised when every running unit has written a checkpoint.

    Worker processes import the script that calls this. In a script, call it below ``if __name__ == "__main__":``.

    >>> import fedwave as fw
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     data = fw.run({"schedulers": ["age", "fresh"], "rounds": 10, "instances": 2}, folder, workers=1)
    >>> data.backlog.dims, data.backlog.shape
    (('scheduler', 'instance', 'round'), (2, 2, 10))
    """
    from fedwave.experiments.config.read import experiment_from, load_experiment, texts
    from fedwave.experiments.config.sweep import to_mapping
    from fedwave.experiments.report.outputs import write_results
    from fedwave.experiments.run.runner import running
    from fedwave.experiments.store.load import to_dataset

    path = as_path("folder", folder)
    if not str(folder):
        raise FedwaveError("folder is '', must name a run folder, such as 'out/first'.")
    changes, parts = texts("overrides", overrides), texts("imports", imports)
    if isinstance(experiment, (str, Path)):
        made = load_experiment(str(experiment), changes, parts)
    else:
        given = to_mapping(experiment) if isinstance(experiment, Experiment) else experiment
        made = experiment_from(given, changes, parts)
    try:
        with (
            _followed(made.name, progress) as watch,
            running(made, path, workers=workers, watch=watch, timeout=timeout) as results,
        ):
            write_results(results, path)
            return to_dataset(results)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; the same call resumes the run in {folder}.") from None


def _warn(event: Event) -> None:
    """Turns warnings about the whole run into Python warnings, if no progress is shown."""
    if event["event"] == "warning":
        warnings.warn(event["message"], stacklevel=2)


@contextmanager
def _followed(name: str, progress: bool) -> Iterator[Watcher]:
    if not progress:
        yield _warn
        return
    # By name: progress belongs to the command line, which is built on top of this.
    with import_module("fedwave.cli.progress").run_bar(name, lines=True) as watch:
        yield watch


def _labelled(schedulers: Iterable[SchedulerLike] | Mapping[str, SchedulerLike]) -> dict[str, Scheduler]:
    if isinstance(schedulers, (str, Scheduler)):
        schedulers = [schedulers]
    pairs: list[tuple[str, SchedulerLike]] = []
    if isinstance(schedulers, Mapping):
        pairs = [(str(label), one) for label, one in schedulers.items()]
    elif is_list(schedulers):
        pairs = [(_label(one), one) for one in schedulers]
    if not pairs:
        raise FedwaveError(
            f"schedulers is {short_repr(schedulers)}, must be names or schedulers, such as ['alsa-pi', 'age']."
        )
    chosen: dict[str, Scheduler] = {}
    for label, one in pairs:
        if label in chosen:
            raise FedwaveError(f"two schedulers are called {label!r}: give a mapping of labels to schedulers.")
        chosen[label] = find_scheduler(one)
    if not isinstance(schedulers, Mapping):
        texts = ((label, registry.full_text("scheduler", one)) for label, one in chosen.items())
        fix = "name each once, or give a mapping of labels to schedulers"
        registry.check_different("schedulers", texts, fix)
    return chosen


def _label(scheduler: SchedulerLike) -> str:
    if isinstance(scheduler, (str, Mapping, Scheduler)):
        return registry.text(scheduler)
    return str(getattr(scheduler, "name", None) or getattr(scheduler, "__name__", None) or repr(scheduler))
