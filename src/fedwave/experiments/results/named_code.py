"""The user's code that a run folder needs: nothing of it is executed unless the user has named it.

A run folder may come from somebody else, so neither its list of places nor its config.yaml names code for the user.
``--import`` does (``imports`` in Python), and so does an import that this process has made before. Files are told by
their sums, wherever they lie.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from itertools import filterfalse
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.files import replaced
from fedwave.experiments.results import inputs
from fedwave.experiments.results.own_files import CONFIG, PLAN, PROVENANCE
from fedwave.experiments.results.own_parts import code_name
from fedwave.experiments.results.sealed import Damaged
from fedwave.parts import registry
from fedwave.parts.user_code import checksum, is_module, read_source, texts_imported


@dataclass
class _Named:
    """The code that the user has named, and which of it is needed."""

    folder: Path
    files: dict[str, str]  # the text by absolute path; those of --import first
    given: list[str]  # by --import: absolute paths and modules
    used: set[str] = field(default_factory=set)
    missing: dict[str, inputs.Input | None] = field(default_factory=dict)  # needed, not named

    @classmethod
    def of(cls, folder: Path, given: Iterable[str]) -> _Named:
        words = [one if is_module(one) else os.path.abspath(one) for one in given]
        files = {}
        for path in filterfalse(is_module, words):
            inputs.check_place(folder, path)
            files[path] = read_source(path)
        more = {path: text for path, text in texts_imported().items() if path not in files}
        return cls(folder, files | more, words)

    def file(self, name: str, old: inputs.Input) -> str | None:
        """The path of the named file that is this input."""
        same = [path for path, text in self.files.items() if checksum(text) == old.sha256]
        if not same:
            self.missing[name] = old
            return None
        # Of two files with one content each is taken once.
        path = next((one for one in same if one not in self.used), same[0])
        self.used.add(path)
        return path

    def module(self, name: str) -> None:
        """Note a module that is needed, and refuse one that is not the user's own or an installed one."""
        if name in self.given:
            self.used.add(name)
            if name not in sys.modules:
                _check_module(self.folder, name)
        elif name not in sys.modules:
            self.missing[name] = None

    @property
    def unused(self) -> list[str]:
        return [one for one in self.given if one not in self.used]


