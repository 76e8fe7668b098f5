"""The user's code that resuming a run needs; it is executed only if the user names it.

A run folder may come from somebody else, so it names no code itself: ``--import`` does (``imports`` in Python), and so
does an earlier import in this process. Files are recognised by their checksums.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedwave.errors import FedwaveError
from fedwave.experiments.store.inputs import copy_note, part_title
from fedwave.experiments.store.manifest import Manifest
from fedwave.parts import registry
from fedwave.parts.user_code import is_module, is_named, named_texts


def named_code(
    folder: Path, manifest: Manifest, places: Mapping[str, str], given: Iterable[str]
) -> dict[str, tuple[str, str]]:
    """The path and text of every file of the user's that the run needs, by name. Executes nothing.

    Raises FedwaveError if one is neither in ``given`` nor imported by this process.
    """
    given, known = list(given), manifest.inputs
    texts = named_texts(given)
    found, missing = dict[str, str](), []
    for name in manifest.experiment.imports:
        pinned = known[name].sha256 if name in known else ""
        same = [path for path, (_, checksum) in texts.items() if checksum == pinned and path not in found.values()]
        if same:
            found[name] = same[0]
        elif not (is_module(name) and is_named(name, given)):
            missing.append(name)
    for name, path in ((name, path) for name in missing for path in given):
        if Path(path).name == Path(name).name and name in known:
            raise FedwaveError(
                f"{path} does not have the SHA-256 checksum that the run in {folder} pins for {name}"
                f"{copy_note(folder, known[name])}: name the file that the run was begun with."
            )
    if missing:
        words = [found.get(name) or _place(name, places) for name in manifest.experiment.imports]
        copies = [str(folder / name) for name in missing if not is_module(name)]
        look = f" (copies to look at: {', '.join(copies)})" if copies else ""
        raise FedwaveError(
            f"{folder} needs code of yours, which is executed only if you name it: "
            f"`{resume_command(folder, words)}`{look}."
        )
    here = {part_title(family, name) for family, parts in registry.own().items() for name in parts}
    for name, one in known.items():
        if one.kind == "part" and name not in here:
            raise FedwaveError(f"{folder} needs the {name}, which a script or a notebook defined: run that again.")
    return {name: (path, texts[path][0]) for name, path in found.items()}


def resume_command(folder: Path, imports: Iterable[str]) -> str:
    """The command that resumes a run; ``imports`` are the files and modules that it needs."""
    words = [f"--import {shlex.quote(one)}" for one in imports]
    return " ".join([f"fedwave resume {shlex.quote(str(folder))}", *words])


def _place(name: str, places: Mapping[str, str]) -> str:
    """What to name: a module, the path of a file if it is still there, or else the file's name."""
    path = places.get(name, "")
    return path if os.path.isfile(path) else Path(name).name
