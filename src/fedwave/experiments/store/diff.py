"""Are two runs the same, and if not, what differs first? Nothing is imported or run for that."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError, plural
from fedwave.experiments.config.run_id import INSTANCES, SHOWN, cut_fields, deciding_fields, first_difference
from fedwave.experiments.config.sweep import to_mapping
from fedwave.experiments.store.checksums import file_sha256, read_sums
from fedwave.experiments.store.dataset import Point
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.load import results_of
from fedwave.experiments.store.provenance import all_versions, versions_apart, versions_shown
from fedwave.experiments.store.verify import Finding, listed_names, sound
from fedwave.types import Array

if TYPE_CHECKING:
    import xarray as xr

_MOST_NAMES = 5


def compare_runs(a: Path, b: Path) -> list[Finding]:
    """The experiments, inputs, results and versions of two runs, and where each differs first."""
    one, other = RunFolder(a), RunFolder(b)
    found = [*_experiments(one, other), *_inputs(one, other)]
    try:
        found += _results(one, other)
        if sound(found):  # else it is no wonder
            found += _files(one, other)
    except FedwaveError as error:
        found.append(Finding("results", "wrong", str(error)))
    return [*found, *_versions(one, other)]


def _experiments(a: RunFolder, b: RunFolder) -> Iterator[Finding]:
    there, here = (to_mapping(store.stored()) for store in (a, b))
    decide = [deciding_fields(one) | {name: one.get(name) for name in INSTANCES} for one in (there, here)]
    if decide[0] != decide[1] or list(there.get("sweep", ())) != list(here.get("sweep", ())):
        yield Finding("experiment", "differs", _both(*first_difference(decide[0], decide[1])))
    else:
        yield Finding("experiment", "ok", "the same")
    shown = [{name: one.get(name) for name in SHOWN} for one in (there, here)]
    cut = [cut_fields(one) for one in (there, here)]
    for (one, other), why in ((shown, "this changes no number of a round"), (cut, "how the work was cut into units")):
        if one != other:
            yield Finding("experiment", "note", f"{_both(*first_difference(one, other))} ({why})")


def _inputs(a: RunFolder, b: RunFolder) -> Iterator[Finding]:
    there, here = ({name: one.sha256 for name, one in store.manifest.inputs.items()} for store in (a, b))
    apart = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    if not apart:
        yield Finding("inputs", "ok", "the same" if there else "none from outside")
    for name in apart:
        only = "A" if name not in here else "B" if name not in there else None
        yield Finding("inputs", "differs", f"{name} is {f'only in {only}' if only else 'another'}")


def _results(a: RunFolder, b: RunFolder) -> Iterator[Finding]:
    there, here = ({str(p.where): p for p in results_of(store).points} for store in (a, b))
    numbers, apart, first = 0, 0, ""
    lacking = [f"the point {point} is only in A" for point in there if point not in here]
    lacking += [f"the point {point} is only in B" for point in here if point not in there]
    for where in [where for where in there if where in here]:
        lacking += _lacking(there[where].data, here[where].data)
        looked, differing, place = _differing(there[where], here[where])
        numbers, apart, first = numbers + looked, apart + differing, first or place
    lacking = list(dict.fromkeys(lacking))
    for text in lacking[:_MOST_NAMES]:
        yield Finding("results", "differs", text)
    if len(lacking) > _MOST_NAMES:
        yield Finding("results", "differs", f"and {len(lacking) - _MOST_NAMES} more like these")
    if apart:
        yield Finding("results", "differs", f"{apart:,} of {numbers:,} numbers differ, first {first}")
    elif numbers:
        common = " that both have" if lacking else ""
        yield Finding("results", "ok", f"{numbers:,} numbers{common} are the same to the last bit")


def _lacking(a: xr.Dataset, b: xr.Dataset) -> list[str]:
    """Columns and places on axes that only one has."""
    found = [f"column {name} is only in A" for name in a.data_vars if name not in b.data_vars]
    found += [f"column {name} is only in B" for name in b.data_vars if name not in a.data_vars]
    for dim in (dim for dim in a.dims if dim in b.dims):
        if a.sizes[dim] != b.sizes[dim]:
            found.append(f"the number of {dim}s is {a.sizes[dim]} in A, {b.sizes[dim]} in B")
        elif list(a[dim].values) != list(b[dim].values):
            found.append(f"the {dim}s are others")
    return found


def _differing(a: Point, b: Point) -> tuple[int, int, str]:
    """How many numbers were looked at, how many differ, and the first: of the earliest round, then scheduler."""
    import xarray as xr

    names = [name for name in a.data.data_vars if name in b.data.data_vars]
    one, other = xr.align(a.data[names], b.data[names], join="inner")
    looked, differing, firsts = 0, 0, []
    for column, name in enumerate(names):
        x, y = one[name].values, other[name].values
        apart = ~_same(x, y)
        looked, differing = looked + apart.size, differing + int(apart.sum())
        if not apart.any():
            continue
        dims = [str(dim) for dim in one[name].dims]
        round_ = dims.index("round") if "round" in dims else None
        at = np.argwhere(apart)
        if round_ is not None:
            at = at[at[:, round_] == at[:, round_].min()]
        spot = tuple(int(i) for i in at[0])
        place = {dim: one[dim].values[i] for dim, i in zip(dims, spot, strict=True)}
        order = spot[round_] if round_ is not None else sys.maxsize
        where = ", ".join(f"{k} {v}" for k, v in {**a.where, **place}.items())
        text = f"{name} at {where}: {x[spot].item()!r} in A, {y[spot].item()!r} in B"
        firsts.append((order, spot[:2], column, text))
    return looked, differing, min(firsts)[-1] if firsts else ""


def _same(x: Array, y: Array) -> Array:
    same: Array = x == y
    if x.dtype.kind == "f" and y.dtype.kind == "f":
        same = same & (np.signbit(x) == np.signbit(y)) | np.isnan(x) & np.isnan(y)
    return same


def _files(a: RunFolder, b: RunFolder) -> Iterator[Finding]:
    """Tables, figures and results.nc: what people read. Their checksums were not looked at with the numbers."""
    listed = [read_sums(store.path) for store in (a, b)]
    names = [name for name in listed[0] if name in listed[1] and name not in a.checksums() and "/" not in name]
    apart = [name for name in names if file_sha256(a.path / name) != file_sha256(b.path / name)]
    if not apart:
        yield Finding("files", "ok", f"{plural(len(names), 'file')} the same to the last bit")
        return
    text = f"{listed_names(apart)} differ though the numbers that they show are the same"
    # Another version of a package, or another way to show the same numbers, writes other files.
    if to_mapping(a.stored()) != to_mapping(b.stored()):
        yield Finding("files", "note", f"{text}; the experiments are shown in other ways, or are others")
    elif _made_with(a) != _made_with(b):
        yield Finding("files", "note", f"{text}; they were written with other versions")
    else:
        yield Finding("files", "differs", f"{text}: `fedwave report` writes them again")


def _versions(a: RunFolder, b: RunFolder) -> Iterator[Finding]:
    there, here = _made_with(a), _made_with(b)
    if there and here:
        apart = versions_apart(there, here, "A with", "B with")
        state, text = ("note", apart) if apart else ("ok", f"the same: {versions_shown(there)}")
        yield Finding("versions", state, text)


def _made_with(store: RunFolder) -> Mapping[str, str]:
    """The versions of the units that were finished last."""
    return (all_versions(store.done.units.values()) or [{}])[-1]


def _both(field: str, a: Any, b: Any) -> str:
    return f"{field} is {json.dumps(a)} in A, {json.dumps(b)} in B"
