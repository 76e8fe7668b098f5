"""What a finished run can mend without running anything: copies of inputs, and the record of its machines."""

from __future__ import annotations

import os
from pathlib import Path

from fedwave.errors import FedwaveError
from fedwave.experiments.results import inputs
from fedwave.experiments.results.folder import RunFolder
from fedwave.experiments.results.provenance import runs_of, write_provenance
from fedwave.experiments.results.sealed import Damaged
from fedwave.files import write_whole


def mend(folder: Path) -> list[str]:
    """Mend what no result needs; says what was damaged. The caller holds the lock of the folder."""
    return [*_mend_copies(folder), *_mend_provenance(folder)]


def pinned_copies(folder: Path) -> dict[str, str]:
    """The sums that the copies of inputs must have, by the names of their files."""
    try:
        known = inputs.known_inputs(folder).values()
    except FedwaveError:
        return {}  # a damaged list: a finished run does not need it
    return {one.copy: one.sha256 for one in known if one.copy is not None}


def _mend_copies(folder: Path) -> list[str]:
    said = []
    try:
        known, places = inputs.known_inputs(folder), inputs.known_places(folder)
    except FedwaveError:
        return []
    for name, one in known.items():
        path = folder / one.copy if one.copy is not None else None
        if path is None or (os.path.isfile(path) and inputs.file_sum(str(path)) == one.sha256):
            continue
        place = places.get(name)
        if place and os.path.isfile(place) and inputs.file_sum(place) == one.sha256:
            content = Path(place).read_bytes()
            write_whole(path, lambda file, content=content: file.write(content))  # type: ignore[misc]
            said.append(f"{path} was damaged or missing: it is copied again from {place}.")
        else:
            original = f"its original is not at {place}" if place else "its original is not known"
            said.append(f"{path} is damaged or missing, and {original}; no result needs it.")
    return said


def _mend_provenance(folder: Path) -> list[str]:
    try:
        runs_of(folder)
    except Damaged as damage:
        store = RunFolder(folder)
        write_provenance(folder, store.stored(), store.config())
        return [f"{damage} No result depends on it; it is begun anew."]
    return []
