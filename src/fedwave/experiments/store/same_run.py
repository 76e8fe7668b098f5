"""Are two runs the same, and if not, what differs first? Nothing is imported or run for that."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError, plural
from fedwave.experiments.config.sweep import to_mapping
from fedwave.experiments.run.runner import stored_results
from fedwave.experiments.store.dataset import Point
from fedwave.experiments.store.fingerprint import NOT_NUMBERS
from fedwave.experiments.store.folder import RunFolder, first_difference
from fedwave.experiments.store.own_files import CONFIG, PLAN
from fedwave.experiments.store.plan import Plan
from fedwave.experiments.store.provenance import last_versions
from fedwave.experiments.store.sealed import Damaged
from fedwave.experiments.store.sums import read_sums, sum_of
from fedwave.experiments.store.verify import Finding, listed_names, sound, versions_apart, versions_shown
from fedwave.types import Array

if TYPE_CHECKING:
    import xarray as xr

_MOST_NAMES = 5
# How the work is cut into units; whether that changes numbers is seen in the results.
_CUT = ("block", "group")


def compare_runs(a: Path, b: Path) -> list[Finding]:
    """The experiments, inputs, results and versions of two runs, and where each differs first."""
    found = [*_experiments(a, b), *_input_sums(a, b)]
    try:
        found += _results(a, b)
    except FedwaveError as error:
        found.append(Finding("results", "wrong", str(error)))
    if sound(found):  # else it is no wonder
        found += _files(a, b)
    return [*found, *_version_differences(a, b)]


def _experiments(a: Path, b: Path) -> Iterator[Finding]:
    there, here = (to_mapping(RunFolder(folder).stored()) for folder in (a, b))
    shown, shown_here = ({name: one.pop(name) for name in NOT_NUMBERS} for one in (there, here))
    cut, cut_here = ({name: one.pop(name) for name in _CUT} for one in (there, here))
    if there != here or list(there["sweep"]) != list(here["sweep"]):
        yield Finding("experiment", "differs", _both(*first_difference(there, here)))
    else:
        yield Finding("experiment", "ok", "the same")
    if shown != shown_here:
        text = f"{_both(*first_difference(shown, shown_here))} (this changes no number of a round)"
        yield Finding("experiment", "note", text)
    if cut != cut_here:
        text = f"{_both(*first_difference(cut, cut_here))} (how the work was cut into units)"
        yield Finding("experiment", "note", text)


def _input_sums(a: Path, b: Path) -> Iterator[Finding]:
    try:
        there, here = (Plan.read(folder).inputs for folder in (a, b))
    except FedwaveError as error:
        yield Finding("inputs", "wrong", str(error))
        return
    apart = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    if not apart:
        yield Finding("inputs", "ok", "the same" if there else "none from outside")
    for name in apart:
        only = "A" if name not in here else "B" if name not in there else None
        yield Finding("inputs", "differs", f"{name} is {f'only in {only}' if only else 'another'}")


def _results(a: Path, b: Path) -> Iterator[Finding]:
    there, here = ({str(p.where): p for p in stored_results(folder).points} for folder in (a, b))
    numbers, apart, first = 0, 0, ""
    lacking = [
        f"the point {point} is only in {which}"
        for which, mine, theirs in (("A", there, here), ("B", here, there))
        for point in mine
        if point not in theirs
    ]
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
    found = [
        f"column {name} is only in {which}"
        for which, mine, theirs in (("A", a, b), ("B", b, a))
        for name in mine.data_vars
        if name not in theirs.data_vars
    ]
    for dim in a.dims:
        if dim in b.dims and a.sizes[dim] != b.sizes[dim]:
            sizes = f"{a.sizes[dim]} in A, {b.sizes[dim]} in B"
            found.append(f"the number of {dim}s is {sizes}")
        elif dim in b.dims and list(a[dim].values) != list(b[dim].values):
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
        text = f"{name} at {where}: {_value(x[spot])} in A, {_value(y[spot])} in B"
        firsts.append((order, spot[:2], column, text))
    return looked, differing, min(firsts)[-1] if firsts else ""


def _same(x: Array, y: Array) -> Array:
    same: Array = x == y
    if x.dtype.kind == "f" and y.dtype.kind == "f":
        same = same & (np.signbit(x) == np.signbit(y)) | np.isnan(x) & np.isnan(y)
    return same


def _version_differences(a: Path, b: Path) -> Iterator[Finding]:
    made = _made_with(a, b)
    if made is None:
        yield Finding("versions", "note", "a provenance.json is missing or damaged")
        return
    apart = versions_apart(made[0], made[1], "A with", "B with")
    state, text = ("note", apart) if apart else ("ok", f"the same: {versions_shown(made[0])}")
    yield Finding("versions", state, text)


def _made_with(a: Path, b: Path) -> list[dict[str, str]] | None:
    """The versions that wrote the two folders; None if those of one are not known."""
    try:
        made = [last_versions(folder) for folder in (a, b)]
    except Damaged:
        return None
    return made if all(made) else None


def _files(a: Path, b: Path) -> Iterator[Finding]:
    """Tables, figures and results.nc: what people read. Their sums were not looked at with the numbers."""
    try:
        listed = [read_sums(folder) for folder in (a, b)]
        shown = {name for name in listed[0] if "/" not in name} - {CONFIG, PLAN}
        names = [name for name in listed[0] if name in shown and name in listed[1]]
        apart = [name for name in names if sum_of(a / name) != sum_of(b / name)]
    except FedwaveError as error:
        yield Finding("files", "wrong", str(error))
        return
    if not apart:
        yield Finding("files", "ok", f"{plural(len(names), 'file')} the same to the last bit")
        return
    # Another version of a package, or another way to show the same numbers, writes other files.
    excuse = _made_otherwise(a, b)
    text = f"{listed_names(apart)} differ though the numbers that they show are the same"
    if excuse:
        yield Finding("files", "note", f"{text}; {excuse}")
    else:
        yield Finding("files", "differs", f"{text}: `fedwave report` writes them again")


def _made_otherwise(a: Path, b: Path) -> str:
    """A reason why two equal runs may have other tables and figures."""
    there, here = (to_mapping(RunFolder(folder).stored()) for folder in (a, b))
    if there != here:
        return "the experiments are shown in other ways, or are others"
    made = _made_with(a, b)
    if made is None:
        return "with which versions they were written is not known"
    return "they were written with other versions" if made[0] != made[1] else ""


def _both(field: str, a: Any, b: Any) -> str:
    return f"{field} is {json.dumps(a)} in A, {json.dumps(b)} in B"


def _value(number: Any) -> str:
    return repr(number.item())
