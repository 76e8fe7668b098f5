"""`fedwave list`, `config` and `describe`: what there is to choose from, and what is in a file or a folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.terminal import in_encoding
from fedwave.errors import FedwaveError, did_you_mean, plural
from fedwave.experiments.config.build import network_of
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.files import with_file_names
from fedwave.experiments.config.read import load_experiment, preset_about, preset_names, to_yaml
from fedwave.experiments.config.schema import json_schema
from fedwave.experiments.config.sweep import points
from fedwave.experiments.report import setup
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.provenance import all_versions
from fedwave.network.devices import DEVICE_COLUMNS, read_devices
from fedwave.network.log_files import COLUMNS, is_log
from fedwave.network.logs import LogArrivals, LogFading, LogSummary
from fedwave.network.network import Network
from fedwave.parts import registry
from fedwave.parts.user_code import import_parts
from fedwave.trace import Trace

PRESETS = "presets"
# What a scheduler may need (types.INFORMATION): before the first round, and in every round.
_MUST_KNOW = {"rates": "true rates", "planning": "distributions"}
_SEES = {"channel": "h", "backlog": "n", "learner": "updates", "labels": "labels"}
_SCHEDULERS = (
    "Knows, before the first round: true rates (theta), distributions (of gains and arrivals). Sees, in "
    "every round: h (channel gains), n (backlogs), updates (norms of the local updates; needs a task), labels (samples "
    "by class in the uploads that arrived; needs a task). Every scheduler sees which uploads arrived, the shards they "
    "brought, and d, the rounds since. p: probability that an upload arrives; theta_k: arrival rate sampled from the "
    "posterior, once per stage; v, r, x: long-run share of a device, rate and mass of the aggregation rule; R(d): "
    "v r(d) E[x], the mass that a delivery at delay d brings; R_k: at theta_k; w: how much the model lacks the labels "
    "of a device."
)


def list_parts(
    family: Annotated[
        str | None, opt.argument("FAMILY", "Such as schedulers, fading or presets; default: the names of all.")
    ] = None,
    imports: opt.Imports = None,
    json: opt.AsJson = False,
) -> None:
    """List schedulers, all other parts, and presets.

    Shows what each does, its parameters and defaults.
    """
    for source in imports or ():
        import_parts(source)
    plurals = {_plural(one): one for one in registry.FAMILIES}
    content: Any
    if family is None:
        note = "Parameters, defaults and what each does: `fedwave list FAMILY`. Parts of your own: --import FILE."
        content = {shown: list(registry.names(one)) for shown, one in plurals.items()} | {PRESETS: list(preset_names())}
        lines = [(shown, ", ".join(names)) for shown, names in content.items()]
    else:
        if family == PRESETS:
            note = "Run one: `fedwave run NAME`. Print it: `fedwave config NAME`."
            content = [{"name": name, "about": preset_about(name)} for name in preset_names()]
        elif (found := plurals.get(family, family)) in registry.FAMILIES:
            note = _SCHEDULERS if found == "scheduler" else ""
            content = [_part(found, name) for name in registry.names(found)]
        else:
            raise FedwaveError(f"there is no family {family!r}; {did_you_mean(family, [PRESETS, *plurals])}")
        lines = [line for row in content for line in _lines(row)]
    if json:
        output.print_json(content)
        return
    table = output.definitions()
    for line in lines:
        table.add_row(*line)
    screen = output.console()
    screen.print(table)
    if note:
        screen.print(note)


def _part(family: str, name: str) -> dict[str, Any]:
    kind = registry.find(family, name)
    defaults = registry.parse(family, registry.full_text(family, name))
    if hasattr(kind, "from_file"):
        defaults = registry.with_defaults(family, {"name": name, "path": None})
    about = (kind.__doc__ or "").strip().split("\n")[0].replace("``", "`")
    row: dict[str, Any] = {"name": name, "about": about}
    if family == "scheduler":
        row["priority"] = kind.formula
        row["knows"] = ", ".join(text for need, text in _MUST_KNOW.items() if need in kind.needs)
        row["sees"] = ", ".join(text for need, text in _SEES.items() if need in kind.needs)
    return row | {"parameters": {one: defaults.get(one) for one in registry.parameter_names(family, name)}}


def _lines(row: dict[str, Any]) -> list[tuple[str, str]]:
    """The name and what it is; below, the rest if there is any. A parameter without a default is its name alone."""
    given = row.get("parameters", {}).items()
    parameters = ", ".join(name if one is None else f"{name}={one}" for name, one in given)
    texts = {key: row.get(key) for key in ("priority", "knows", "sees")} | {"parameters": parameters}
    rest = "; ".join(f"{key}: {text}" for key, text in texts.items() if text)
    return [(row["name"], row["about"]), *([("", rest)] if rest else [])]


def _plural(family: str) -> str:
    same = family in ("fading", "success", "arrivals", "availability", "aggregation")
    return family if same else "criteria" if family == "criterion" else f"{family}s"


def config(
    words: opt.Words = None,
    imports: opt.Imports = None,
    schema: Annotated[bool, opt.flag("--schema", "Print the JSON schema, for editors that complete.")] = False,
) -> None:
    """Print an experiment as YAML, checked, with every field that has a value.

    `fedwave config quick > my-experiment.yaml` saves it. The network, the dataset or the machine decides the rest;
    config.yaml of a run folder has the values that were used.
    """
    if schema:
        output.print_json(json_schema(Experiment))
        return
    how = opt.experiment_of(words, opt.Asked(imports=imports), defaults={} if words else {"name": "experiment"})
    text = to_yaml(how)
    if in_encoding(text, sys.stdout.encoding) != text:
        text = to_yaml(how, only_ascii=True)  # YAML reads its own escapes, not those of the terminal
    print(text, end="")


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
    paragraph: Annotated[
        bool,
        opt.flag(
            "--paragraph", "Print the simulation setup for a paper, in prose and in LaTeX (experiment, run folder)."
        ),
    ] = False,
    imports: opt.Imports = None,
    json: opt.AsJson = False,
) -> None:
    """Describe an experiment, a run folder, a trace, a device table or a measured log."""
    path = Path(what)
    if paragraph:
        found = setup.describe(what, imports=imports or ())
        if json:
            output.print_json(vars(found))
        else:
            for text in (found.prose, "", found.latex):
                output.print_out(text)
        return
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
    parts = {family: getattr(network, family) for family in ("fading", "success", "arrivals", "availability")}
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
    how, units = with_file_names(store.experiment_as_run, store.data_paths()), store.units()
    done = store.done.units
    finished = sum(unit.name in done for unit in units)
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    about: dict[str, Any] = {"kind": "run folder", "units": f"{finished} of {len(units)} finished"}
    if done:
        last = [*done.values()][-1]["finished"]
        about["made by"] = {"fedwave": all_versions(done.values())[-1].get("fedwave", "unknown"), "finished": last}
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
        "means": {name: float(np.mean(trace.series[name])) for name in ("score", "backlog") if name in trace.series},
        "metrics": list(trace.series),
        "size": f"{path.stat().st_size / 1e6:,.1f} MB",
    }


def _device_table(path: Path) -> dict[str, Any]:
    table = read_devices(path)
    found: dict[str, Any] = {"kind": "device table", "devices": len(table)}
    for name in (*DEVICE_COLUMNS, *dict(table.columns)):
        values = table.column(name)
        if np.isnan(values).all():
            continue
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        found[name] = low if low == high else {"smallest": low, "mean": float(np.nanmean(values)), "largest": high}
    return found


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else str(value)
