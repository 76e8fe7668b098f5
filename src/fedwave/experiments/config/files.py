"""The files that an experiment names: the user's own code, device tables, records, curves, data.

The fields `imports` and `network.file` are files, and the parameters path, file, ..._path and ..._file of a part are;
paths, files, ..._paths and ..._files are lists of them. Any other text parameter, or text in a list, is a file if it
looks like one (with an ending or a slash) and there is one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.parts import PART_LISTS, PARTS, Part
from fedwave.experiments.config.schema import typed
from fedwave.experiments.config.sweep import to_mapping
from fedwave.parts import registry
from fedwave.parts.user_code import is_module

# Called with a text that can be a file, and whether its field says that it is one; returns what replaces it.
Change = Callable[[str, bool], str]


def rooted(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The content of an experiment's file with absolute paths, which were seen from ``folder``."""

    def absolute(text: str, sure: bool) -> str:
        path = os.path.abspath(folder / text)
        looks_so = os.sep in text or bool(os.path.splitext(text)[1])
        return path if sure or (looks_so and os.path.isfile(path)) else text

    return _changed(content, absolute)


def with_absolute_paths(experiment: Experiment) -> Experiment:
    """The same experiment, as any folder can run it."""
    return _same_if_equal(experiment, rooted(to_mapping(experiment), Path()))


def replaced(content: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The content of an experiment's file with other names for some of its files."""
    return _changed(content, lambda text, sure: names.get(text, text))


def renamed(experiment: Experiment, names: Mapping[str, str]) -> Experiment:
    """The same experiment with other names for some of its files."""
    return _same_if_equal(experiment, replaced(to_mapping(experiment), names)) if names else experiment


def data_files(experiment: Experiment) -> list[str]:
    """The files that are read as data, of an experiment with absolute paths, in order, at all points of its sweep."""
    found: dict[str, None] = {}

    def note(text: str, sure: bool) -> str:
        if os.path.isabs(text) and os.path.isfile(text):
            found[text] = None
        return text

    _walk("", {**to_mapping(experiment), "imports": []}, note)
    return list(found)


def _same_if_equal(experiment: Experiment, content: dict[str, Any]) -> Experiment:
    return experiment if content == to_mapping(experiment) else typed(content)


def _changed(content: Mapping[str, Any], change: Change) -> dict[str, Any]:
    changed: dict[str, Any] = _walk("", content, change)
    schedulers, against = content.get("schedulers"), content.get("against")
    if isinstance(against, str) and isinstance(schedulers, list) and changed["schedulers"] != schedulers:
        with suppress(FedwaveError):  # schedulers of another form are refused where fields are checked
            before, after = (
                [str(Part.of("scheduler", one, "schedulers")) for one in found]
                for found in (schedulers, changed["schedulers"])
            )
            changed["against"] = dict(zip(before, after, strict=True)).get(against, against)
    return changed


def _walk(where: str, value: Any, change: Change) -> Any:
    """The value of a field, with its dots; a value of the wrong type is left to be refused elsewhere."""
    if where == "imports":
        return [_code(v, change) for v in value] if isinstance(value, list) else value
    if where == "network.file":
        return change(value, True) if isinstance(value, str) and value else value
    if where in PART_LISTS:
        return [_part(v, change) for v in value] if isinstance(value, list) else value
    if where in PARTS:
        return _part(value, change)
    if any(where.startswith(f"{part}.") for part in PARTS):
        return _parameter(where.rpartition(".")[2], value, change)
    if where == "sweep" and isinstance(value, Mapping):
        return {
            axis: [_walk(axis, v, change) for v in values] if isinstance(values, list) else values
            for axis, values in value.items()
        }
    if isinstance(value, Mapping):
        return {k: _walk(f"{where}.{k}" if where else str(k), v, change) for k, v in value.items()}
    return value


def _code(source: Any, change: Change) -> Any:
    return source if not isinstance(source, str) or is_module(source) else change(source, True)


def _part(part: Any, change: Change) -> Any:
    """A part as a mapping if a file in it changes, in its parameters and in its label; else as it was."""
    given = part
    if isinstance(part, str):
        if ":" not in part:
            return part
        try:
            given = registry.parse("fading", part)  # the family only words a refusal
        except FedwaveError:
            return part
    if not isinstance(given, Mapping):
        return part
    files: dict[str, str] = {}

    def noted(text: str, sure: bool) -> str:
        files[text] = change(text, sure)
        return files[text]

    changed = {k: v if k in ("name", "as") else _parameter(k, v, noted) for k, v in given.items()}
    if changed == given:
        return part
    if isinstance(changed.get("as"), str):
        for old, new in files.items():
            changed["as"] = changed["as"].replace(old, new)
    return changed


def _parameter(name: str, value: Any, change: Change) -> Any:
    if isinstance(value, Mapping):
        return _part(value, change)
    if isinstance(value, (list, tuple)):
        single = name.removesuffix("s") if name.endswith(("paths", "files")) else name
        return type(value)(_parameter(single, one, change) for one in value)
    if not isinstance(value, str) or not value or "://" in value:
        return value
    sure = name in ("path", "file") or name.endswith(("_path", "_file"))
    if not sure and ":" in value and "=" in value:  # a part within a part
        return _part(value, change)
    return change(value, sure)
