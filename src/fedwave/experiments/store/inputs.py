"""The inputs of a run, copied into its folder or pinned by checksums: the user's code, data files, datasets.

    inputs/inputs.json   every input by its name: its kind, its SHA-256 checksum, its copy
    inputs/places.json   where the files were found; differs between machines, so no checksum covers it

A file is named by its copy, inputs/devices.csv, in config.yaml too. Large files are pinned and not copied. Data are
read from the copy. Code is not: a run folder from somebody else must not execute code (trusted_code.py).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.files import data_files
from fedwave.experiments.config.parts import Part
from fedwave.experiments.store.own_parts import script_parts
from fedwave.experiments.store.sealed import Damaged, read_sealed, write_sealed
from fedwave.experiments.store.sums import sum_of
from fedwave.files.writing import write_whole
from fedwave.parts import registry
from fedwave.parts.user_code import checksum, helper_modules, module_file

LIST, PLACES = "inputs/inputs.json", "inputs/places.json"
_FOLDER, _MODULE = "inputs/", "module "
NOT_PINNED = ""
MOST_BYTES = 20_000_000  # of a file that is copied


@dataclass(frozen=True)
class Input:
    """One input as inputs.json has it."""

    # "code" that is imported, a "module" that it loads from its own folder, a "part" that a script or a notebook
    # defined, a "data" file, the arrays of a "dataset"
    kind: str
    sha256: str  # NOT_PINNED: of a part
    copy: str | None = None  # in the run folder

    @property
    def is_code(self) -> bool:
        return self.kind in ("code", "module", "part")


@dataclass(frozen=True)
class Found:
    """An input where it is now."""

    name: str
    kind: str
    sha256: str
    place: str | None = None  # None: a dataset, a part
    content: bytes | None = None  # if it was read


def found_files(
    folder: Path, experiment: Experiment, sources: Mapping[str, str], known: Mapping[str, Input]
) -> list[Found]:
    """The files of an experiment with absolute paths; ``sources`` are the texts of the user's files by path.

    ``known`` are the inputs of a run that goes on: code that has moved since keeps its name.
    """
    found: list[Found] = []
    names = _known_names(sources, known)
    taken = set(names.values())

    def name_of(path: str) -> str:
        name = names.get(path) or _own_name(folder, path) or _free(Path(path).name, taken)
        taken.add(name)
        return name

    for path, source in sources.items():
        found.append(Found(name_of(path), "code", checksum(source), path, source.encode()))
    for path in data_files(experiment):
        found.append(Found(name_of(path), "data", file_sum(path), path))
    for module, path in helper_modules(experiment.imports).items():
        found.append(Found(_MODULE + module, "module", file_sum(path), path))
    found += [Found(name, "part", NOT_PINNED) for name in script_parts(experiment)]
    return found


def found_dataset(name: str, part: Part) -> Found:
    """A dataset, which is loaded."""
    return Found(f"dataset {name}", "dataset", arrays_sum(registry.build("dataset", part)))


def check_inputs(folder: Path, found: Iterable[Found]) -> None:
    """Refuse inputs that are not those with which the run in this folder was begun."""
    known = known_inputs(folder)
    now = {one.name: (one.sha256, one.place or one.name) for one in found}
    # Modules that were loaded before the user's files were imported here.
    now |= {name: (file_sum(path), path) for name, path in _modules(known).items()}
    for name, (sum_, place) in now.items():
        if name in known and known[name].sha256 != sum_:
            raise changed(folder, place, known[name])


def keep_inputs(folder: Path, found: Sequence[Found]) -> dict[str, Input]:
    """Copy the inputs of a run that begins into its folder."""
    taken, kept = {one.name for one in found}, {}
    for one in found:
        copy = None
        if one.place is not None and _size(one) <= MOST_BYTES:
            copy = one.name if one.name.startswith(_FOLDER) else _free(Path(one.place).name, taken)
            taken.add(copy)
            _write_copy(folder, copy, one)
        kept[one.name] = Input(one.kind, one.sha256, copy)
    where = {one.name: one.place for one in found if one.place}
    if where:
        write_sealed(folder / PLACES, where)
    if found:
        write_sealed(folder / LIST, {name: asdict(one) for name, one in kept.items()})
    return kept


def restore_copies(folder: Path, found: Iterable[Found], known: Mapping[str, Input]) -> list[str]:
    """Copies that were removed or damaged are made again from the same files; says which."""
    said = []
    for one in found:
        old = known.get(one.name)
        if old is None or old.copy is None or one.place is None:
            continue
        if not has_copy(folder, old):
            _write_copy(folder, old.copy, one)
            path = folder / old.copy
            said.append(f"{path} was damaged or missing: it is copied again from {one.place}.")
    return said


def has_copy(folder: Path, one: Input) -> bool:
    """Is there a copy, with the right sum?"""
    path = folder / one.copy if one.copy is not None else None
    return path is not None and os.path.isfile(path) and file_sum(str(path)) == one.sha256


def pinned_copies(folder: Path) -> dict[str, str]:
    """The sums that the copies must have, by the names of their files; none if the list is damaged."""
    try:
        known = known_inputs(folder).values()
    except FedwaveError:
        return {}  # a finished run does not need it
    return {one.copy: one.sha256 for one in known if one.copy is not None}


def data_for(folder: Path) -> dict[str, str]:
    """The data files to resume with, by name: the copy, or the old place of a large one.

    A file that has changed at its old place is refused; one that is gone from there is not needed.
    """
    places, found = known_places(folder), {}
    for name, old in known_inputs(folder).items():
        if old.kind != "data":
            continue
        place = places.get(name)
        there = place is not None and os.path.isfile(place)
        if there and file_sum(str(place)) != old.sha256:
            raise changed(folder, str(place), old)
        if old.copy is None and not there:
            raise FedwaveError(
                f"{place or name}, which the run in {folder} reads, is missing, and it was too large for a copy: "
                "put it back."
            )
        whole = has_copy(folder, old)
        if old.copy is not None and not (whole or there):
            raise FedwaveError(f"{folder / old.copy} is damaged, and {place} is missing: put it back.")
        # A damaged copy is made again when the run goes on.
        found[name] = os.path.abspath(folder / str(old.copy)) if whole else str(place)
    return found


def known_inputs(folder: Path) -> dict[str, Input]:
    """The inputs of the run in a folder, by name."""
    content = _read_sealed(folder / LIST)
    try:
        known = {str(name): Input(**entry) for name, entry in content.items()}
        for name, one in known.items():
            own = one.copy is None or one.copy == _FOLDER + Path(one.copy).name  # nothing is written elsewhere
            if not (own and isinstance(one.kind, str) and isinstance(one.sha256, str)):
                raise ValueError(f"at {name}")
    except (ValueError, TypeError, AttributeError) as error:
        raise Damaged(f"{folder / LIST} is damaged ({error}).") from None
    return known


def known_places(folder: Path) -> dict[str, str]:
    """Where the files were found: for the machine that the run was begun on."""
    try:
        content = _read_sealed(folder / PLACES)
    except Damaged as damage:
        raise Damaged(f"{damage} Remove it, and name the files that the run imports with --import.") from None
    for name, place in content.items():
        if not isinstance(place, str):
            raise Damaged(f"{folder / PLACES} is damaged (at {name}).")
    return content


def check_pins(pins: Mapping[str, str], places: Mapping[str, str]) -> None:
    """Refuse data files and modules that are not those with which the run was begun; for workers."""
    for name, path in {**places, **_modules(pins)}.items():
        if name in pins and file_sum(path) != pins[name]:
            raise FedwaveError(f"{path} has changed since the run was begun: restore it, and resume.")


def check_dataset(name: str, dataset: Any, pinned: str) -> None:
    """Refuse a dataset whose arrays are not those which the run was begun with; for workers."""
    if arrays_sum(dataset) != pinned:
        raise FedwaveError(
            f"dataset {name} has other arrays than when the run was begun: does it draw without a seed, or have its "
            "files changed?"
        )


def arrays_sum(dataset: Any) -> str:
    """The sum of the four arrays of a Dataset."""
    total = hashlib.sha256()
    for name in ("train_images", "train_labels", "test_images", "test_labels"):
        array = getattr(dataset, name)
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(memoryview(array).cast("B"))
    return total.hexdigest()


def file_sum(path: str) -> str:
    """The sum of a file, which is read again only if it has changed."""
    try:
        state = os.stat(path)
        return _file_sum(path, state.st_size, state.st_mtime_ns, state.st_ino)
    except OSError as error:
        raise FedwaveError(f"{path} cannot be read: {error.strerror}.") from None


@lru_cache(maxsize=256)
def _file_sum(path: str, size: int, changed: int, number: int) -> str:
    return sum_of(Path(path))


def _size(found: Found) -> int:
    assert found.place is not None
    return len(found.content) if found.content is not None else os.path.getsize(found.place)


def _write_copy(folder: Path, copy: str, found: Found) -> None:
    assert found.place is not None
    content = found.content if found.content is not None else Path(found.place).read_bytes()
    if hashlib.sha256(content).hexdigest() != found.sha256:
        raise FedwaveError(f"{found.place} has changed in this moment: run the command again.")
    write_whole(folder / copy, lambda file: file.write(content))


def _modules(names: Iterable[str]) -> dict[str, str]:
    """The files of the pinned modules that are loaded, by the names of the inputs."""
    modules = [name for name in names if name.startswith(_MODULE)]
    files = ((name, module_file(name.removeprefix(_MODULE))) for name in modules)
    return {name: file for name, file in files if file is not None}


def _known_names(sources: Mapping[str, str], known: Mapping[str, Input]) -> dict[str, str]:
    """The names that the user's files had when the run was begun, by their paths now; told by their sums."""
    code = {name: one.sha256 for name, one in known.items() if one.kind == "code"}
    names: dict[str, str] = {}
    for path, source in sources.items():
        same = [name for name, sum_ in code.items() if sum_ == checksum(source)]
        if same:  # of two files with one content, the one that is called like it
            called = [name for name in same if Path(name).name == Path(path).name]
            names[path] = (called or same)[0]
            del code[names[path]]
    return names


def _own_name(folder: Path, path: str) -> str | None:
    """The name of a copy in this folder, which a resumed run reads."""
    inside = os.path.abspath(folder / _FOLDER)
    return _FOLDER + os.path.basename(path) if os.path.dirname(path) == inside else None


def _free(name: str, taken: Iterable[str]) -> str:
    """A name in the folder of inputs that is not taken, nor that of its lists."""
    used = {*taken, LIST, PLACES}
    tries = (_FOLDER + (f"{k}_{name}" if k else name) for k in range(len(used) + 1))
    return next(one for one in tries if one not in used)


def _read_sealed(path: Path) -> dict[str, Any]:
    return read_sealed(path) if path.exists() else {}


def changed(folder: Path, what: str, old: Input) -> FedwaveError:
    """The refusal of an input that is not as it was."""
    return FedwaveError(
        f"{what} has changed since the run in {folder} was started: restore it{copy_note(folder, old)}, or start a "
        "new run."
    )


def copy_note(folder: Path, old: Input) -> str:
    """Says where the copy of an input is, for a refusal."""
    return f" (a copy is {folder / old.copy})" if old.copy is not None else ""
