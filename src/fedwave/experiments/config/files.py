"""The files that an experiment names: the user's own code, device tables, records, curves, data.

The fields `imports` and `network.file` are files, and the parameters path, file, ..._path and ..._file of a part are;
paths, files, ..._paths and ..._files are lists of them. A log may be a folder or a pattern of files, which are then
named one by one, or a mapping from device names to files. Any other text parameter, or text in a list, is a file if it
looks like one (with an ending or a slash) and there is one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.sweep import to_mapping
from fedwave.network.log_files import named_files
from fedwave.parts import registry
from fedwave.parts.user_code import is_module

# Called with a text that can be a file, and whether its field is always a file; returns the replacement.
Change = Callable[[str, bool], str]

_TEXTS = ("name", "kind", "as", "against", "metric", "instead_of")  # fields and parameters that are no file


def with_absolute_files(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The content of an experiment's file with absolute paths; the given ones are relative to ``folder``."""

    def absolute(text: str, sure: bool) -> str:
        path = os.path.abspath(folder / text)
        looks_so = os.sep in text or bool(os.path.splitext(text)[1])
        return path if sure or (looks_so and os.path.isfile(path)) else text

    return _changed(content, absolute)


def with_absolute_paths(experiment: Experiment) -> Experiment:
    """The experiment with absolute paths."""
    return _same_if_equal(experiment, with_absolute_files(to_mapping(experiment), Path()))


def replaced(content: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The content of an experiment's file with other names for some of its files."""
    return _changed(content, lambda text, sure: names.get(text, text))


def with_file_names(experiment: Experiment, names: Mapping[str, str]) -> Experiment:
    """The experiment with other names for some of its files."""
    return _same_if_equal(experiment, replaced(to_mapping(experiment), names)) if names else experiment


def data_files(experiment: Experiment) -> list[str]:
    """The files that are read as data, of an experiment with absolute paths, in order, at all points of its sweep."""
    found: dict[str, None] = {}

    def note(text: str, sure: bool) -> str:
        if os.path.isabs(text) and os.path.isfile(text):
            found[text] = None
        return text

    _changed({**to_mapping(experiment), "imports": []}, note)
    return list(found)


def _same_if_equal(experiment: Experiment, content: dict[str, Any]) -> Experiment:
    return experiment if content == to_mapping(experiment) else Experiment.of(content)


def _changed(content: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """A mapping with changed files, also in the labels of schedulers, which are texts such as ``mine:path=FILE``."""
    files: dict[str, str] = {}

    def noted(text: str, sure: bool) -> str:
        files[text] = change(text, sure)
        return files[text]

    found = {key: _value(key.rpartition(".")[2], value, noted) for key, value in content.items()}
    if found.get("name") == "log" and isinstance(found.get("path"), (str, list)):
        found["path"] = named_files(found["path"])  # each is pinned by itself
    one = "|".join(map(re.escape, sorted(files, key=len, reverse=True)))
    for key in ("as", "against"):
        if files and isinstance(found.get(key), str):
            found[key] = re.sub(rf"(?<=[='\"])({one})", lambda match: files[match[0]], found[key])
    return found


def _value(name: str, value: Any, change: Change) -> Any:
    """The value of a field or a parameter. One of the wrong type is left to be refused elsewhere."""
    if isinstance(value, Mapping):
        return {k: _value(name, v, change) for k, v in value.items()} if name == "path" else _changed(value, change)
    if isinstance(value, (list, tuple)):
        return [_value(name.removesuffix("s"), one, change) for one in value]
    if not isinstance(value, str) or not value or name in _TEXTS or "://" in value:
        return value
    if name == "import":
        return value if is_module(value) else change(value, True)
    sure = name in ("path", "file") or name.endswith(("_path", "_file"))
    if sure or not (":" in value and "=" in value):
        return change(value, sure)
    try:
        part = registry.parse("fading", value)  # the family only words a refusal
    except FedwaveError:
        return value
    changed = _changed(part, change)
    return value if changed == part else changed
