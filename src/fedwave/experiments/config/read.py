"""Experiments as files: found by name, read with overrides, checked to the last point of their sweep, and written."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, did_you_mean, is_list, short_repr
from fedwave.experiments.config.build import check_buildable
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.files import replaced, with_absolute_files
from fedwave.experiments.config.parts import refusals_at
from fedwave.experiments.config.sweep import check_points, to_mapping, with_value
from fedwave.files.checksum import sha256
from fedwave.files.reading import as_path, read_json, read_text
from fedwave.parts.user_code import absolute, find_named, import_parts, is_module, read_source

_PRESETS = "fedwave.experiments.presets"
_NETWORKS = ("paper", "random")
_FILES = (".yaml", ".yml", ".json")
_DEEPEST = 10
_LONGEST = 1500  # characters of a refusal


def load_experiment(
    source: str | Path,
    overrides: Sequence[str] = (),
    imports: Sequence[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Experiment:
    """An experiment from its file (.yaml, .yml, .json), its preset's name, or its network.

    A network is "paper", "random" or a device table (.csv, .yaml); ``defaults`` are the fields of such an experiment.
    ``overrides`` read ``field=value``. Files that an experiment names are seen from its folder, those in overrides
    from the current folder. ``imports`` are files or modules with parts of your own, beside those that the file names.

    >>> import fedwave as fw
    >>> fw.load_experiment("quick", ["network.slots=3", "instances=4"]).instances
    4
    """
    as_path("an experiment", source)
    overrides, imports = texts("overrides", overrides), texts("imports", imports)
    name, path = str(source), Path(source)
    with _one_line():
        if name in _NETWORKS or _is_device_table(path):
            network = {"kind": name} if name in _NETWORKS else {"kind": "table", "file": name}
            return experiment_from({"name": path.stem, **(defaults or {}), "network": network}, overrides, imports)
        content = with_absolute_files(_plain_copy(_content(name)), path.parent)
        if path.name.lower() == "config.yaml" and os.path.lexists(path.parent / "run.json"):
            content = _with_named_code(content, path, imports)
        try:
            return experiment_from(content, overrides, imports)
        except FedwaveError as error:
            if overrides or not path.suffix or str(error).startswith("imports: "):  # which names a file
                raise
            raise FedwaveError(f"experiment {source}: {error}") from None


def experiment_from(
    mapping: Mapping[str, Any], overrides: Sequence[str] = (), imports: Sequence[str] = ()
) -> Experiment:
    """An experiment from nested mappings, such as the content of a file. Imports are relative to the current folder."""
    with _one_line():
        content = _plain_copy(mapping)
        for text in overrides:
            content = _with_override(content, text)
        experiment = Experiment.of(_imported(content, imports))  # names are looked up after the imports
        check_buildable(experiment)
        if experiment.sweep:
            check_points(experiment, check_buildable)  # finds errors now, not after hours
        return experiment


def stored_experiment(content: Any) -> Experiment:
    """The experiment of a run folder's file: nothing is imported, built or read beside it."""
    with _one_line():
        return Experiment.of(_plain_copy(content))


def to_yaml(experiment: Experiment, only_ascii: bool = False) -> str:
    """The file that gives this experiment, with every field that has a value."""
    from fedwave.files.yaml_text import write_yaml

    return write_yaml(to_mapping(experiment), only_ascii)


