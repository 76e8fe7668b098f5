"""Checks whether a run folder is complete and sound, without importing or running anything. diff.py compares two."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedwave.errors import FedwaveError, plural
from fedwave.experiments.store import inputs
from fedwave.experiments.store.checkpoint_file import check_checkpoint_file
from fedwave.experiments.store.checksums import SUMS, file_sha256, read_sums
from fedwave.experiments.store.done import DONE
from fedwave.experiments.store.folder import KINDS, RunFolder, table_names
from fedwave.experiments.store.manifest import CONFIG, MANIFEST
from fedwave.experiments.store.provenance import all_versions, installed_versions, versions_apart
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
    """The experiment, units, checkpoints, checksums, inputs and versions of one run folder."""
    store = RunFolder(folder)
    store.check_begun()
    try:
        store.units()
    except FedwaveError as error:
        return [Finding("experiment", "wrong", str(error))]
    first = Finding("experiment", "ok", f"{MANIFEST} and {CONFIG} as they were written")
    return [first, *_units(store), *_checkpoints(store), *_sums(store), *_inputs(store), *_versions(store)]


def _units(store: RunFolder) -> Iterator[Finding]:
    units, again, wrong = store.units(), f"`{store.resume_command()}`", False
    for unit in units:
        try:
            if unit.name in store.done.units:
                store.data(unit)
        except FedwaveError as error:
            wrong = True
            yield Finding("units", "wrong", f"{error} {again} runs the unit again")
    if store.done.corrupt:
        lines = listed_names([*map(str, store.done.corrupt)])
        yield Finding("units", "wrong", f"{DONE} is corrupt in line {lines}: {again} runs what it lacks again")
    own = {name for unit in units for name in table_names(unit)}
    there = {path.relative_to(store.path).as_posix() for kind in KINDS for path in store.path.glob(f"{kind}/*")}
    if stray := sorted(name for name in there - own if os.path.isfile(store.path / name)):
        text = f"{listed_names(stray)}: belongs to no unit of this run; remove it, or results of two runs are mixed"
        yield Finding("units", "wrong", text)
    if missing := sum(unit.name not in store.done.units for unit in units):
        yield Finding("units", "open", f"{missing} of {plural(len(units), 'unit')} not finished: {again} continues")
    elif not wrong:
        yield Finding("units", "ok", f"{plural(len(units), 'unit')} of one run, run id {store.manifest.run_id[:12]}")


def _checkpoints(store: RunFolder) -> Iterator[Finding]:
    for unit in store.units():
        path = store.checkpoint(unit)
        try:
            if os.path.lexists(path):
                with opened(path, "it") as (file, _):
                    check_checkpoint_file(file, unit)
        except FedwaveError as error:
            text = f"the checkpoint {path.name} cannot be used, so its unit would start again ({error})"
            yield Finding("units", "wrong", text)


def _sums(store: RunFolder) -> Iterator[Finding]:
    if not is_there(store.path / SUMS):
        yield Finding("sums", "open", f"there is no {SUMS}: it is written when the run ends")
        return
    try:
        known = read_sums(store.path)
        missing = [name for name in known if not os.path.isfile(store.path / name)]  # also if its name is too long
        changed = [name for name in known.keys() - missing if file_sha256(store.path / name) != known[name]]
    except FedwaveError as error:
        yield Finding("sums", "wrong", str(error))
        return
    again = "`fedwave report` writes tables and figures again, `fedwave resume` units"
    unlisted = store.checksums().keys() - known.keys()
    for names, state in ((changed, "changed"), (missing, "missing"), (unlisted, f"not in {SUMS}")):
        if names:
            yield Finding("sums", "wrong", f"{listed_names(sorted(names))}: {state} ({again})")
    if not (changed or missing or unlisted):
        yield Finding("sums", "ok", f"{plural(len(known), 'file')} as written")
    real = os.path.realpath(store.path)
    if links := [name for name in known if os.path.realpath(store.path / name) != os.path.join(real, name)]:
        yield Finding("sums", "note", f"{listed_names(links)}: reached by a link, so that the file lies elsewhere")


def _inputs(store: RunFolder) -> Iterator[Finding]:
    known = store.manifest.inputs
    if not known:
        yield Finding("inputs", "ok", "none from outside")
    for name, one in known.items():
        if one.kind == "part":
            yield Finding("inputs", "note", f"{name} was defined by a script or a notebook: it is not pinned")
        elif one.copy is None or inputs.has_copy(store.path, one):
            yield Finding("inputs", "ok", f"{name} is {'pinned by its checksum' if one.copy is None else 'kept'}")
        else:
            yield Finding("inputs", "wrong", f"{one.copy} is missing or has changed")
    if any(one.kind in ("code", "module", "part") for one in known.values()):
        text = "files that your own code opens by itself are not covered: only those that the experiment names"
        yield Finding("inputs", "note", text)


def _versions(store: RunFolder) -> Iterator[Finding]:
    made = all_versions(store.done.units.values())
    if not made:
        return
    for one in made[1:]:
        yield Finding("versions", "note", f"units were made with different versions: {versions_apart(made[0], one)}")
    if apart := versions_apart(made[-1], installed_versions(made[-1])):
        yield Finding("versions", "note", f"made with other versions than are installed here: {apart}")
    else:
        shown = ", ".join(f"{name} {version}" for name, version in made[-1].items())
        yield Finding("versions", "ok", f"made with the installed versions: {shown}")


def listed_names(names: Sequence[str]) -> str:
    """The first of them."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
