"""Results as they are published: a few small files of a finished run, and the figures drawn from them again.

    config.yaml, provenance.json   the experiment, and what made it: those of the run folder
    summary.json                   every metric with its interval; under ``made_with`` what titles and captions state
    rounds.csv, instances.csv      of a simulated run: bands by round (score.py), every metric by instance
    curves.csv                     of a trained run: loss and accuracy of every scheduler, instance and round

The files are read back into what the figures of a run are drawn from, so that the same code draws both. Anybody may
have written them: nothing is imported, and what does not fit together is refused in a sentence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError, plural, short_repr
from fedwave.experiments.analysis.labels import title
from fedwave.experiments.config.experiment import MOST_DEVICES, Experiment
from fedwave.experiments.config.read import stored_content, stored_experiment
from fedwave.experiments.report.learning import learning_figures, write_learning_tables
from fedwave.experiments.report.outputs import summary
from fedwave.experiments.report.score import (
    BANDS,
    Scores,
    band_columns,
    bands_caption,
    score_figures,
    scores_of,
    window_of,
    write_score_tables,
)
from fedwave.experiments.store.checksums import SUMS, file_sha256, read_sums, write_sums
from fedwave.experiments.store.dataset import Point, Results
from fedwave.experiments.store.folder import RunFolder, is_published
from fedwave.experiments.store.lock import check_new
from fedwave.experiments.store.manifest import CONFIG, SUMMARY
from fedwave.experiments.store.provenance import provenance
from fedwave.files.reading import is_there, read_json_file, read_text
from fedwave.files.tables import as_number, read_table
from fedwave.files.writing import write_json, write_text
from fedwave.metrics import describe
from fedwave.plain_text import brief
from fedwave.types import FloatArray

if TYPE_CHECKING:
    import xarray as xr

    from fedwave.experiments.report.figures.common import Figure

PROVENANCE = "provenance.json"
CURVES, TARGETS, ROUNDS, INSTANCES = "curves.csv", "targets.csv", "rounds.csv", "instances.csv"
_ORDER = ("score", "mnist", "cifar10")  # of section V; others come after them
# What may stand under made_with in summary.json.
_MADE_WITH: dict[str, type] = {
    "slots": str,
    "gamma": float,
    "seed": str,
    "chance": str,
    "own_draws": str,
    "test_images": int,
    "loss_images": int,
    "devices": int,
}


@dataclass(frozen=True)
class Published:
    """One published result: the scores of a simulated run, or the curves of a trained one."""

    name: str  # of its folder
    experiment: Experiment
    title: str  # what was run
    fedwave: str  # the versions that made it
    scores: Scores | None = None
    point: Point | None = None

    def figures(self) -> dict[str, Figure]:
        """Those of the run, by the names of their files."""
        if self.scores is not None:
            return score_figures(self.scores)
        assert self.point is not None
        return learning_figures(self.point)


def publish(results: Results, run: Path, out: Path) -> list[Path]:
    """Write the files of a finished run into a new folder, with its figures as PNG."""
    from fedwave.experiments.report.figures.common import write_figure

    how = results.experiment
    if how.sweep:
        raise FedwaveError(f"{run} is a sweep: publish its summary.csv, which is small as it is.")
    check_new(out)
    point = results.only
    if how.task is None:
        scores = scores_of(point.data, how.base)
        drawn, paths = score_figures(scores), write_score_tables(point, scores, out)
    else:
        drawn, paths = learning_figures(point), write_learning_tables(point, out)
    paths += [write_figure(figure, out / f"{stem}.png") for stem, figure in drawn.items()]
    paths.append(write_json(out / SUMMARY, summary(results)))
    paths.append(write_text(out / CONFIG, read_text(run / CONFIG, str(run / CONFIG))))
    store = RunFolder(run)
    about = provenance(store.manifest.run_id, file_sha256(out / CONFIG), store.done.units.values())
    paths.append(write_json(out / PROVENANCE, about))
    return [*paths, write_sums(out, [path.name for path in paths])]


def published_in(folder: Path) -> list[Path]:
    """The folders of published results in a folder, those of section V first."""
    try:
        inner = sorted(path for path in folder.iterdir() if path.is_dir() and is_published(path))
    except OSError as error:
        raise FedwaveError(f"{folder} cannot be read: {error.strerror}.") from None
    places = {name: place for place, name in enumerate(_ORDER)}
    return sorted(inner, key=lambda path: places.get(path.name, len(places)))


def read_published(folder: Path) -> Published:
    """A published result."""
    for name in (CONFIG, PROVENANCE, SUMMARY):
        _check_there(folder, name)
    _check_sums(folder)
    made, config = _made_by(folder), folder / CONFIG
    how = stored_experiment(stored_content(read_text(config, str(config)), f"experiment {config}"))
    if how.sweep:
        raise FedwaveError(f"{folder} holds a sweep, whose figures need its run folder.")
    made_with = _made_with(folder / SUMMARY)
    name = folder.name or os.path.basename(os.path.realpath(folder))
    if how.task is None:
        scores = _scores(folder, how, made_with)
        return Published(name, how, scores.title, made, scores=scores)
    data = _curves(folder, how, made_with)
    return Published(name, how, title(data), made, point=Point({}, how, data))


def _made_by(folder: Path) -> str:
    """The versions of fedwave that made a published result."""
    path = folder / PROVENANCE
    content = read_json_file(path, str(path))
    try:
        if content["config_sha256"] != file_sha256(folder / CONFIG):
            raise ValueError(f"it is of another {CONFIG}")
        return ", ".join(sorted({brief(str(run["fedwave"])) for run in content["runs"]}))
    except (KeyError, TypeError, ValueError) as error:
        raise FedwaveError(f"{path} is damaged ({error}): publish the run again.") from None


def _check_there(folder: Path, name: str) -> None:
    if not is_there(folder / name):
        raise FedwaveError(
            f"{folder} is no published result: it has no {name}; `fedwave publish` writes one from the folder of a run."
        )


def _check_sums(folder: Path) -> None:
    """Refuse tables that were edited or damaged: their figures would say something else than the run."""
    _check_there(folder, SUMS)
    known = read_sums(folder)
    for name in (CONFIG, SUMMARY, CURVES, TARGETS, ROUNDS, INSTANCES):
        if is_there(folder / name) and file_sha256(folder / name) != known.get(name):
            raise FedwaveError(
                f"{folder / name} is not the one that {SUMS} beside it has the sum of: publish the run again."
            )


def _made_with(path: Path) -> dict[str, Any]:
    """What the run was made with; nothing if it does not say."""
    content = read_json_file(path, str(path))
    found = content.get("made_with", {}) if isinstance(content, dict) else None
    if not isinstance(found, dict):
        raise FedwaveError(f"{path} is no summary of a run: made_with is {short_repr(found)}.")
    for name, value in found.items():
        kind = _MADE_WITH.get(name)
        if kind is None or not isinstance(value, (kind, int) if kind is float else kind):
            raise FedwaveError(f"{path}: made_with.{name} is {short_repr(value)}, which no run writes.")
    try:
        drawing = json.loads(found.get("own_draws", "[]"))
    except ValueError:
        drawing = None
    if not isinstance(drawing, list) or not all(isinstance(one, str) for one in drawing):
        raise FedwaveError(f"{path}: made_with.own_draws is no list of schedulers.")
    if not 1 <= found.get("devices", 1) <= MOST_DEVICES:
        raise FedwaveError(f"{path}: made_with.devices is {found['devices']}, must lie between 1 and {MOST_DEVICES:,}.")
    return found


def _dataset(how: Experiment, made_with: dict[str, Any], series: Mapping[str, FloatArray]) -> xr.Dataset:
    """A Dataset as a run has it, of the series that were published, ``[scheduler, instance, round]``."""
    import xarray as xr

    dims = ("scheduler", "instance", "round")
    data: dict[str, Any] = {
        name: (dims, values, {"long_name": describe(name).label}) for name, values in series.items()
    }
    coordinates: dict[str, Any] = {
        "scheduler": list(how.labels),
        "instance": list(how.instance_numbers),
        "round": range(1, how.rounds + 1),
    }
    attrs = {name: value for name, value in made_with.items() if name != "devices"}
    if "devices" in made_with:  # only their number is stated
        coordinates["device"] = range(made_with["devices"])
    return xr.Dataset(data, coords=coordinates, attrs=attrs)


def _scores(folder: Path, how: Experiment, made_with: dict[str, Any]) -> Scores:
    path = folder / ROUNDS
    _columns(folder / INSTANCES, how, ["instance"], [])
    columns = _columns(path, how, ["round"], band_columns())
    bands = {}
    for place, label in enumerate(how.labels):
        of = {name: values.reshape(-1, how.rounds)[place] for name, values in columns.items()}
        bands[label] = {name: (of[f"{name}_mean"], of[f"{name}_half_width"]) for name in BANDS}
        for name, (mean, _) in bands[label].items():
            known = mean[window_of(how.rounds) - 1 :] if name == "recent" else mean
            if not np.isfinite(known).all():
                raise FedwaveError(f"{path}: {name}_mean of {label} lacks the number of a round.")
    about = _dataset(how, made_with, {})
    return Scores(bands, how.base, title(about), bands_caption(about))


def _curves(folder: Path, how: Experiment, made_with: dict[str, Any]) -> xr.Dataset:
    path, shape = folder / CURVES, (len(how.labels), how.instances, how.rounds)
    names = ("loss", "accuracy"), ("accuracy_on_all",)
    found = _columns(path, how, ["instance", "round"], *names)
    series = {name: values.reshape(shape) for name, values in found.items()}
    for name in ("accuracy", "accuracy_on_all"):
        if ((series[name] < 0) | (series[name] > 1)).any():
            raise FedwaveError(f"{path}: {name} has a number outside 0 to 1.")
    data = _dataset(how, made_with, series)
    none = np.empty((*shape, 0))  # accuracies by class are not published
    return data.assign(class_accuracy=(("scheduler", "instance", "round", "class"), none))


def _columns(
    path: Path, how: Experiment, keys: Sequence[str], needed: Sequence[str], others: Sequence[str] = ()
) -> dict[str, FloatArray]:
    """Columns of numbers of a table that has a line for every scheduler and value of the keys, in their order.

    An empty field is NaN; ``others`` may be missing, and are then NaN.
    """
    _check_there(path.parent, path.name)
    heading, rows = read_table(path, str(path))
    for name in ("scheduler", *keys, *needed):
        if name not in heading:
            raise FedwaveError(
                f"{path} has no column {name}: it is of another version of fedwave, publish the run again."
            )
    axes: dict[str, Sequence[Any]] = {"instance": how.instance_numbers, "round": range(1, how.rounds + 1)}
    wanted = [how.labels, *(axes[key] for key in keys)]
    in_order = len(rows) == prod(map(len, wanted))
    if in_order:
        places = [heading.index(name) for name in ("scheduler", *keys)]
        given = ([row[place] for place in places] for row in rows)
        in_order = all(one == [*map(str, at)] for one, at in zip(given, product(*wanted), strict=True))
    if not in_order:
        sizes = zip(("scheduler", *keys), wanted, strict=True)
        asked = " x ".join(plural(len(values), name) for name, values in sizes)
        raise FedwaveError(f"{path} does not have the lines of {asked}, as {CONFIG} says, in this order.")
    return {
        name: _numbers(rows, heading.index(name), f"{path}, line", name)
        if name in heading
        else np.full(len(rows), np.nan)
        for name in (*needed, *others)
    }


def _numbers(rows: Sequence[Sequence[str]], place: int, where: str, name: str) -> FloatArray:
    found = np.full(len(rows), np.nan)
    for line, row in enumerate(rows):
        if row[place].strip():
            found[line] = as_number(row[place], f"{where} {line + 1}: {name}")
            if np.isinf(found[line]):
                raise FedwaveError(f"{where} {line + 1}: {name} is infinite, must be a number or empty.")
    return found
