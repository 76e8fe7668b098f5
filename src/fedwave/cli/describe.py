"""`fedwave describe`: what is in an experiment, a run folder, a trace, a device table or a log, on one screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.errors import FedwaveError, plural
from fedwave.experiments.config.build import network_of
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.files import renamed
from fedwave.experiments.config.read import load_experiment
from fedwave.experiments.config.sweep import points
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.provenance import all_versions
from fedwave.network.devices import DEVICE_COLUMNS, read_devices
from fedwave.network.log_files import COLUMNS, is_log
from fedwave.network.logs import LogArrivals, LogFading, LogSummary
from fedwave.network.network import Network
from fedwave.parts import registry
from fedwave.parts.user_code import import_parts
from fedwave.trace import Trace


def describe(
    what: Annotated[
        str,
        opt.argument(
            "WHAT",
            "An experiment (file, preset or network), a run folder, a trace (.npz), a device table (.csv) or a "
            "measured log (a .csv, .npz or .fad file, or a folder of logs).",
        ),
    ],
    options: Annotated[
        list[str] | None,
        opt.argument("KEY=VALUE", "How to read a log, such as value=rsrp_dbm; the parameters of fw.read_log."),
    ] = None,
    imports: opt.Imports = None,
    json: opt.AsJson = False,
) -> None:
    """Describe an experiment, a run folder, a trace, a device table or a measured log."""
    path = Path(what)
    if is_log(path):
        summary = _log(what, options or [])
        if json:
            output.print_json(summary.content)
        else:
            for line in str(summary).split("\n"):
                output.print_out(line)
        return
    if options:
        raise FedwaveError(f"{options[0]!r} says how to read a log, but {what} is not one: leave it out.")
    if path.is_dir() or path.suffix == ".npz":
        for source in imports or ():
            import_parts(source)
    if path.is_dir():
        content = _run_folder(path)
    elif path.suffix == ".npz":
        content = _trace(path)
    elif path.suffix == ".csv":
        content = _device_table(path)
    else:
        content = {"kind": "experiment", **_experiment(load_experiment(what, (), imports or ()))}
    if json:
        output.print_json(content)
        return
    table = output.definitions()
    for name, value in content.items():
        if isinstance(value, dict):
            value = "; ".join(f"{key}: {_text(one)}" for key, one in value.items())
        table.add_row(name, _text(value))
    output.console().print(table)


def _experiment(how: Experiment) -> dict[str, Any]:
    at = [point for _, point in points(how)]
    about: dict[str, Any] = {"name": how.name, "network": how.network.file or how.network.kind}
    network = network_of(at[0].network)
    about |= _network(network) | {"schedulers": list(how.labels)}
    logs = [part.summary for part in (network.fading, network.arrivals) if isinstance(part, (LogFading, LogArrivals))]
    if any(logs):
        about["log"] = "; ".join(sentence for summary in logs if summary for sentence in summary.sentences)
    if how.task is not None:
        task = {"dataset": how.task.dataset, "model": how.task.model, "aggregation": how.task.aggregation}
        about["task"] = {name: str(part) for name, part in task.items() if part is not None}
    about |= {name: getattr(how, name) for name in ("rounds", "instances", "first_instance", "seed", "metric")}
    if how.sweep:
        about["sweep"] = {axis: list(map(str, values)) for axis, values in how.sweep.items()}
    about["points"] = len(at)
    return about | {"total rounds": sum(one.rounds * one.instances * len(one.labels) for one in at)}


def _network(network: Network) -> dict[str, Any]:
    slots = np.unique(network.slots)
    parts = {family: getattr(network, family) for family in ("fading", "success", "arrivals")}
    parts = {
        family: repr(part) if part.name in ("log", "recorded") else registry.text(part)
        for family, part in parts.items()
    }
    return {"devices": network.size, "slots": slots.tolist() if len(slots) > 1 else int(slots[0]), **parts}


def _log(what: str, options: Sequence[str]) -> LogSummary:
    """What is in a log; without ``value=`` of the first kind of value that has a column of its own."""
    given = registry.parse("fading", "log:" + ",".join(options)) | {"path": what}
    summaries: list[LogSummary] = []
    refusals: list[FedwaveError] = []
    for value in [given["value"]] if "value" in given else COLUMNS:
        try:
            summaries.append(
                registry.build("arrivals" if value == "count" else "fading", given | {"value": value}).summary
            )
        except FedwaveError as error:
            refusals.append(error)
    if not summaries:
        raise refusals[0]
    return max(summaries, key=lambda one: bool(one.column))  # the first of them


def _run_folder(folder: Path) -> dict[str, Any]:
    store = RunFolder(folder)
    how, units = renamed(store.stored(), store.data_paths()), store.units()
    done = store.done.units
    finished = sum(unit.name in done for unit in units)
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    about: dict[str, Any] = {"kind": "run folder", "units": f"{finished} of {len(units)} finished"}
    if done:
        made = {"fedwave": all_versions(done.values())[-1].get("fedwave"), "finished": [*done.values()][-1]["finished"]}
        about["made by"] = {name: value for name, value in made.items() if value}
    about["size"] = f"{plural(len(files), 'file')}, {sum(files) / 1e6:,.1f} MB"
    return about | _experiment(how)


def _trace(path: Path) -> dict[str, Any]:
    trace = Trace.load(path)
    numbers = trace.instance_numbers
    return {
        "kind": "trace",
        "scheduler": trace.label,
        "rounds": trace.rounds,
        "instances": f"{len(numbers)} ({min(numbers)} to {max(numbers)})",
        **_network(trace.network),
        "seed": trace.seed,
        "fedwave": trace.setup.version,
        "record": trace.setup.record,
        "beliefs": sorted(trace.beliefs),
        "means": {
            name: float(np.mean(values)) for name, values in trace.series.items() if name in ("score", "backlog")
        },
        "metrics": list(trace.series),
        "size": f"{path.stat().st_size / 1e6:,.1f} MB",
    }


def _device_table(path: Path) -> dict[str, Any]:
    table = read_devices(path)
    found: dict[str, Any] = {"kind": "device table", "devices": len(table)}
    for name in DEVICE_COLUMNS:
        values = np.asarray(getattr(table, name))
        low, high = float(values.min()), float(values.max())
        found[name] = low if low == high else {"smallest": low, "mean": float(values.mean()), "largest": high}
    return found


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else str(value)
