"""The user's code that resuming a run needs; it is executed only if the user names it.

A run folder may come from somebody else, so it names no code itself: ``--import`` does (``imports`` in Python), and so
does an earlier import in this process. Files are recognised by their checksums.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from fedwave.errors import FedwaveError
from fedwave.experiments.store.inputs import part_title
from fedwave.experiments.store.manifest import Manifest
from fedwave.parts import registry
from fedwave.parts.user_code import find_named, is_module


def named_code(
    folder: Path, manifest: Manifest, paths: Mapping[str, str], given: Collection[str]
) -> dict[str, tuple[str, str]]:
    """The path and text of every file of the user's that the run needs, by name. Executes nothing.

    Raises FedwaveError if one is neither in ``given`` nor imported by this process.
    """
    imports, known = manifest.experiment.imports, manifest.inputs
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


def _path_to_name(name: str, paths: Mapping[str, str]) -> str:
    """What to name: a module, the path of a file if it is still there, or else the file's name."""
    path = paths.get(name, "")
    return path if os.path.isfile(path) else Path(name).name
