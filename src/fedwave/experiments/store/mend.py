"""What a finished run can mend without running anything: copies of inputs, and the record of its machines."""

from __future__ import annotations

import os
from pathlib import Path

from fedwave.errors import FedwaveError
from fedwave.experiments.store import inputs
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.provenance import forget_provenance, lost_origin


def mend(folder: Path) -> list[str]:
    """Mend what no result needs; says what was damaged. The caller holds the lock of the folder."""
    return [*_mend_copies(folder), *_mend_provenance(folder)]


def _mend_copies(folder: Path) -> list[str]:
    try:
        known, places = inputs.known_inputs(folder), inputs.known_places(folder)
    except FedwaveError:
        return []  # a finished run does not need them
    there = [
        inputs.Found(name, one.kind, one.sha256, place)
        for name, one in known.items()
        if os.path.isfile(place := places.get(name, "")) and inputs.file_sum(place) == one.sha256
    ]
    said = inputs.restore_copies(folder, there, known)
    for name, one in known.items():
        if one.copy is not None and not inputs.has_copy(folder, one):
            was = places.get(name)
            original = f"its original is not at {was}" if was else "its original is not known"
            said.append(f"{folder / one.copy} is damaged or missing, and {original}; no result needs it.")
    return said


def _mend_provenance(folder: Path) -> list[str]:
    said, store = lost_origin(folder), RunFolder(folder)
    if said is None:
        return []
    forget_provenance(folder, store.stored(), store.config())
    return [f"{said} No result depends on it; it is begun anew, and no longer says what made them."]
