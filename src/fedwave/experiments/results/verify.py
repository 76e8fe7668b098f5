"""Is a run folder sound? Are two runs the same, and if not, what differs first? Nothing is imported or run for that."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError, counted
from fedwave.experiments.config.experiment import DATASETS
from fedwave.experiments.config.points import to_mapping
from fedwave.experiments.results import inputs
from fedwave.experiments.results.container import Point
from fedwave.experiments.results.fingerprint import NOT_NUMBERS
from fedwave.experiments.results.folder import RunFolder, first_difference
from fedwave.experiments.results.own_files import CONFIG
from fedwave.experiments.results.plan import Plan
from fedwave.experiments.results.provenance import (
    PACKAGES,
    PROVENANCE,
    installed_versions,
    runs_of,
    versions_of,
)
from fedwave.experiments.results.sealed import Damaged, read_sealed
from fedwave.experiments.results.sums import SUMS, changed_files, read_sums
from fedwave.experiments.run.envelope import check_enclosed
from fedwave.experiments.run.runner import stored_results
from fedwave.experiments.run.units import Unit
from fedwave.types import Array

if TYPE_CHECKING:
    import xarray as xr

_MOST_NAMES = 5
# How the work is cut into units; whether that changes numbers is seen in the results.
_CUT = ("block", "group")


@dataclass(frozen=True)
class Finding:
    """One line of a verification."""

    about: str  # such as "sums"
    state: str  # "ok", "note" (worth knowing), "open" (not finished), "wrong", or of two runs "differs"
    text: str


def sound(findings: Iterable[Finding]) -> bool:
    """Is nothing wrong or different?"""
    return all(finding.state in ("ok", "note") for finding in findings)


def verify(folder: Path) -> list[Finding]:
    """The sums, units, inputs and versions of one run folder."""
    if not RunFolder(folder).exists():
        RunFolder(folder).stored()  # refuses it in its own words
    looks = (_experiment, _sums, _units, _inputs, _times, _versions)
    return [finding for look in looks for finding in look(folder)]


def compare_runs(a: Path, b: Path) -> list[Finding]:
    """The experiments, inputs, results and versions of two runs, and where each differs first."""
    found = [*_experiments(a, b), *_input_sums(a, b)]
    try:
        found += _results(a, b)
    except FedwaveError as error:
        found.append(Finding("results", "wrong", str(error)))
    return [*found, *_version_differences(a, b)]


def _experiment(folder: Path) -> Iterator[Finding]:
    try:
        RunFolder(folder).stored()
    except FedwaveError as error:
        yield Finding("experiment", "wrong", str(error))
    else:
        yield Finding("experiment", "ok", f"{CONFIG} as it was begun")


def _sums(folder: Path) -> Iterator[Finding]:
    if not (folder / SUMS).exists():
        yield Finding("sums", "open", f"there is no {SUMS}: it is written when the run ends")
        return
    try:
        changes = changed_files(folder)
    except FedwaveError as error:
        yield Finding("sums", "wrong", str(error))
        return
    for state, sign in (("changed", "wrong"), ("missing", "wrong"), ("new", "note")):
        names = [name for name, what in changes.items() if what == state]
        if names:
            word = "not in the list" if state == "new" else state
            yield Finding("sums", sign, f"{_listed(names)}: {word}")
    if not any(what != "new" for what in changes.values()):
        yield Finding("sums", "ok", f"{counted(len(read_sums(folder)), 'file')} as written")


def _units(folder: Path) -> Iterator[Finding]:
    store, missing, whole = RunFolder(folder), 0, True
    try:
        units = store.units()
    except FedwaveError as error:
        yield Finding("units", "wrong", str(error))
        return
    for unit in units:
        try:
            missing += not store.finished(unit)
        except FedwaveError as error:
            whole = False
            yield Finding("units", "wrong", str(error))
    if missing:
        text = f"{missing} of {counted(len(units), 'unit')} not finished: `fedwave resume {folder}` goes on"
        yield Finding("units", "open", text)
    elif whole:
        print_ = store.fingerprint()[:12]
        yield Finding(
            "units", "ok", f"{counted(len(units), 'unit')} of one run, fingerprint {print_}"
        )
    yield from _checkpoints(store, units)


def _checkpoints(store: RunFolder, units: Sequence[Unit]) -> Iterator[Finding]:
    own = {store.checkpoint(unit): unit for unit in units}
    found = sorted(store.path.glob("checkpoints/*.npz"))
    for path in found:
        if path not in own:
            continue
        try:
            with path.open("rb") as file:
                check_enclosed(file, own[path].fingerprint)
        except (FedwaveError, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            text = f"the checkpoint {path.name} cannot be used, so its unit would start anew ({reason})"
            yield Finding("units", "wrong", text)
    others = [path.name for path in found if path not in own]
    if others:
        yield Finding("units", "note", f"{_listed(others)}: of another run, not used")


def _inputs(folder: Path) -> Iterator[Finding]:
    try:
        known, places = inputs.known_inputs(folder), inputs.known_places(folder)
        pinned = Plan.read(folder).inputs
    except FedwaveError as error:
        yield Finding("inputs", "wrong", str(error))
        return
    if {name: one.sha256 for name, one in known.items()} != pinned:
        yield Finding("inputs", "wrong", f"{inputs.LIST} is not the list that plan.json has")
    if not pinned:
        yield Finding("inputs", "ok", "none from outside")
    for name, one in known.items():
        if one.kind == "dataset":
            yield _dataset(name.removeprefix("dataset "), one.sha256)
            continue
        if one.kind == "package":
            yield _package(name)
            continue
        if one.sha256 == inputs.NO_FILE:
            text = f"{name} was in no file (a notebook or standard input): it is not pinned"
            yield Finding("inputs", "note", text)
            continue
        copy = folder / one.copy if one.copy is not None else None
        if copy is not None and (not copy.is_file() or inputs.file_sum(str(copy)) != one.sha256):
            yield Finding("inputs", "wrong", f"{one.copy} is missing or has changed")
            continue
        kept = f"{name} is kept" if copy is not None else f"{name} is pinned, too large to keep"
        place = places.get(name)
        if place is None or not os.path.isfile(place):
            yield Finding("inputs", "ok", f"{kept}; the original is not at {place}")
        elif inputs.file_sum(place) != one.sha256:
            yield Finding("inputs", "note", f"{kept}; the original has changed since: {place}")
        else:
            yield Finding("inputs", "ok", f"{kept}; the original is unchanged: {place}")
    if any(one.is_code for one in known.values()):
        text = "files that your own code opens by itself are not covered: only those that the experiment names"
        yield Finding("inputs", "note", text)


def _package(name: str) -> Finding:
    """An installed package that parts are from; its version is part of the name."""
    package, _, version = name.removeprefix("package ").rpartition(" ")
    try:
        here = metadata.version(package)
    except (metadata.PackageNotFoundError, ValueError):
        return Finding("inputs", "ok", f"{name} is pinned by its version; it is not installed here")
    if here == version:
        return Finding("inputs", "ok", f"{name} is pinned by its version; it is the same here")
    return Finding("inputs", "note", f"{name} is pinned by its version; here it is {here}")


def _dataset(name: str, pinned: str) -> Finding:
    """A built-in dataset is looked at if it is here; one of the user's own would need the user's code."""
    text = f"dataset {name} is pinned by its sum"
    if name not in DATASETS:
        return Finding("inputs", "ok", f"{text}; whether it is the same now is not checked")
    from fedwave.learning.data.dataset import load_dataset

    try:
        now = inputs.arrays_sum(load_dataset(name, fetch=False))
    except FedwaveError:
        return Finding("inputs", "ok", f"{text}; it is not here to be checked")
    if now == pinned:
        return Finding("inputs", "ok", f"{text}; it is the same here")
    return Finding("inputs", "note", f"{text}; here it is another")


def _times(folder: Path) -> Iterator[Finding]:
    for path in sorted(folder.glob("timings/*.json")):
        try:
            read_sealed(path)
        except Damaged as damage:
            yield Finding("times", "wrong", f"{damage} No result needs it.")


def _versions(folder: Path) -> Iterator[Finding]:
    try:
        runs = runs_of(folder)
    except Damaged as damage:
        yield Finding("versions", "wrong", f"{damage} No result needs it.")
        return
    if not runs:
        yield Finding("versions", "note", f"{PROVENANCE} is missing; no result needs it")
        return
    *_, last = made = [versions_of(run) for run in runs]
    for before, after in pairwise(made):
        if before != after:
            text = _apart(before, after, "begun with", "resumed with")
            yield Finding("versions", "note", text)
    here = installed_versions()
    apart = _apart(last, here, "made with", "here is")
    state, text = ("note", apart) if apart else ("ok", f"those installed: {_shown(here)}")
    yield Finding("versions", state, text)


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
        yield Finding(
            "results", "differs", f"{apart:,} of {numbers:,} numbers differ, first {first}"
        )
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
    try:
        made = [[versions_of(run) for run in runs_of(folder)[-1:]] for folder in (a, b)]
    except Damaged:
        made = []
    if not (made and all(made)):
        yield Finding("versions", "note", "a provenance.json is missing or damaged")
        return
    apart = _apart(made[0][0], made[1][0], "A with", "B with")
    state, text = ("note", apart) if apart else ("ok", f"the same: {_shown(made[0][0])}")
    yield Finding("versions", state, text)


def _apart(a: Mapping[str, str], b: Mapping[str, str], made: str, here: str) -> str:
    """The versions that differ; a package that only one has counts where it is part of the numerics."""
    names = [name for name in {**a, **b} if a.get(name) != b.get(name)]
    return "; ".join(
        f"{made} {name} {a.get(name, 'none')}, {here} {b.get(name, 'none')}" for name in names
    )


def _shown(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{k} {v}" for k, v in versions.items() if k in ("fedwave", "python", *PACKAGES[:3]))  # fmt: skip


def _both(field: str, a: Any, b: Any) -> str:
    return f"{field} is {json.dumps(a)} in A, {json.dumps(b)} in B"


def _value(number: Any) -> str:
    return repr(number.item())


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
