"""The inputs of a run: everything from outside that decides numbers, copied into inputs/ or pinned by its checksum.

    inputs/devices.csv    a "data" file; the experiment names it by its copy
    inputs/my_parts.py    "code" that ``imports`` names
    module helpers        a "module" that such code loads from its own folder
    dataset mnist         the arrays of a "dataset"
    scheduler mine        a "part" that a script or a notebook defined: named, not pinned

Large files are pinned and not copied. Data are read from the copy. Code is not: a run folder from somebody else must
not execute code (trusted_code.py).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.files import data_files
from fedwave.experiments.config.parts import Part
from fedwave.experiments.store.checksums import file_sha256, sha256
from fedwave.experiments.store.own_parts import script_parts
from fedwave.files.reading import read_bytes
from fedwave.files.writing import write_whole
from fedwave.parts import registry
from fedwave.parts.user_code import helper_modules, imported_sources, module_file

_FOLDER, _MODULE = "inputs/", "module "
NOT_PINNED = ""
MOST_BYTES = 20_000_000  # of a file that is copied


@dataclass(frozen=True)
class Input:
    """One input, as run.json has it."""

    kind: str
    sha256: str  # NOT_PINNED: of a part
    copy: str | None = None  # in the run folder

    @classmethod
    def read(cls, content: Any) -> Input:
        """From a file, which may be untrusted: nothing is written or read elsewhere."""
        one = cls(**content)
        own = one.copy is None or one.copy == _FOLDER + Path(one.copy).name
        if not (own and isinstance(one.kind, str) and isinstance(one.sha256, str)):
            raise ValueError("at its inputs")
        return one


@dataclass(frozen=True)
class Found:
    """An input where it is now."""

    name: str
    kind: str
    sha256: str
    path: str | None = None  # None: a dataset, a part
    text: str | None = None  # of code, as this process has executed it


def find_inputs(experiment: Experiment, known: Mapping[str, Input]) -> list[Found]:
    """The files of an experiment with absolute paths, and parts of scripts.

    ``known`` are the inputs of a run that goes on: a file with the same content keeps its name.
    """
    found: list[Found] = []

    def note(kind: str, path: str, checksum: str, text: str | None = None) -> None:
        taken = {one.name for one in found}
        same = [n for n, one in known.items() if (one.kind, one.sha256) == (kind, checksum) and n not in taken]
        called = [name for name in same if Path(name).name == Path(path).name]
        name = (called or same or [_free(path, taken)])[0]
        found.append(Found(name, kind, checksum, path, text))

    for path, text in imported_sources(experiment.imports).items():
        note("code", path, sha256(text.encode()), text)
    for path in data_files(experiment):
        note("data", path, file_sha256(path))
    for module, path in helper_modules(experiment.imports).items():
        found.append(Found(_MODULE + module, "module", file_sha256(path), path))
    return found + [Found(name, "part", NOT_PINNED) for name in script_parts(experiment)]


def found_dataset(part: Part, named: Part) -> Found:
    """A dataset, which is loaded; ``named`` as the experiment in the folder has it."""
    return Found(f"dataset {named}", "dataset", arrays_sha256(registry.build("dataset", part)))


def check_unchanged(folder: Path, found: Iterable[Found], known: Mapping[str, Input]) -> None:
    """Raises FedwaveError for inputs with another content than when the run in this folder was begun."""
    now = {one.name: (one.sha256, one.path or one.name) for one in found}
    # Modules that this process had loaded before it imported the user's files.
    now |= {name: (file_sha256(path), path) for name, path in _modules(known).items()}
    for name, (checksum, path) in now.items():
        if name in known and known[name].sha256 != checksum:
            raise FedwaveError(
                f"{path} has changed since the run in {folder} was begun: restore it{copy_note(folder, known[name])}, "
                "or start a new run."
            )


def copy_note(folder: Path, one: Input) -> str:
    """Says where the copy of an input is, for a refusal."""
    return f" (a copy is {folder / one.copy})" if one.copy is not None else ""


def keep_inputs(folder: Path, found: Sequence[Found]) -> dict[str, Input]:
    """Copy the inputs of a run that begins into its folder."""
    taken, kept = {one.name for one in found}, {}
    for one in found:
        copy = None
        if one.path is not None and (one.text is not None or os.path.getsize(one.path) <= MOST_BYTES):
            copy = one.name if one.name.startswith(_FOLDER) else _free(one.path, taken)
            taken.add(copy)
            _write_copy(folder / copy, one)
        kept[one.name] = Input(one.kind, one.sha256, copy)
    return kept


def restore_copies(folder: Path, found: Iterable[Found], known: Mapping[str, Input]) -> list[str]:
    """Make missing or damaged copies again from the same files; says which."""
    said = []
    for one in found:
        old = known.get(one.name)
        if old is not None and old.copy is not None and one.path is not None and not has_copy(folder, old):
            _write_copy(folder / old.copy, one)
            said.append(f"{folder / old.copy} was damaged or missing: it is copied again from {one.path}.")
    return said


def has_copy(folder: Path, one: Input) -> bool:
    """Is there a copy, with the right checksum?"""
    return one.copy is not None and _is_file(folder / one.copy, one.sha256)


def data_places(folder: Path, known: Mapping[str, Input], places: Mapping[str, str]) -> dict[str, str]:
    """The data files to resume with, by name: the copy, or the original if it is unchanged."""
    found = {}
    for name, one in known.items():
        if one.kind != "data":
            continue
        tried = [folder / one.copy] if one.copy is not None else []
        tried += [Path(places[name])] if name in places else []
        path = next((path for path in tried if _is_file(path, one.sha256)), None)
        if path is None:
            raise FedwaveError(
                f"{' and '.join(map(str, tried)) or name}, which the run in {folder} reads, is missing or has "
                "changed: restore it."
            )
        found[name] = os.path.abspath(path)
    return found


def check_pins(pins: Mapping[str, str], places: Mapping[str, str]) -> None:
    """Raises FedwaveError for files and modules that were edited since the run was begun; for workers."""
    for name, path in {**places, **_modules(pins)}.items():
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
    """The checksum of the four arrays of a Dataset."""
    total = hashlib.sha256()
    for name in ("train_images", "train_labels", "test_images", "test_labels"):
        array = getattr(dataset, name)
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(memoryview(array).cast("B"))
    return total.hexdigest()


def _is_file(path: Path, checksum: str) -> bool:
    return os.path.isfile(path) and file_sha256(path) == checksum


def _write_copy(copy: Path, found: Found) -> None:
    assert found.path is not None
    content = read_bytes(found.path, found.path, MOST_BYTES) if found.text is None else found.text.encode()
    if sha256(content) != found.sha256:
        raise FedwaveError(f"{found.path} has changed in this moment: run the command again.")
    write_whole(copy, lambda file: file.write(content))


def _modules(names: Iterable[str]) -> dict[str, str]:
    """The files of the pinned modules that are loaded, by the names of the inputs."""
    modules = [name for name in names if name.startswith(_MODULE)]
    files = ((name, module_file(name.removeprefix(_MODULE))) for name in modules)
    return {name: file for name, file in files if file is not None}


def _free(path: str, taken: Iterable[str]) -> str:
    """A name in inputs/ that is not taken."""
    used, name = set(taken), Path(path).name
    tries = (_FOLDER + (f"{k}_{name}" if k else name) for k in range(len(used) + 1))
    return next(one for one in tries if one not in used)
