"""``fw.describe``: the simulation setup of an experiment as a paragraph for a paper, in prose and in LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.errors import plural
from fedwave.experiments.analysis.captions import field_name
from fedwave.experiments.analysis.randomness import listed
from fedwave.experiments.analysis.tables import escape_latex, one_line
from fedwave.experiments.config.build import network_of
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.files import with_file_names
from fedwave.experiments.config.parts import PARTS
from fedwave.experiments.config.read import load_experiment, texts
from fedwave.experiments.config.resolve import fill_defaults
from fedwave.experiments.config.sweep import points
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.provenance import all_commits, all_versions, installed_versions, own_commit
from fedwave.files.reading import as_path
from fedwave.network.network import Network
from fedwave.parts import registry
from fedwave.parts.user_code import import_parts
from fedwave.types import Array
from fedwave.version import NUMERICS

_MATH = "\0"  # stands around formulas
# In this order: the comma of a number, before LaTeX brings others.
_IN_FORMULAS = {",": "{,}", "γ": r"\gamma", "log10": r"\log_{10}", " km": r"\,\mathrm{km}", "...": r"\dots"}


@dataclass(frozen=True)
class Setup:
    """The simulation setup in words. It prints as prose; ``latex`` is the same for a paper."""

    prose: str
    latex: str

    @classmethod
    def of(cls, sentences: Sequence[str]) -> Setup:
        """From sentences with formulas between marks."""
        text = one_line(" ".join(sentences).replace(_MATH, "\ue000")).replace("\ue000", _MATH)
        pieces = text.split(_MATH)
        latex = (f"${_formula(one)}$" if i % 2 else escape_latex(one) for i, one in enumerate(pieces))
        return cls("".join(pieces), "".join(latex))

    def __str__(self) -> str:
        return self.prose


def describe(what: str | Path | Experiment, *, imports: str | Path | Sequence[str | Path] = ()) -> Setup:
    """The "simulation setup" paragraph of a paper, with every number that decides the results.

    ``what`` is a run folder, or an experiment: a file, a preset's name, a network or an Experiment. ``imports`` are
    files with parts of your own. The versions are those that made a run; of an experiment, those installed here.

    >>> import fedwave as fw
    >>> setup = fw.describe(fw.Experiment(schedulers=("age", "fresh"), rounds=100))
    >>> print(setup.prose[:74])
    We simulate U = 25 devices and an access point with W = 5 slots per round.
    >>> print(setup.latex[:40])
    We simulate $U = 25$ devices and an acce
    """
    parts = texts("imports", imports)
    if isinstance(what, Experiment):
        return _setup(what, [installed_versions()], [own_commit()])
    path = as_path("what is described", what)
    if not path.is_dir():
        return _setup(load_experiment(path, (), parts), [installed_versions()], [own_commit()])
    for source in parts:
        import_parts(source)
    store = RunFolder(path)
    how, lines = with_file_names(store.experiment_as_run, store.data_paths()), list(store.done.units.values())
    return _setup(how, all_versions(lines), all_commits(lines))


def _setup(how: Experiment, versions: Sequence[Mapping[str, str]], commits: Sequence[str | None]) -> Setup:
    first = fill_defaults(points(how)[0][1])
    found = [*_network(network_of(first.network), first), *_schedulers(how)]
    if first.task is not None:
        found += _task(first)
    if how.sweep:
        axes = (f"{field_name(axis)} over {listed([str(v) for v in values])}" for axis, values in how.sweep.items())
        found.append(f"We vary {'; '.join(axes)}; the numbers here are those of the first point.")
    made = "; ".join(", ".join(f"{name} {one}" for name, one in each.items()) for each in versions)
    named = "".join(f", commit {commit}" for commit in commits if commit)
    found.append(f"Simulated with {made or 'fedwave'}{named}, numerics {NUMERICS}.")
    return Setup.of(found)


def _network(network: Network, how: Experiment) -> list[str]:
    table, slots = network.table, np.unique(network.slots)
    w = f"W = {slots[0]}" if len(slots) == 1 else f"W = {slots[0]} ... {slots[-1]}"
    found = [
        f"We simulate {_math(f'U = {network.size:,}')} devices and an access point with {_math(w)} slots per round."
    ]
    if network.size == 1:
        found[0] = found[0].replace("devices", "device")
    if how.network.kind == "random":
        found.append(f"Rates and distances are drawn at random (seed {how.network.set.get('seed', 0):g}).")
    if how.network.file:
        found.append(f"The devices are those of the table {Path(how.network.file).name}.")
    loss = _math(f"{network.pathloss_intercept_db:g} + {network.pathloss_slope_db:g} log10(d / 1 km)")
    distance, snr = np.asarray(table.distance_m), np.asarray(table.snr_db)
    if np.isfinite(distance).any():
        found.append(
            f"They are {_range(distance, 'm')} from it and transmit at {_range(table.tx_power_dbm, 'dBm')}; the path "
            f"loss is {loss} dB at a distance d, and the noise power {network.noise_dbm:g} dBm."
        )
    if np.isfinite(snr).any():
        found.append(
            f"Their mean SNR is given for {plural(int(np.isfinite(snr).sum()), 'device')}: {_range(snr, 'dB')}."
        )
    if np.isfinite(table.interference_dbm).any():
        found.append(f"Interference at the access point has {_range(table.interference_dbm, 'dBm')}.")
    found.append(
        f"The channel gain follows the fading model {_words('fading', network.fading)}, and an upload arrives with the "
        f"probability of the success model {_words('success', network.success)}."
    )
    total = float(np.sum(network.rates))
    found.append(
        f"A device receives {_range(network.rates, 'shards')} per round on average ({total:g} in total), with arrivals "
        f"{_words('arrivals', network.arrivals)}."
    )
    if np.isfinite(table.buffer_limit).any():
        found.append(f"A device holds at most {_range(table.buffer_limit, 'shards')}; what arrives beyond is lost.")
    if np.any(table.miss_probability):
        found.append(f"A device misses a broadcast with probability {_range(table.miss_probability, '')}.")
    if not network.always_available:
        found.append(f"Availability is {_words('availability', network.availability)}.")
    cost = f"γ = {network.gamma:g}"
    return [*found, f"The score of a round is the shards delivered less {_math(cost)} for each that waits."]


def _schedulers(how: Experiment) -> list[str]:
    parts = zip(how.labels, how.schedulers, strict=True)
    made = [("" if one.label is None else f"{label}: ") + _words("scheduler", one) for label, one in parts]
    numbers = how.instance_numbers
    found = [
        f"We compare {plural(len(made), 'scheduler')}: {listed(made)}.",
        f"Each runs for {plural(how.rounds, 'round')} in {plural(how.instances, 'instance')} (numbers {numbers[0]} to "
        f"{numbers[-1]}, seed {how.seed}); all schedulers see the same worlds.",
    ]
    if how.burn_in:
        found.append(f"Means leave out the first {plural(how.burn_in, 'round')}.")
    return [*found, "Intervals are Student t intervals at 95 % over instances, and differences are paired by instance."]


def _task(how: Experiment) -> list[str]:
    task, training = how.task, how.training
    assert task is not None
    data = f"synthetic data in place of {task.instead_of}" if task.instead_of else _words("dataset", task.dataset)
    model = "" if task.model is None else f" with the model {_words('model', task.model)}"
    numbers = {
        "samples in a shard": task.shard_size,
        "samples in a batch": task.batch,
        "epochs of local training": task.epochs,
        "learning rate": task.eta,
        "weight of the proximal term": task.prox,
        "weight of the squared norm": task.l2,
    }
    stated = ", ".join(f"{name} {value:g}" for name, value in numbers.items() if value is not None)
    return [
        f"The devices learn {data}{model}; classes are spread by {_words('partition', task.partition)}.",
        f"Local training has: {stated}.",
        *(
            f"The {name} is {_words(PARTS[f'task.{name}'], part)}."
            for name in ("loss", "optimizer")
            if (part := getattr(task, name)) is not None
        ),
        f"The server aggregates by {_words('aggregation', task.aggregation)}.",
        f"{str(task.metric_name).capitalize()} is measured on {training.test_images:,} test images and the loss on "
        f"{training.loss_images:,} training images; local training that weighs at most {training.tolerance:g} is left "
        f"out; precision {training.precision}.",
    ]


def _math(formula: str) -> str:
    return f"{_MATH}{formula}{_MATH}"


def _formula(text: str) -> str:
    """A formula as LaTeX has it."""
    for plain, latex in _IN_FORMULAS.items():
        text = text.replace(plain, latex)
    return text


def _words(family: str, part: Any) -> str:
    """A part with all its parameters: "turbo (midpoint_db = -1.647, slope = 7.468, blocks = 1)"."""
    return _with_parameters(registry.with_defaults(family, part))


def _with_parameters(part: Mapping[str, Any]) -> str:
    given = {key: value for key, value in part.items() if key not in ("name", "as") and value is not None}
    values = (f"{key} = {_with_parameters(v) if isinstance(v, Mapping) else v}" for key, v in given.items())
    return f"{part['name']} ({', '.join(values)})" if given else str(part["name"])


def _range(values: Array | float, unit: str) -> str:
    """The smallest and the largest finite value, and the mean."""
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    low, high = float(finite.min()), float(finite.max())
    return f"{low:g} {unit}".rstrip() if low == high else f"{low:g} to {high:g} {unit} (mean {finite.mean():g})"
