"""Is a run folder whole and undamaged? Nothing is imported or run for that. diff.py compares two of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedwave.errors import FedwaveError, plural
from fedwave.experiments.config.experiment import DATASETS
from fedwave.experiments.store import inputs
from fedwave.experiments.store.checkpoint_file import check_checkpoint_file
from fedwave.experiments.store.checksums import SUMS, changed_files, read_sums
from fedwave.experiments.store.done import DONE
from fedwave.experiments.store.folder import RunFolder, table_names
from fedwave.experiments.store.manifest import CONFIG, MANIFEST
from fedwave.experiments.store.provenance import all_versions, installed_versions, versions_apart, versions_shown
from fedwave.files.reading import is_there, opened

_MOST_NAMES = 5


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
    """The experiment, units, checksums, inputs and versions of one run folder."""
    store = RunFolder(folder)
    if not store.exists():
        store.stored()  # refuses it in its own words
    try:
        store.units()
    except FedwaveError as error:
        return [Finding("experiment", "wrong", str(error))]
    looks: tuple[Callable[[RunFolder], Iterable[Finding]], ...] = (_units, _sums, _inputs, _versions)
    first = Finding("experiment", "ok", f"{MANIFEST} and {CONFIG} as they were written")
    return [first, *(finding for look in looks for finding in look(store))]


def _units(store: RunFolder) -> Iterator[Finding]:
    units, missing, wrong = store.units(), 0, 0
    for unit in units:
        try:
            if unit.name in store.done.units:
                store.data(unit)
            else:
                missing += 1
        except FedwaveError as error:
            wrong += 1
            yield Finding("units", "wrong", f"{error} `fedwave resume {store.path}` runs the unit again")
    if store.done.damaged:
        lines = ", ".join(map(str, store.done.damaged[:_MOST_NAMES]))
        text = f"{DONE} is damaged in line {lines}: `fedwave resume {store.path}` runs what it lacks again"
        yield Finding("units", "wrong", text)
    own = {name for unit in units for name in table_names(unit)}
    there = {
        f"{path.parent.name}/{path.name}" for kind in ("rounds", "devices") for path in store.path.glob(f"{kind}/*")
    }
    if stray := sorted(name for name in there - own if os.path.isfile(store.path / name)):
        text = f"{listed_names(stray)}: of no unit of this run: remove it, or results of two runs are mixed"
        yield Finding("units", "wrong", text)
    if missing:
        text = f"{missing} of {plural(len(units), 'unit')} not finished: `fedwave resume {store.path}` goes on"
        yield Finding("units", "open", text)
    elif not wrong:
        yield Finding("units", "ok", f"{plural(len(units), 'unit')} of one run, run id {store.manifest.run_id[:12]}")
    for unit in units:
        path = store.checkpoint(unit)
        if not os.path.lexists(path):
            continue
        try:
            with opened(path, "it") as (file, _):
                check_checkpoint_file(file, unit)
        except FedwaveError as error:
            text = f"the checkpoint {path.name} cannot be used, so its unit would start anew ({error})"
            yield Finding("units", "wrong", text)


def _sums(store: RunFolder) -> Iterator[Finding]:
    if not is_there(store.path / SUMS):
        yield Finding("sums", "open", f"there is no {SUMS}: it is written when the run ends")
        return
    try:
        known = read_sums(store.path)
        changes = changed_files(store.path, known)
        lost = sorted(store.checksums().keys() - known.keys())
    except FedwaveError as error:
        yield Finding("sums", "wrong", str(error))
        return
    again = "`fedwave report` writes tables and figures again, `fedwave resume` units"
    for state in ("changed", "missing"):
        if names := [name for name, what in changes.items() if what == state]:
            yield Finding("sums", "wrong", f"{listed_names(names)}: {state} ({again})")
    if lost:
        yield Finding("sums", "wrong", f"{listed_names(lost)}: not in {SUMS} (`fedwave report` writes it again)")
    if not changes and not lost:
        yield Finding("sums", "ok", f"{plural(len(known), 'file')} as written")
    if links := [name for name in known if os.path.islink(store.path / name)]:
        yield Finding("sums", "note", f"{listed_names(links)}: a link, so that the file lies elsewhere")


def _inputs(store: RunFolder) -> Iterator[Finding]:
    known = store.manifest.inputs
    if not known:
        yield Finding("inputs", "ok", "none from outside")
    for name, one in known.items():
        if one.kind == "dataset":
            yield _dataset(name.removeprefix("dataset "), one.sha256)
        elif one.kind == "part":
            yield Finding("inputs", "note", f"{name} was defined by a script or a notebook: it is not pinned")
        elif one.copy is None:
            yield Finding("inputs", "ok", f"{name} is pinned, too large to keep")
        elif inputs.has_copy(store.path, one):
            yield Finding("inputs", "ok", f"{name} is kept")
        else:
            yield Finding("inputs", "wrong", f"{one.copy} is missing or has changed")
    if any(one.kind in ("code", "module", "part") for one in known.values()):
        text = "files that your own code opens by itself are not covered: only those that the experiment names"
        yield Finding("inputs", "note", text)


def _dataset(name: str, pinned: str) -> Finding:
    """A built-in dataset is looked at if it is here; one of the user's own would need the user's code."""
    text = f"dataset {name} is pinned by its checksum"
    if name not in DATASETS:
        return Finding("inputs", "ok", f"{text}; whether it is the same now is not checked")
    from fedwave.learning.datasets.mnist_cifar import load_dataset

    try:
        now = inputs.arrays_sha256(load_dataset(name, fetch=False))
    except FedwaveError:
        return Finding("inputs", "ok", f"{text}; it is not here to be checked")
    if now == pinned:
        return Finding("inputs", "ok", f"{text}; it is the same here")
    return Finding("inputs", "note", f"{text}; here it is another")


def _versions(store: RunFolder) -> Iterator[Finding]:
    made = all_versions(store.done.units.values())
    for one in made[1:]:
        yield Finding("versions", "note", versions_apart(made[0], one, "some units with", "others with"))
    if made:
        here = installed_versions(made[-1])
        apart = versions_apart(made[-1], here, "made with", "here is")
        state, text = ("note", apart) if apart else ("ok", f"those installed: {versions_shown(here)}")
        yield Finding("versions", state, text)


def listed_names(names: Sequence[str]) -> str:
    """The first of them."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
