"""The compact export of a finished run: a few small files that its figures can be drawn from again.

    config.yaml, done.jsonl        the experiment; the run id, and for every unit the machine and versions that ran it
    summary.json                   every metric with its interval; under ``made_with`` what titles and captions state
    rounds.csv, instances.csv      of a simulated run: bands by round, every metric by instance
    curves.csv, targets.csv        of a trained run: loss and accuracy by instance and round, rounds to every target
    *.png                          the figures
    SHA256SUMS                     the checksums of the files

The files are those of the run folder, so that a whole run folder can be read in the same way. They may be untrusted:
nothing in them is imported.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import fedwave as fw
from fedwave.paper.array_types import Floats

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

Rows = list[dict[str, str]]

SUMMARY, ROUNDS, CURVES, SUMS = "summary.json", "rounds.csv", "curves.csv", "SHA256SUMS"
FILES = (
    *("config.yaml", "done.jsonl", SUMMARY, ROUNDS, "instances.csv", CURVES, "targets.csv"),
    *("score.png", "score-paper.png", "learning-curves.png", "one-instance.png", "targets.png"),
)
_ORDER = ("score", "mnist", "cifar10")  # of section V; others come after them
_LARGEST, _MOST_DEVICES = 1 << 28, 10_000_000  # bytes of a file; devices of a network
# What titles and captions state of a run (``made_with``), and its sizes.
_FACTS = {"slots": str, "gamma": float, "seed": str, "chance": str, "own_draws": str}
_FACTS |= {"test_images": int, "loss_images": int, "devices": int}
_SIZES = ("rounds", "instances", "first_instance")


@dataclass(frozen=True)
class Compact:
    """What was read: the scores of a simulated run, or the curves of a trained one."""

    name: str  # of its folder
    title: str  # what was run
    fedwave: str  # the version that wrote it
    schedulers: tuple[str, ...]
    scores: fw.figures.Scores | None = None
    learnt: fw.figures.Learning | None = None

    @property
    def kind(self) -> str:
        """ "score", or the dataset without its parameters."""
        return "score" if self.learnt is None else self.learnt.dataset.partition(":")[0]

    def figures(self) -> dict[str, Figure]:
        """Those of the run, by the names of their files."""
        if self.scores is not None:
            return fw.figures.score_figures(self.scores)
        assert self.learnt is not None
        return fw.figures.learning_figures(self.learnt)


def export_compact(run: Path, out: Path) -> list[Path]:
    """Copies the small files of a finished run into a new folder."""
    read_compact(run)  # or nobody could draw it
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise fw.FedwaveError(f"{out} is not an empty folder: choose a new one.")
    out.mkdir(parents=True, exist_ok=True)
    names = [name for name in FILES if (run / name).is_file()]
    for name in names:
        shutil.copyfile(run / name, out / name)
    sums = "".join(f"{_checksum(out / name)}  {name}\n" for name in sorted(names))
    (out / SUMS).write_text(sums, encoding="utf-8")
    return [out / name for name in (*names, SUMS)]


def is_compact(folder: Path) -> bool:
    """Whether a folder has what the figures of one run are drawn from."""
    return (folder / SUMMARY).is_file() and any((folder / name).is_file() for name in (ROUNDS, CURVES))


def compact_in(folder: Path) -> list[Path]:
    """The compact exports in a folder, those of section V first."""
    inner = sorted(path for path in folder.iterdir() if is_compact(path))
    places = {name: place for place, name in enumerate(_ORDER)}
    return sorted(inner, key=lambda path: places.get(path.name, len(places)))


def read_compact(folder: Path) -> Compact:
    """Reads a compact export, or a run folder; raises FedwaveError if a file is missing or was changed."""
    try:
        return _read(folder)
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
        csv.Error,
    ) as error:
        raise fw.FedwaveError(
            f"{folder} cannot be drawn ({type(error).__name__}: {error}): export it again with "
            "`fedwave report RUN --compact DIR`."
        ) from None


def _read(folder: Path) -> Compact:
    _check_sums(folder)
    about = json.loads(read_text(folder / SUMMARY))
    if "points" in about:
        raise fw.FedwaveError(f"{folder} holds a sweep: `fedwave report` draws it; to publish, keep its summary.csv.")
    how, labels = about["experiment"], tuple(map(str, about["schedulers"]))
    name, version = folder.name or folder.resolve().name, str(about["fedwave"])
    sizes = {key: int(about[key]) for key in _SIZES}
    made_with = {key: _FACTS[key](value) for key, value in about["made_with"].items()}
    task = how.get("task")
    if task is None:
        data = _dataset(labels, sizes, made_with)
        caption, title = fw.figures.bands_caption(data), fw.figures.title(data)
        bands = _bands(folder / ROUNDS, labels, sizes["rounds"])
        scores = fw.figures.Scores(bands, str(about["against"]), title, caption)
        return Compact(name, title, version, labels, scores=scores)
    data = _dataset(labels, sizes, made_with, read_rows(folder / CURVES))
    missing = task.get("instead_of")
    dataset = str(missing or _part_text(task["dataset"]))
    targets = tuple(map(float, how["targets"]))
    learnt = fw.figures.Learning(data, dataset, targets, missing is not None)
    return Compact(name, fw.figures.title(data), version, labels, learnt=learnt)


def _part_text(part: str | dict[str, Any]) -> str:
    """A part with parameters as text.

    >>> _part_text({"name": "synthetic", "train": 400, "test": 100})
    'synthetic:train=400,test=100'
    """
    if isinstance(part, str):
        return part
    if "as" in part:
        return str(part["as"])
    parameters = ",".join(f"{key}={value}" for key, value in part.items() if key != "name")
    return f"{part['name']}:{parameters}"


def _bands(path: Path, labels: Sequence[str], rounds: int) -> dict[str, dict[str, Any]]:
    rows, shape = read_rows(path), (len(labels), rounds)
    found = {
        name: [series(rows, f"{name}_{part}", shape) for part in ("mean", "half_width")] for name in fw.figures.BANDS
    }
    if not all(np.isfinite(mean).all() for name, (mean, _) in found.items() if name != "recent"):
        raise ValueError("a round has no mean")
    return {
        label: {name: (mean[place], half[place]) for name, (mean, half) in found.items()}
        for place, label in enumerate(labels)
    }


def _dataset(
    labels: Sequence[str], sizes: dict[str, int], made_with: dict[str, Any], curves: Rows | None = None
) -> xr.Dataset:
    """A Dataset as a run has it, with the series that were exported."""
    import xarray as xr

    rounds, instances, first = (sizes[key] for key in _SIZES)
    devices = made_with.pop("devices")
    if not 1 <= devices <= _MOST_DEVICES:
        raise ValueError(f"{devices} devices")
    coordinates: dict[str, Any] = {
        "scheduler": list(labels),
        "instance": range(first, first + instances),
        "round": range(1, rounds + 1),
        "device": range(devices),  # only their number is stated
    }
    dims, shape = ("scheduler", "instance", "round"), (len(labels), instances, rounds)
    data: dict[str, Any] = {}
    if curves is not None:
        for name in ("loss", "accuracy", "accuracy_on_all"):
            data[name] = (dims, series(curves, name, shape), {"long_name": fw.metrics.describe(name).label})
        data["class_accuracy"] = ((*dims, "class"), np.empty((*shape, 0)))  # they are not exported
    return xr.Dataset(data, coords=coordinates, attrs=made_with)


def series(rows: Rows, name: str, shape: tuple[int, ...]) -> Floats:
    """A column of numbers in the order of its lines; NaN where it is empty, or has no column and need not have one."""
    if len(rows) != prod(shape):
        raise ValueError(f"{len(rows)} lines, must be {' x '.join(map(str, shape))}")
    if name == "accuracy_on_all" and name not in rows[0]:
        return np.full(shape, np.nan)
    values = np.array([float(row[name] or "nan") for row in rows]).reshape(shape)
    if np.isinf(values).any():
        raise ValueError(f"{name} is infinite")
    return values


def read_rows(path: Path) -> Rows:
    """The lines of a table, by the names of its columns."""
    return list(csv.DictReader(io.StringIO(read_text(path))))


def read_text(path: Path) -> str:
    """A regular file of a moderate size."""
    if not path.is_file():
        raise fw.FedwaveError(
            f"{path.parent} is not a compact export: it has no {path.name}; "
            "`fedwave report RUN --compact DIR` writes one."
        )
    if path.stat().st_size > _LARGEST:
        raise fw.FedwaveError(f"{path} is larger than {_LARGEST:,} bytes: it is not of a compact export.")
    return path.read_text(encoding="utf-8")


def _check_sums(folder: Path) -> None:
    """Raises for files that were changed: their figures would differ from those of the run."""
    sums = {name: sum_ for sum_, name in (line.split("  ", 1) for line in read_text(folder / SUMS).splitlines())}
    for name in (SUMMARY, ROUNDS, CURVES):
        if (folder / name).is_file() and sums.get(name) != _checksum(folder / name):
            raise fw.FedwaveError(f"{folder / name} was changed: its checksum is not the one in {SUMS}.")


def _checksum(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
