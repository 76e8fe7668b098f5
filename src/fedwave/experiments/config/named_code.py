"""The config.yaml of a run folder names copies of the user's code; only code that the user names is executed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.files import replaced
from fedwave.parts.user_code import is_module, is_named, named_texts, read_source


def with_named_code(content: Mapping[str, Any], source: Path, given: Sequence[str]) -> dict[str, Any]:
    """The content of an experiment's file, with absolute paths, as it can be run.

    A run folder may come from somebody else, so the imports of its config.yaml are replaced by files with the same text
    that the user has named, or this process imported. Any other file was written by the user, and names its own code.
    """
    imports = content.get("imports")
    if source.name.lower() != "config.yaml" or not os.path.lexists(source.parent / "run.json"):
        return dict(content)
    texts = named_texts(given)
    named, missing = {}, []
    for one in imports if isinstance(imports, list) else ():
        if not isinstance(one, str) or (is_module(one) and is_named(one, given)):
            continue
        same = [] if is_module(one) else [path for path, (text, _) in texts.items() if _is_copy(one, text)]
        if same:
            named[one] = same[0]
        else:
            missing.append(one)
    if missing:
        words = " ".join(f"--import {shlex.quote(one if is_module(one) else Path(one).name)}" for one in missing)
        raise FedwaveError(
            f"{source} needs code of yours, which is executed only if you name it: add `{words}`, with the places of "
            f"the files that {', '.join(missing)} are copies of."
        )
    return replaced(content, named)


def _is_copy(path: str, text: str) -> bool:
    return os.path.isfile(path) and read_source(path) == text
