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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import fedwave as fw
from fedwave.paper import Floats

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

Row = dict[str, str]  # of a table, by column

SUMMARY, ROUNDS, CURVES, SUMS = "summary.json", "rounds.csv", "curves.csv", "SHA256SUMS"
FILES = (
    *("config.yaml", "done.jsonl", SUMMARY, ROUNDS, "instances.csv", CURVES, "targets.csv"),
    *("score.png", "score-paper.png", "learning-curves.png", "one-instance.png", "targets.png"),
)
_UNREADABLE = (OSError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError, AttributeError, csv.Error)
_ORDER = ("score", "mnist", "cifar10")  # of section V; others come after them


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
    return sorted(inner, key=lambda path: _ORDER.index(path.name) if path.name in _ORDER else len(_ORDER))


def read_compact(folder: Path) -> Compact:
    """Reads a compact export, or a run folder; raises FedwaveError if a file is missing or was changed."""
    try:
        return _read(folder)
    except _UNREADABLE as error:
        raise fw.FedwaveError(
            f"{folder} cannot be drawn ({type(error).__name__}: {error}): export it again with "
            "`fedwave report RUN --compact DIR`."
        ) from None


def _read(folder: Path) -> Compact:
    _check_sums(folder)
    about = json.loads(read_text(folder / SUMMARY))
    if "points" in about:
        raise fw.FedwaveError(f"{folder} holds a sweep: `fedwave report` draws it; to publish, keep its summary.csv.")
    how, labels = about["experiment"], tuple(about["schedulers"])
    task, data = how.get("task"), _dataset(about)
    title = fw.figures.title(data)
    scores = learnt = None
    if task is None:
        bands = _bands(read_rows(folder / ROUNDS), labels)
        scores = fw.figures.Scores(bands, about["against"], title, fw.figures.bands_caption(data))
    else:
        data = data.assign(_curves(read_rows(folder / CURVES), data))
        missing = task.get("instead_of")
        learnt = fw.figures.Learning(data, missing or _part_text(task["dataset"]), tuple(how["targets"]), bool(missing))
    return Compact(folder.absolute().name, title, about["fedwave"], labels, scores, learnt)


def _dataset(about: dict[str, Any]) -> xr.Dataset:
    """A Dataset as a run has it, with what titles and captions state, but without series."""
    import xarray as xr

    made_with, first = dict(about["made_with"]), about["first_instance"]
    coordinates = {
        "scheduler": list(about["schedulers"]),
        "instance": range(first, first + about["instances"]),
        "round": range(1, about["rounds"] + 1),
        "device": range(made_with.pop("devices")),  # only their number is stated
    }
    return xr.Dataset(coords=coordinates, attrs=made_with)


def _curves(rows: list[Row], data: xr.Dataset) -> dict[str, Any]:
    """The series of a trained run, as variables of its Dataset."""
    dims = ("scheduler", "instance", "round")
    shape = tuple(data.sizes[dim] for dim in dims)
    found: dict[str, Any] = {}
    for name in ("loss", "accuracy", "accuracy_on_all"):
        measured = name in rows[0] or name != "accuracy_on_all"
        values = _column(rows, name, shape) if measured else np.full(shape, np.nan)
        found[name] = (dims, values, {"long_name": fw.metrics.describe(name).label})
    return found | {"class_accuracy": ((*dims, "class"), np.empty((*shape, 0)))}  # it is not exported


def _bands(rows: list[Row], labels: Sequence[str]) -> dict[str, dict[str, tuple[Floats, Floats]]]:
    """Mean and half-width by round of every scheduler and band."""
    found: dict[str, dict[str, tuple[Floats, Floats]]] = {label: {} for label in labels}
    for name in fw.figures.BANDS:
        mean, half = (_column(rows, f"{name}_{part}", (len(labels), -1)) for part in ("mean", "half_width"))
        for place, label in enumerate(labels):
            found[label][name] = mean[place], half[place]
    return found


def _column(rows: list[Row], name: str, shape: tuple[int, ...]) -> Floats:
    """A column of numbers in the order of its lines; NaN where it is empty."""
    return np.array([float(row[name] or "nan") for row in rows]).reshape(shape)


def _part_text(part: str | dict[str, Any]) -> str:
    """A part with parameters as text.

    >>> _part_text({"name": "synthetic", "train": 400, "test": 100})
    'synthetic:train=400,test=100'
    """
    if isinstance(part, str):
        return part
    parameters = ",".join(f"{key}={value}" for key, value in part.items() if key != "name")
    return str(part.get("as", f"{part['name']}:{parameters}"))


def read_rows(path: Path) -> list[Row]:
    """The rows of a table."""
    return list(csv.DictReader(io.StringIO(read_text(path))))


def read_text(path: Path) -> str:
    """The text of a file of an export, or an error that says what the folder lacks."""
    if not path.is_file():
        raise fw.FedwaveError(
            f"{path.parent} is not a compact export: it has no {path.name}; "
            "`fedwave report RUN --compact DIR` writes one."
        )
    return path.read_text(encoding="utf-8")


def _check_sums(folder: Path) -> None:
    """Raises for files that were changed: their figures would differ from those of the run."""
    sums = {name: sum_ for sum_, name in (line.split("  ", 1) for line in read_text(folder / SUMS).splitlines())}
    for name in (SUMMARY, ROUNDS, CURVES):
        if (folder / name).is_file() and sums.get(name) != _checksum(folder / name):
            raise fw.FedwaveError(f"{folder / name} was changed: its checksum is not the one in {SUMS}.")


def _checksum(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