def preset_names() -> tuple[str, ...]:
    """The experiments that come with fedwave."""
    files = resources.files(_PRESETS).iterdir()
    return tuple(sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml")))


def preset_about(name: str) -> str:
    """The description of a preset, in one line."""
    return _preset_text(name).splitlines()[0].lstrip("# ")


def texts(what: str, given: Any) -> list[str]:
    """One text or path, or several of them."""
    several = [given] if isinstance(given, (str, Path)) else given
    if not is_list(several):
        raise FedwaveError(f"{what} is {short_repr(given)}, must be a text or a list of texts.")
    found = list(several)
    for one in found:
        if not isinstance(one, (str, Path)):
            raise FedwaveError(f"{what} holds {short_repr(one)}, must hold texts.")
    return [str(one) for one in found]


def _preset_text(name: str) -> str:
    if name not in preset_names():
        known = did_you_mean(name, (*preset_names(), *_NETWORKS))
        raise FedwaveError(
            f"there is no experiment {name!r}; {known} A file must end in .yaml, .yml or .json, a device table in .csv "
            "or .yaml."
        )
    return resources.files(_PRESETS).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def _is_device_table(path: Path) -> bool:
    """A device table in YAML is a list, an experiment is a mapping."""
    from fedwave.files.yaml_text import is_yaml_list

    if path.suffix.lower() not in (".yaml", ".yml") or not os.path.isfile(path):
        return path.suffix.lower() == ".csv"
    return is_yaml_list(read_text(path, f"experiment {path}"), f"experiment {path}")


def _content(source: str) -> Any:
    from fedwave.files.yaml_text import read_yaml

    ending, what = Path(source).suffix.lower(), f"experiment {source}"
    text = read_text(source, what) if ending in _FILES else _preset_text(source)
    content = (read_json if ending == ".json" else read_yaml)(text, what)
    if not isinstance(content, Mapping):
        raise FedwaveError(f"{what} must be a mapping of fields, such as `rounds: 100`.")
    return content


def _with_named_code(content: Mapping[str, Any], source: Path, given: Sequence[str]) -> dict[str, Any]:
    """The content of a run folder's config.yaml, with code that the user has named.

    The folder may be untrusted, so its copies of the user's code are replaced by files with the same text
    that the user has named, or this process imported. Any other file was written by the user, and names its own code.
    """
    imports = content.get("imports")
    files = [one for one in imports if isinstance(one, str)] if isinstance(imports, list) else []
    found, missing = find_named(
        {one: sha256(read_source(one).encode()) if os.path.isfile(one) else "" for one in files}, given
    )
    if missing:
        words = " ".join(f"--import {shlex.quote(one if is_module(one) else Path(one).name)}" for one in missing)
        raise FedwaveError(
            f"{source} needs code of yours, which is executed only if you name it: add `{words}`, with the paths of "
            f"the files that {', '.join(missing)} are copies of."
        )
    return replaced(content, {name: path for name, (path, _) in found.items()})


def _with_override(content: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The content with one field changed, as ``network.slots=10`` asks; the value is read as YAML."""
    from fedwave.files.yaml_text import read_yaml

    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise FedwaveError(f"override {short_repr(text)} must read field=value, such as network.slots=10.")
    return with_value(
        content, _text(key, "an override"), _copy(read_yaml(value, f"override {short_repr(key)}: the value"), key)
    )


def _imported(content: Mapping[str, Any], more: Sequence[str]) -> Mapping[str, Any]:
    """The content with all that it imports, by absolute paths, after importing it."""
    given = content.get("imports", [])
    if not (isinstance(given, list) and all(isinstance(source, str) for source in given)):
        return content  # refused where fields are checked
    sources = list(dict.fromkeys(absolute(source, Path()) for source in (*given, *more)))
    for source in sources:
        with refusals_at("imports"):
            import_parts(source)
    return {**content, "imports": sources}


def _plain_copy(content: Any) -> dict[str, Any]:
    """A copy that holds only plain values."""
    if not isinstance(content, Mapping):
        raise FedwaveError(
            f"an experiment is {short_repr(content)}, must be a mapping of fields, such as `rounds: 100`."
        )
    copy: dict[str, Any] = _copy(content)
    return copy


def _copy(value: Any, where: str = "", depth: int = 0) -> Any:
    value = value.item() if isinstance(value, np.generic) else str(value) if isinstance(value, Path) else value
    if depth > _DEEPEST:
        raise FedwaveError(f"{short_repr(where)} is nested too deeply: use at most {_DEEPEST} levels.")
    if isinstance(value, Mapping):
        inside = where or "the experiment"
        return {
            _text(key, inside): _copy(one, f"{where}.{key}" if where else str(key), depth + 1)
            for key, one in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_copy(one, f"{where}[{i}]", depth + 1) for i, one in enumerate(value)]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise FedwaveError(f"{where} is a number of too many digits: give a smaller one.")
    if value != value:
        raise FedwaveError(f"{where} is {value}, must be a number.")
    return value if value is None or isinstance(value, (bool, int, float)) else _text(value, where)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise FedwaveError(f"{where} holds {short_repr(value)}, must hold numbers and texts: put text in quotes.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise FedwaveError(
            f"{where} holds {short_repr(value)}, which is not valid text: if it is a file, rename it in UTF-8."
        ) from None
    return value


@contextmanager
def _one_line() -> Iterator[None]:
    """Puts a refusal on one line: it may quote the user's text, with line breaks."""
    try:
        yield
    except FedwaveError as error:
        text = " ".join(str(error).splitlines())
        if len(text) > _LONGEST:  # it quotes a name of any length
            text = f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 3 :]}"
        raise FedwaveError(text) from None
