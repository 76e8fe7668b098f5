"""The user's code that a run folder needs; it is executed only if the user names it.

A run folder may come from somebody else, so neither its records nor its config.yaml name code for the user.
``--import`` does (``imports`` in Python), and so does an earlier import in this process. Files are recognised by their
checksums.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.files import replaced
from fedwave.experiments.store import inputs
from fedwave.experiments.store.own_files import CONFIG, PLAN, PROVENANCE
from fedwave.experiments.store.own_parts import part_title
from fedwave.experiments.store.sealed import Damaged
from fedwave.parts import registry
from fedwave.parts.user_code import checksum, imported_texts, is_module, read_source


def code_for(folder: Path, imports: Sequence[str], given: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The user's files to resume with, by name: where each is now, and its text. Executes nothing."""
    known, trusted = inputs.known_inputs(folder), _Trusted(given)
    lost = [name for name in imports if not is_module(name) and name not in known]
    if lost:
        raise Damaged(f"{folder / inputs.LIST} is damaged: it does not name {lost[0]}.")
    files = {name: trusted.file(known[name]) for name in imports if not is_module(name)}
    missing = {name for name in imports if not (trusted.module(name) if is_module(name) else files[name])}
    if missing:
        trusted.check_used(folder, known, missing)
        words = [files.get(name) or _place(folder, name, known) for name in imports]
        raise FedwaveError(
            f"{folder} needs code of yours, which is executed only if you name it: "
            f"`{resume_command(folder, words)}`{_copies(folder, missing, words)}."
        )
    trusted.check_used(folder, known)
    if not imports:
        _check_script_parts(folder, known)
    return {name: (path, trusted.texts[path]) for name, path in files.items() if path is not None}


def with_trusted_code(content: Mapping[str, Any], file: Path, given: Sequence[str]) -> dict[str, Any]:
    """The content of an experiment's file, with absolute paths, as it can be run.

    The config.yaml of a run folder names inputs by their copies: code is replaced by the same code that the user has
    named, and data without a copy by their old place. Any other file was written by the user, and names its own code.
    """
    folder = file.parent
    beside = (PLAN, PROVENANCE, inputs.LIST)
    if file.name.lower() != CONFIG or not any(os.path.lexists(folder / name) for name in beside):
        return dict(content)
    known, places, trusted = inputs.known_inputs(folder), inputs.known_places(folder), _Trusted(given)
    copies = {os.path.abspath(folder / name): name for name in known}
    moved = {
        path: places.get(name, name)
        for path, name in copies.items()
        if known[name].kind == "data" and known[name].copy is None
    }
    imports = content.get("imports")
    missing: dict[str, str] = {}  # what to name instead
    for source in imports if isinstance(imports, list) else ():
        if not isinstance(source, str):
            continue
        name = copies.get(source)
        if is_module(source):
            if not trusted.module(source):
                missing[source] = source
        elif name is not None and known[name].kind == "code":
            found = trusted.file(known[name])
            moved[source] = found or source
            if found is None:
                missing[name] = _place(folder, name, known)
        elif source not in trusted.texts:
            missing[source] = source
    if missing:
        trusted.check_used(folder, known, missing)
        words = list(missing.values())
        raise FedwaveError(
            f"{file} needs code of yours, which is executed only if you name it: add "
            f"`{_import_words(words)}`{_copies(folder, missing, words)}."
        )
    return replaced(content, moved)


def resume_command(folder: Path, imports: Iterable[str]) -> str:
    """The command that resumes a run; ``imports`` are the files and modules that it needs."""
    words = _import_words(imports)
    return f"fedwave resume {shlex.quote(str(folder))}" + (f" {words}" if words else "")


class _Trusted:
    """The code that the user has named."""

    def __init__(self, given: Iterable[str]) -> None:
        self.given = [one if is_module(one) else os.path.abspath(one) for one in given]
        named = {path: read_source(path) for path in self.given if not is_module(path)}
        self.texts = named | {path: text for path, text in imported_texts().items() if path not in named}
        self._used: set[str] = set()

    def file(self, old: inputs.Input) -> str | None:
        """The path of the named file that is this input; of two files with the same text each is taken once."""
        same = [path for path, text in self.texts.items() if checksum(text) == old.sha256]
        path = next((one for one in same if one not in self._used), same[0] if same else None)
        self._used |= {path} if path else set()
        return path

    def module(self, name: str) -> bool:
        """Has the user named or imported this module?"""
        self._used.add(name)
        return name in self.given or name in sys.modules

    def check_used(self, folder: Path, known: Mapping[str, inputs.Input], missing: Iterable[str] = ()) -> None:
        """Refuse code that was named and is not needed: another version of a missing file, or a superfluous one."""
        others = [one for one in self.given if one not in self._used]
        lost = [name for name in missing if name in known]
        if others and lost:
            called = [name for name in lost if Path(name).name == Path(others[0]).name]
            name = (called or lost)[0]
            raise FedwaveError(
                f"{others[0]} does not have the SHA-256 checksum that the run in {folder} pins for {name}"
                f"{inputs.copy_note(folder, known[name])}: name the file that the run was started with."
            )
        if others and not missing:
            raise FedwaveError(f"{others[0]} is not needed by the run in {folder}: leave it out.")


def _import_words(imports: Iterable[str]) -> str:
    return " ".join(f"--import {shlex.quote(one)}" for one in imports)


def _place(folder: Path, name: str, known: Mapping[str, inputs.Input]) -> str:
    """What to name: a module, the old place of a file if it is still there, or else the file's name."""
    place = inputs.known_places(folder).get(name, "")
    if is_module(name) or not (os.path.isabs(place) and os.path.isfile(place)):
        return Path(name).name
    if inputs.file_sum(place) != known[name].sha256:
        raise inputs.changed(folder, place, known[name])
    return place


def _copies(folder: Path, missing: Iterable[str], words: Iterable[str]) -> str:
    """Says where the copies are of files that are not where they were."""
    lost = [name for name in missing if Path(name).name in words and not is_module(name)]
    return f", with the place of {', '.join(Path(one).name for one in lost)} (copies are in {folder})" if lost else ""


def _check_script_parts(folder: Path, known: Mapping[str, inputs.Input]) -> None:
    """Refuse a run whose parts a script registered, if this process has not registered them."""
    here = {part_title(family, name) for family, parts in registry.own().items() for name in parts}
    lost = [name for name, one in known.items() if one.kind == "part" and name not in here]
    if lost:
        raise FedwaveError(f"{folder} needs the {lost[0]}, which a script or a notebook defined: run that again.")
