"""Is a run folder sound? Nothing is imported or run for that. same_run.py compares two of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from fedwave.errors import FedwaveError, plural
from fedwave.experiments.config.experiment import DATASETS
from fedwave.experiments.config.units import Unit
from fedwave.experiments.run.envelope import check_enclosed, check_whole
from fedwave.experiments.store import inputs
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.own_files import ALWAYS_WRITTEN, CONFIG, PROVENANCE, files_of_run, output_files
from fedwave.experiments.store.plan import Plan
from fedwave.experiments.store.provenance import PACKAGES, installed_versions, own_runs, versions_of
from fedwave.experiments.store.sealed import Damaged
from fedwave.experiments.store.sums import SUMS, changed_files, read_sums
from fedwave.files.reading import is_there, opened

_MOST_NAMES = 5
_OF_UNITS = ("rounds/", "devices/", "units/")
_STATES = {
    "changed": "changed (`fedwave report` writes tables and figures again, `fedwave resume` units)",
    "missing": "missing (`fedwave report` writes tables and figures again, `fedwave resume` units)",
    "new": "not in the list",
    "unlisted": f"written by fedwave, but no longer in {SUMS} (`fedwave report` writes it again)",
    "stray": "of no unit of this run: remove it, or results of two runs are mixed",
}


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


def _experiment(folder: Path) -> Iterator[Finding]:
    try:
        RunFolder(folder).stored()
    except FedwaveError as error:
        yield Finding("experiment", "wrong", str(error))
    else:
        yield Finding("experiment", "ok", f"{CONFIG} as it was begun")


def _sums(folder: Path) -> Iterator[Finding]:
    if not is_there(folder / SUMS):
        yield Finding("sums", "open", f"there is no {SUMS}: it is written when the run ends")
        return
    try:
        known = read_sums(folder)
        changes = changed_files(folder, known)
    except FedwaveError as error:
        yield Finding("sums", "wrong", str(error))
        return
    found = {state: [n for n, what in changes.items() if what == state] for state in _STATES}
    own = _own_files(folder)
    found["unlisted"] = [name for name in found["new"] if name in own]
    found["stray"] = [n for n in found["new"] if n.startswith(_OF_UNITS) and n not in own]
    found["new"] = [n for n in found["new"] if n not in found["unlisted"] + found["stray"]]
    for state, names in found.items():
        if names:
            sign = "note" if state == "new" else "wrong"
            yield Finding("sums", sign, f"{listed_names(names)}: {_STATES[state]}")
    if not any(names for state, names in found.items() if state != "new"):
        yield Finding("sums", "ok", f"{plural(len(known), 'file')} as written")
    links = [name for name in known if os.path.islink(folder / name)]
    if links:
        yield Finding("sums", "note", f"{listed_names(links)}: a link, so that the file lies elsewhere")


def _own_files(folder: Path) -> set[str]:
    """What a run leaves and lists; little if its plan is damaged, which is said elsewhere."""
    store = RunFolder(folder)
    try:
        return files_of_run(store, store.units()) | output_files(store.stored())
    except FedwaveError:
        return set(ALWAYS_WRITTEN)


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
        except Damaged as error:
            whole = False
            text = f"{error} `fedwave resume {folder}` runs the unit again"
            yield Finding("units", "wrong", text)
        except FedwaveError as error:
            whole = False
            yield Finding("units", "wrong", str(error))
    if missing:
        text = f"{missing} of {plural(len(units), 'unit')} not finished: `fedwave resume {folder}` goes on"
        yield Finding("units", "open", text)
    elif whole:
        print_ = store.fingerprint()[:12]
        yield Finding("units", "ok", f"{plural(len(units), 'unit')} of one run, fingerprint {print_}")
    yield from _checkpoints(store, units)


def _checkpoints(store: RunFolder, units: Sequence[Unit]) -> Iterator[Finding]:
    own = {store.checkpoint(unit): unit for unit in units}
    found = sorted(store.path.glob("checkpoints/*.npz"))
    for path in found:
        if path not in own:
            continue
        try:
            with opened(path, "it") as (file, _):
                check_enclosed(file, own[path].fingerprint)
                check_whole(file)
        except FedwaveError as error:
            text = f"the checkpoint {path.name} cannot be used, so its unit would start anew ({error})"
            yield Finding("units", "wrong", text)
    others = [path.name for path in found if path not in own]
    if others:
        yield Finding("units", "note", f"{listed_names(others)}: of another run, not used")


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
        if one.sha256 == inputs.NOT_PINNED:
            text = f"{name} was defined by a script or a notebook: it is not pinned"
            yield Finding("inputs", "note", text)
            continue
        if one.copy is not None and not inputs.has_copy(folder, one):
            yield Finding("inputs", "wrong", f"{one.copy} is missing or has changed")
            continue
        kept = f"{name} is kept" if one.copy is not None else f"{name} is pinned, too large to keep"
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


def _dataset(name: str, pinned: str) -> Finding:
    """A built-in dataset is looked at if it is here; one of the user's own would need the user's code."""
    text = f"dataset {name} is pinned by its sum"
    if name not in DATASETS:
        return Finding("inputs", "ok", f"{text}; whether it is the same now is not checked")
    from fedwave.learning.datasets.mnist_cifar import load_dataset

    try:
        now = inputs.arrays_sum(load_dataset(name, fetch=False))
    except FedwaveError:
        return Finding("inputs", "ok", f"{text}; it is not here to be checked")
    if now == pinned:
        return Finding("inputs", "ok", f"{text}; it is the same here")
    return Finding("inputs", "note", f"{text}; here it is another")


def _times(folder: Path) -> Iterator[Finding]:
    store = RunFolder(folder)
    for path in sorted(folder.glob("timings/*.json")):
        try:
            store.timing(path.stem)
        except Damaged as damage:
            yield Finding("times", "wrong", f"{damage} No result needs it: remove it.")


def _versions(folder: Path) -> Iterator[Finding]:
    try:
        runs = own_runs(folder)
    except Damaged as damage:
        text = f"{damage} No result needs it: `fedwave report {folder}` begins it anew"
        yield Finding("versions", "wrong", text)
        return
    if not runs:
        yield Finding("versions", "note", f"{PROVENANCE} is missing; no result needs it")
        return
    *_, last = made = [versions_of(run) for run in runs]
    if not all(made):
        text = f"{PROVENANCE} was damaged once: what made the results before is not known"
        yield Finding("versions", "note", text)
    if not last:
        return
    for (run, before), (later, after) in pairwise(zip(runs, made, strict=True)):
        if before and before != after:
            words = ("begun with", "resumed with")
            if run.get("lot") != later.get("lot"):
                words = ("one lot with", "another with")
            yield Finding("versions", "note", versions_apart(before, after, *words))
    here = installed_versions(last)
    apart = versions_apart(last, here, "made with", "here is")
    state, text = ("note", apart) if apart else ("ok", f"those installed: {versions_shown(here)}")
    yield Finding("versions", state, text)


def listed_names(names: Sequence[str]) -> str:
    """The first of them."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def versions_apart(a: Mapping[str, str], b: Mapping[str, str], made: str, here: str) -> str:
    """The versions that differ; a package that only one has counts where it is part of the numerics."""
    names = [name for name in {**a, **b} if a.get(name) != b.get(name)]
    return "; ".join(f"{made} {name} {a.get(name, 'none')}, {here} {b.get(name, 'none')}" for name in names)


def versions_shown(versions: Mapping[str, str]) -> str:
    """Those of fedwave, Python and the most important packages."""
    return ", ".join(f"{k} {v}" for k, v in versions.items() if k in ("fedwave", "python", *PACKAGES[:3]))
