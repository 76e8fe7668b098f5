"""The user's own files that an experiment imports: copies for people in its run folder, and their checksums.

A run that goes on must use the same files. They are taken from the user's places, never from the run folder: opening a
folder that somebody else made must not execute what lies in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import filterfalse
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.files import write_json, write_text
from fedwave.parts_import import checksum, is_module, read_source

_FOLDER, _LIST = "inputs", "inputs/inputs.json"


def keep_inputs(folder: Path, sources: Mapping[str, str]) -> None:
    """Copy the files into the run folder, or check that they are the same as in the copies there."""
    known = _known(folder)
    for path, source in sources.items():
        _check_place(folder, path)
        if path in known and checksum(source) != known[path]["sha256"]:
            raise _changed(folder, path, known[path])
    if not sources.keys() - known.keys():
        return
    for path, source in sources.items():
        name = Path(path).name
        taken = {entry["copy"] for entry in known.values()}
        copies = (
            f"{_FOLDER}/{k}_{name}" if k else f"{_FOLDER}/{name}" for k in range(len(taken) + 1)
        )
        copy = next(copy for copy in copies if copy not in taken)
        write_text(folder / copy, source)
        known[path] = {"copy": copy, "sha256": checksum(source)}
    write_json(folder / _LIST, known)


def find_inputs(folder: Path, imports: Iterable[str], given: Sequence[str]) -> dict[str, str]:
    """The text of every imported file by its stored path: from the files ``given``, else from the old place."""
    known, offered = _known(folder), {}
    for name in filterfalse(is_module, given):
        _check_place(folder, name)
        offered[checksum(read_source(name))] = name
    found, missing = {}, []
    for path in filterfalse(is_module, imports):
        if path not in known:
            raise FedwaveError(f"{folder / _LIST} is damaged: it does not name {path}.")
        wanted = known[path]["sha256"]
        place = offered.pop(wanted, path)
        _check_place(folder, place)
        if not os.path.exists(place):
            missing.append(path)
            continue
        source = read_source(place)
        if checksum(source) != wanted:
            raise _changed(folder, place, known[path])
        found[path] = source
    for name in offered.values():
        raise FedwaveError(
            f"{name} is none of the files that the run in {folder} was started with: its content differs from "
            f"the copies in {folder / _FOLDER}."
        )
    if missing:
        raise FedwaveError(
            f"{missing[0]}, which the run in {folder} imports, is missing: put it back, or name its new place "
            "with --import."
        )
    return found


def _known(folder: Path) -> dict[str, Any]:
    path = folder / _LIST
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_bytes())
        return {
            str(p): {k: str(entry[k]) for k in ("copy", "sha256")} for p, entry in content.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FedwaveError(f"{path} is damaged ({error}).") from None


def _check_place(folder: Path, path: str) -> None:
    if Path(path).resolve().is_relative_to(folder.resolve()):
        raise FedwaveError(
            f"{path} lies in the run folder, from which no code is imported: copy it to a place of your own, and "
            "name that with --import."
        )


def _changed(folder: Path, path: str, entry: Mapping[str, str]) -> FedwaveError:
    return FedwaveError(
        f"{path} has changed since the run in {folder} was started: restore it (a copy is {folder / entry['copy']}), "
        "or start a new run."
    )
