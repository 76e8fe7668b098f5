"""The inputs of a run: everything from outside that decides numbers, copied into inputs/ or pinned by its checksum.

    inputs/devices.csv    a "data" file; the experiment names it by its copy
    inputs/my_parts.py    "code" that ``imports`` names
    module helpers        a "module" that such code loads from its own folder
    dataset mnist         the arrays of a "dataset"
    scheduler mine        a "part" that a script or a notebook defined: named, not pinned

Large files are pinned and not copied. Data are read from the copy. Code is not: an untrusted run folder must
not execute code, so ``--import`` (``imports`` in Python) names it, or an earlier import in this process.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.files import data_files, with_file_names
from fedwave.experiments.config.run_id import deciding_fields
from fedwave.experiments.config.sweep import to_mapping
from fedwave.experiments.config.units import Unit
from fedwave.experiments.store.checksums import file_sha256
from fedwave.files.checksum import sha256
from fedwave.files.reading import read_bytes
from fedwave.files.writing import write_bytes
from fedwave.parts import registry
from fedwave.parts.user_code import (
    find_importer,
    find_named,
    helper_modules,
    imported_sources,
    is_module,
    is_package_file,
    module_file,
)

_FOLDER, _MODULE = "inputs/", "module "
MOST_BYTES = 20_000_000  # a larger file is not copied


@dataclass(frozen=True)
class Input:
    """One input, an entry of run.json."""

    kind: str
    sha256: str  # empty: of a part, which is not pinned
    copy: str | None = None  # in the run folder

    @classmethod
    def read(cls, content: Any) -> Input:
        """Reads an entry of an untrusted run.json. Raises ValueError if its copy lies outside inputs/."""
        one = cls(**content)
        if one.copy is not None and one.copy != _FOLDER + Path(one.copy).name:
            raise ValueError("at its inputs")
        return one


@dataclass(frozen=True)
class Found:
    """An input where it is now."""

    name: str
    input: Input
    path: str | None = None  # None: a dataset, a part
    text: str | None = None  # the code that this process has executed


def find_inputs(experiment: Experiment, known: Mapping[str, Input]) -> list[Found]:
    """The files of an experiment with absolute paths, and parts of scripts.

    ``known`` are the inputs of a run that is resumed: a file with the same content keeps its name.
    """
    found: list[Found] = []

    def note(kind: str, path: str, text: str | None = None, name: str | None = None) -> None:
        checksum = file_sha256(path) if text is None else sha256(text.encode())
        taken = {one.name for one in found} | {one.input.copy for one in found}
        same = (n for n, one in known.items() if (one.kind, one.sha256) == (kind, checksum) and n not in taken)
        free = next(copy for copy in _copies(path) if copy not in taken)
        name = name or next(same, free)
        small = text is not None or os.path.getsize(path) <= MOST_BYTES
        copy = known[name].copy if name in known else free if small else None
        found.append(Found(name, Input(kind, checksum, copy), path, text))

    for path, text in imported_sources(experiment.imports).items():
        note("code", path, text)
    for path in data_files(experiment):
        note("data", path)
    loaded = {_MODULE + module: path for module, path in helper_modules(experiment.imports).items()}
    # Also those that this process had loaded before it imported the user's files.
    for name, path in (loaded | _modules(known)).items():
        note("module", path, name=name)
    of_scripts = [
        Found(part_title(family, name), Input("part", ""))
        for (family, name), part in _own_parts(experiment).items()
        if family != "dataset" and find_importer(part) is None and not _package(part)
    ]
    return found + of_scripts


def find_datasets(units: Iterable[Unit], paths: Mapping[str, str]) -> list[Found]:
    """The datasets that the units learn, each once; they are loaded. ``paths`` are those of the files."""
    found = {}
    for unit in units:
        task, located = unit.experiment.task, with_file_names(unit.experiment, paths).task
        if task is not None and located is not None:
            found[f"dataset {task.dataset}"] = located.dataset
    sums = {name: arrays_sha256(registry.build("dataset", part)) for name, part in found.items()}
    return [Found(name, Input("dataset", checksum)) for name, checksum in sums.items()]


def check_unchanged(folder: Path, found: Iterable[Found], known: Mapping[str, Input]) -> None:
    """Raises FedwaveError for inputs with another content than when the run in this folder was begun."""
    for one in found:
        before = known.get(one.name, one.input)
        if before.sha256 != one.input.sha256:
            copy = f" (a copy is {folder / before.copy})" if before.copy is not None else ""
            raise FedwaveError(
                f"{one.path or one.name} has changed since the run in {folder} was begun: restore it{copy}, or start "
                "a new run."
            )


def write_copies(folder: Path, found: Iterable[Found]) -> list[str]:
    """Copy inputs without a copy, or with a corrupt one; returns the copies that were written."""
    written = []
    for one in found:
        if one.path is None or one.input.copy is None or has_copy(folder, one.input):
            continue
        content = read_bytes(one.path, one.path, MOST_BYTES) if one.text is None else one.text.encode()
        if sha256(content) != one.input.sha256:
            raise FedwaveError(f"{one.path} changed while it was being copied: run the command again.")
        write_bytes(folder / one.input.copy, content)
        written.append(one.input.copy)
    return written


def has_copy(folder: Path, one: Input) -> bool:
    """Is there a copy, with the right checksum?"""
    return one.copy is not None and _is_file(folder / one.copy, one.sha256)


def data_paths(folder: Path, known: Mapping[str, Input], paths: Mapping[str, str]) -> dict[str, str]:
    """The data files to resume with, by name: the copy, or the original if it is unchanged."""
    found = {}
    for name, one in known.items():
        if one.kind != "data":
            continue
        tried = [folder / one.copy] if one.copy is not None else []
        tried += [Path(paths[name])] if name in paths else []
        path = next((path for path in tried if _is_file(path, one.sha256)), None)
        if path is None:
            raise FedwaveError(
                f"{' and '.join(map(str, tried)) or name}, which the run in {folder} reads, is missing or has "
                "changed: restore it."
            )
        found[name] = os.path.abspath(path)
    return found


def named_code(
    folder: Path, imports: Sequence[str], known: Mapping[str, Input], paths: Mapping[str, str], given: Collection[str]
) -> dict[str, tuple[str, str]]:
    """The path and text of every file of the user's that resuming a run needs, by name. Executes nothing.

    A run folder may be untrusted, so it names no code itself. Raises FedwaveError for a file that is neither
    in ``given`` nor imported by this process; ``paths`` say where files were when the run was begun.
    """
    found, missing = find_named({name: known[name].sha256 if name in known else "" for name in imports}, given)
    if missing:
        words = [found[name][0] if name in found else _path_to_name(name, paths) for name in imports]
        copies = [str(folder / name) for name in missing if not is_module(name)]
        look = f", with the SHA-256 checksums of these copies: {', '.join(copies)}" if copies else ""
        raise FedwaveError(
            f"{folder} needs code of yours, which is executed only if you name it: "
            f"`{resume_command(folder, words)}`{look}."
        )
    here = {part_title(family, name) for family, parts in registry.own().items() for name in parts}
    for name, one in known.items():
        if one.kind == "part" and name not in here:
            raise FedwaveError(f"{folder} needs the {name}, which a script or a notebook defined: run that again.")
    return found


def resume_command(folder: Path, imports: Iterable[str]) -> str:
    """The command that resumes a run; ``imports`` are the files and modules that it needs."""
    words = [f"--import {shlex.quote(one)}" for one in imports]
    return " ".join([f"fedwave resume {shlex.quote(str(folder))}", *words])


def check_pins(pins: Mapping[str, str], paths: Mapping[str, str]) -> None:
    """Raises FedwaveError for files and modules that were edited since the run was begun; for workers."""
    for name, path in {**paths, **_modules(pins)}.items():
        if name in pins and file_sha256(path) != pins[name]:
            raise FedwaveError(f"{path} has changed since the run was begun: restore it, and resume.")


def check_dataset(name: str, dataset: Any, pinned: str) -> None:
    """Raises FedwaveError for a dataset with other arrays than when the run was begun; for workers."""
    if arrays_sha256(dataset) != pinned:
        raise FedwaveError(
            f"dataset {name} has other arrays than when the run was begun: does it draw without a seed, or have its "
            "files changed?"
        )


def arrays_sha256(dataset: Any) -> str:
    """The checksum of the arrays of a Dataset."""
    total = hashlib.sha256()
    owner = () if dataset.owner is None else ("owner",)
    for name in ("train_inputs", "train_targets", "test_inputs", "test_targets", *owner):
        array = getattr(dataset, name)
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(memoryview(array).cast("B"))
    return total.hexdigest()


def package_versions(experiment: Experiment) -> dict[str, str]:
    """The versions of the installed packages that define parts of an experiment, by name."""
    packages = {_package(part) for part in _own_parts(experiment).values()} - {""}
    known = metadata.packages_distributions() if packages else {}
    return {name: metadata.version(name) for package in sorted(packages) for name in known.get(package, ())}


def part_title(family: str, name: str) -> str:
    """The name of a part in the record of a run."""
    return f"{registry.word(family)} {name}"


def _own_parts(experiment: Experiment) -> dict[tuple[str, str], Any]:
    """The registered parts that an experiment names, by family and name: every word of its fields may be a name."""
    fields = json.dumps(deciding_fields(to_mapping(experiment)), ensure_ascii=False)
    words = {word.strip() for word in re.split('[":,;=]', fields)}
    own = registry.own()
    return {(family, name): part for family in own for name, part in own[family].items() if name in words}


def _package(part: Any) -> str:
    """The installed package that defines a part; empty if none does."""
    module = getattr(part, "__module__", None) or ""
    file = module_file(module)
    return module.partition(".")[0] if file is not None and is_package_file(file) else ""


def _is_file(path: Path, checksum: str) -> bool:
    return os.path.isfile(path) and file_sha256(path) == checksum


def _modules(names: Iterable[str]) -> dict[str, str]:
    """The files of the pinned modules that are loaded, by the names of the inputs."""
    modules = [name for name in names if name.startswith(_MODULE)]
    files = ((name, module_file(name.removeprefix(_MODULE))) for name in modules)
    return {name: file for name, file in files if file is not None}


def _copies(path: str) -> Iterator[str]:
    """Names in inputs/ for a copy of a file, the best one first."""
    yield _FOLDER + Path(path).name
    yield from (f"{_FOLDER}{number}_{Path(path).name}" for number in count(1))


def _path_to_name(name: str, paths: Mapping[str, str]) -> str:
    """The module, or the path of the file if it still exists, or else the file's name."""
    path = paths.get(name, "")
    return path if os.path.isfile(path) else Path(name).name