def code_for(folder: Path, imports: Sequence[str], given: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The user's files to resume with, by name: where each is now, and its text. Executes nothing."""
    known, named = inputs.known_inputs(folder), _Named.of(folder, given)
    found: dict[str, tuple[str, str]] = {}
    for name in imports:
        if is_module(name):
            named.module(name)
            continue
        if name not in known:
            raise Damaged(f"{folder / inputs.LIST} is damaged: it does not name {name}.")
        path = named.file(name, known[name])
        if path is not None:
            found[name] = (path, named.files[path])
    _refuse_others(named)
    if named.missing:
        words = [found[name][0] if name in found else _place(folder, name, known.get(name)) for name in imports]
        raise FedwaveError(
            f"{folder} goes on with code of yours, which is executed only if you name it: "
            f"`{resume_command(folder, words)}`{_where(named)}."
        )
    if named.unused:
        raise FedwaveError(
            f"{named.unused[0]} is none of the files and modules that the run in {folder} was started with: leave "
            "it out."
        )
    if not imports:
        _check_registered(folder, known)
    return found


def with_named_code(content: Mapping[str, Any], file: Path, given: Sequence[str]) -> dict[str, Any]:
    """The content of an experiment's file, with absolute paths, as it can be run.

    A file in a run folder names inputs by their copies: code is replaced by the same code that the user has named, data
    that have no copy by their old place. An experiment that the user wrote names its code itself.
    """
    folder = file.parent
    known = inputs.known_inputs(folder)
    stored = _is_stored(file)
    if not (known or stored):
        return dict(content)
    copies = {os.path.abspath(folder / name): name for name in known}
    moved: dict[str, str] = {}
    places = inputs.known_places(folder)
    for path, name in copies.items():
        if known[name].kind == "data" and known[name].copy is None:
            moved[path] = places.get(name, name)
    imports = content.get("imports")
    sources = [one for one in imports if isinstance(one, str)] if isinstance(imports, list) else []
    named = _Named.of(folder, given)
    for source in sources:
        if is_module(source):
            if stored:
                named.module(source)
        elif source in copies and known[copies[source]].kind == "code":
            moved[source] = named.file(copies[source], known[copies[source]]) or source
        elif stored and source not in named.files:
            named.missing[source] = None
    if named.missing:
        _refuse_others(named)
        words = [_place(folder, name, old) for name, old in named.missing.items()]
        raise FedwaveError(
            f"{file} is run with code of yours, which is executed only if you name it: add "
            f"`{_import_words(words)}`{_where(named)}."
        )
    return replaced(content, moved)


def resume_command(folder: Path, imports: Iterable[str]) -> str:
    """The command that goes on with a run; ``imports`` are the files and modules that it needs."""
    words = _import_words(imports)
    return f"fedwave resume {shlex.quote(str(folder))}" + (f" {words}" if words else "")


def _import_words(imports: Iterable[str]) -> str:
    return " ".join(f"--import {shlex.quote(one)}" for one in imports)


def _is_stored(file: Path) -> bool:
    """Is it the config.yaml of a run folder?"""
    beside = (PLAN, PROVENANCE, inputs.LIST)
    return file.name.lower() == CONFIG and any(os.path.lexists(file.parent / b) for b in beside)


def _place(folder: Path, name: str, old: inputs.Input | None) -> str:
    """What to name: a module, the old place of a file if it is still there, or else the file's name."""
    if old is None or is_module(name):
        return name
    place = inputs.known_places(folder).get(name, "")
    if not (os.path.isabs(place) and os.path.isfile(place)) or inputs.is_inside(folder, place):
        return Path(name).name
    if inputs.file_sum(place) != old.sha256:
        raise inputs.changed(folder, place, old)
    return place


def _where(named: _Named) -> str:
    """What to do about files that are not where they were."""
    lost = {name: old for name, old in named.missing.items() if old is not None}
    lost = {name: old for name, old in lost.items() if not os.path.isabs(_place(named.folder, name, old))}
    if not lost:
        return ""
    files = ", ".join(Path(name).name for name in lost)
    copies = [str(named.folder / old.copy) for old in lost.values() if old.copy is not None]
    kept = f" (a copy is {', '.join(copies)})" if copies else ""
    return f", with the place of {files}{kept}"


def _refuse_others(named: _Named) -> None:
    """Say which file was meant, if one was named that is none of those that are needed."""
    files = [one for one in named.unused if not is_module(one)]
    lost = {name: old for name, old in named.missing.items() if old is not None}
    if not (files and lost):
        return
    called = [name for name in lost if Path(name).name == Path(files[0]).name]
    name = (called or list(lost))[0]
    copy = lost[name].copy
    kept = f"; a copy of the right file is {named.folder / copy}" if copy is not None else ""
    raise FedwaveError(
        f"{files[0]} does not have the SHA-256 sum that the run in {named.folder} pins for {name}{kept}."
    )


def _check_module(folder: Path, module: str) -> None:
    """Refuse a module from the run folder, and one that only the current folder has: it may be somebody else's."""
    top = module.partition(".")[0]
    spec = PathFinder.find_spec(top)
    if spec is None:  # built in, or found by other means
        return
    for place in filter(None, [spec.origin, *(spec.submodule_search_locations or ())]):
        inputs.check_place(folder, place)
    if PathFinder.find_spec(top, [one for one in sys.path if not _is_current(one)]) is None:
        raise FedwaveError(
            f"module {module} is found only because of the current folder: install it, or add its folder to PYTHONPATH."
        )


def _is_current(entry: str) -> bool:
    """Does Python search it only because it is the current folder?"""
    if not os.path.isabs(entry):
        return True
    chosen = filter(os.path.isabs, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return os.path.realpath(entry) == os.path.realpath(os.curdir) and entry not in chosen


def _check_registered(folder: Path, known: Mapping[str, inputs.Input]) -> None:
    """Refuse a run whose parts a program registered, if this is another program."""
    here = tuple(code_name(f, name) for f, parts in registry.own().items() for name in parts)
    lost = [name for name, one in known.items() if one.kind == "part" and not name.startswith(here)]
    if lost:
        place = inputs.known_places(folder).get(lost[0])
        where = f" ({place})" if place is not None else ""
        raise FedwaveError(
            f"{folder} needs the {lost[0]}, which a program of yours registered{where}: run that program again."
        )
