"""Finds the first difference of two runs, without importing or running anything."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedwave.errors import FedwaveError, plural
from fedwave.experiments.config.run_id import first_differences
from fedwave.experiments.config.sweep import to_mapping
from fedwave.experiments.store.checksums import file_sha256, read_sums
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.load import results_of, to_dataset
from fedwave.experiments.store.provenance import all_versions, versions_apart
from fedwave.experiments.store.verify import Finding, listed_names, sound
from fedwave.types import Array

_NOTES = {  # the subject of the note, and its reason
    "shown": ("experiment", " (this changes no number of a round)"),
    "cut": ("units", " (how the work was cut into units; this can change last digits of training)"),
}
Names = tuple[object, object]  # the names of the two runs


def compare_runs(a: Path, b: Path) -> list[Finding]:
    """The experiments, inputs, results and versions of two runs, and where each differs first."""
    one, other = RunFolder(a), RunFolder(b)
    found = compare_experiments(one, other)
    apart = {finding.about for finding in found if finding.state == "differs"}
    found += [Finding(about, "ok", "the same") for about in ("experiment", "inputs") if about not in apart]
    found = sorted(found, key=lambda finding: finding.about) + compare_versions(one, other)
    try:
        found += _results(one, other)
        if sound(found):  # a differing experiment already explains differing files
            found += _files(one, other, as_they_are=all(finding.state == "ok" for finding in found))
    except FedwaveError as error:
        found.append(Finding("results", "wrong", str(error)))
    return found


def compare_experiments(a: RunFolder, b: RunFolder, names: Names = ("A", "B")) -> list[Finding]:
    """The first field in which two experiments differ, of each kind, and all inputs that differ."""
    found = []
    apart = first_differences(to_mapping(a.experiment_as_run), to_mapping(b.experiment_as_run))
    for changes, (field, *values) in apart.items():
        one, other = (f"{json.dumps(value)} in {name}" for value, name in zip(values, names, strict=True))
        about, why = _NOTES.get(changes, ("instances" if changes == "instances" else "experiment", ""))
        found.append(Finding(about, "note" if why else "differs", f"{field} is {one}, {other}{why}"))
    pins, others = ({name: one.sha256 for name, one in store.manifest.inputs.items()} for store in (a, b))
    for name in (name for name in {**pins, **others} if pins.get(name) != others.get(name)):
        only = names[0] if name not in others else names[1] if name not in pins else None
        found.append(Finding("inputs", "differs", f"{name} is {f'only in {only}' if only else 'another'}"))
    return found


def compare_versions(a: RunFolder, b: RunFolder, names: Names = ("A", "B")) -> list[Finding]:
    """The versions of the units that were finished last."""
    made = [all_versions(store.done.units.values())[-1:] for store in (a, b)]
    if not all(made):
        return []
    apart = versions_apart(made[0][0], made[1][0])
    text = f"{names[0]} and {names[1]} were made with different versions: {apart}"
    return [Finding("versions", "note", text) if apart else Finding("versions", "ok", "the same")]


def _results(a: RunFolder, b: RunFolder) -> Iterator[Finding]:
    """The first of the numbers that differ is that of the earliest round."""
    import xarray as xr

    one, other = (to_dataset(results_of(store)) for store in (a, b))
    apart = [f"column {name} is only in A" for name in one.data_vars if name not in other]
    apart += [f"column {name} is only in B" for name in other.data_vars if name not in one]
    for dim in {**one.sizes, **other.sizes}:
        if one.sizes.get(dim) != other.sizes.get(dim):
            apart.append(f"the number of {dim}s is {one.sizes.get(dim, 0)} in A, {other.sizes.get(dim, 0)} in B")
        elif list(one[dim].values) != list(other[dim].values):
            apart.append(f"the {dim}s are others")
    yield from (Finding("results", "differs", text) for text in apart)
    names = [name for name in one.data_vars if name in other and one[name].dims == other[name].dims]
    one, other = xr.align(one[names], other[names], join="inner")
    looked, differing, firsts = 0, 0, []
    for name in names:
        x, y = (data[name].transpose("round", ..., missing_dims="ignore") for data in (one, other))
        differs = ~_same(x.values, y.values)
        looked, differing = looked + differs.size, differing + int(differs.sum())
        if differs.any():
            spot = np.unravel_index(differs.argmax(), differs.shape)
            where = ", ".join(f"{dim} {one[dim].values[i]}" for dim, i in zip(x.dims, spot, strict=True))
            text = f"{name} at {where}: {x.values[spot].item()!r} in A, {y.values[spot].item()!r} in B"
            firsts.append((spot if "round" in x.dims else (math.inf,), text))
    if differing:
        first = min(firsts, key=lambda found: found[0])[1]
        yield Finding("results", "differs", f"{differing:,} of {looked:,} numbers differ, first {first}")
    elif looked:
        yield Finding("results", "ok", f"{looked:,} numbers{' in both' if apart else ''} are the same to the last bit")


def _same(x: Array, y: Array) -> Array:
    same: Array = x == y
    if x.dtype.kind == "f" and y.dtype.kind == "f":
        same = same & (np.signbit(x) == np.signbit(y)) | np.isnan(x) & np.isnan(y)
    return same


def _files(a: RunFolder, b: RunFolder, as_they_are: bool) -> Iterator[Finding]:
    """Compares tables, figures and results.nc, which people read, by their checksums.

    ``as_they_are``: nothing that was noted before, such as another version of a package, explains a difference.
    """
    listed = [read_sums(store.path) for store in (a, b)]
    names = [name for name in listed[0] if name in listed[1] and name not in a.checksums() and "/" not in name]
    apart = [name for name in names if file_sha256(a.path / name) != file_sha256(b.path / name)]
    if not apart:
        yield Finding("files", "ok", f"{plural(len(names), 'file')} the same to the last bit")
        return
    text = f"{listed_names(apart)} differ though the numbers that they show are the same"
    if as_they_are:
        yield Finding("files", "differs", f"{text}: `fedwave report` writes them again")
    else:
        yield Finding("files", "note", f"{text}: they were written with other versions, or show them in another way")
