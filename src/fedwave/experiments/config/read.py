"""Experiments as files: found by name, read with overrides, checked to the last point of their sweep, and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, did_you_mean, is_list, short_repr
from fedwave.experiments.config.build import check
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.files import rooted
from fedwave.experiments.config.named_code import with_named_code
from fedwave.experiments.config.schema import typed
from fedwave.experiments.config.sweep import check_points, points, to_mapping, with_override
from fedwave.files.reading import as_path, read_json, read_text
from fedwave.network.devices import Device
from fedwave.parts.user_code import absolute, import_parts

__all__ = [
    "experiment_from",
    "load_experiment",
    "points",
    "preset_about",
    "preset_names",
    "requested_experiment",
    "stored_experiment",
    "texts",
    "to_mapping",
    "to_yaml",
]

_PRESETS = "fedwave.experiments.presets"
_NETWORKS = ("paper", "random")
_FILES = (".yaml", ".yml", ".json")
_DEEPEST = 10
_LONGEST = 1500  # characters of a refusal
# Numbers that are infinite by default: in JSON, which has no infinity, they are the texts "inf" and "-inf".
_INFINITE = {(f"network.set.{one.name}", str(one.default)): one.default for one in fields(Device)}


def requested_experiment(
    source: str, overrides: Sequence[str] = (), imports: Sequence[str] = (), defaults: Mapping[str, Any] | None = None
) -> Experiment:
    """An experiment from its file, its preset's name, or its network: paper, random, or a device table.

    ``overrides`` read ``field=value``; ``defaults`` are the fields of an experiment that is named by its network only.
    """
    network = _network(source)
    if network is not None:
        content = {"name": Path(source).stem, **(defaults or {}), "network": network}
        return experiment_from(content, overrides, imports)
    known = (*preset_names(), *_NETWORKS)
    if Path(source).suffix.lower() not in _FILES and source not in known:
        raise FedwaveError(
            f"there is no experiment {source!r}; {did_you_mean(source, known)} A file must end in .yaml or .json, a "
            "device table in .csv or .yaml."
        )
    return load_experiment(source, overrides, imports)


def load_experiment(source: str | Path, overrides: Sequence[str] = (), imports: Sequence[str] = ()) -> Experiment:
    """An experiment from a preset's name or a .yaml, .yml or .json file; overrides read ``field=value``.

    Files that it names are seen from its folder, those in overrides from the current folder. ``imports`` are files or
    modules with parts of your own, beside those that the file names.

    >>> import fedwave as fw
    >>> fw.load_experiment("quick", ["network.slots=3", "instances=4"]).instances
    4
    """
    as_path("an experiment", source)
    overrides, imports = texts("overrides", overrides), texts("imports", imports)
    with _one_line():
        content = rooted(_plain_copy(_content(source)), Path(source).parent)
        if Path(source).suffix:  # a run folder names its inputs by their copies
            content = with_named_code(content, Path(source), imports)
        try:
            return experiment_from(content, overrides, imports)
        except FedwaveError as error:
            if overrides or not Path(source).suffix or str(error).startswith("imports: "):  # which names a file
                raise
            raise FedwaveError(f"experiment {source}: {error}") from None


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


def experiment_from(
    mapping: Mapping[str, Any], overrides: Sequence[str] = (), imports: Sequence[str] = ()
) -> Experiment:
    """An experiment from nested mappings, as a file has them; imports as seen from the current folder."""
    with _one_line():
        content = _plain_copy(mapping)
        for text in overrides:
            content = _plain_copy(with_override(content, text))
        experiment = typed(_imported(content, imports))  # names are looked up after the imports
        check(experiment)
        if experiment.sweep:
            check_points(experiment, check)  # what is wrong is found now, not after hours
        return experiment


def stored_experiment(source: Path | Mapping[str, Any]) -> Experiment:
    """The experiment of a run folder's file or its content: nothing is imported, built or read beside it."""
    with _one_line():
        return typed(_plain_copy(source if isinstance(source, Mapping) else _content(source)))


def to_yaml(experiment: Experiment, only_ascii: bool = False) -> str:
    """The file that gives this experiment, with every field that has a value."""
    from fedwave.files.yaml_text import write_yaml

    return write_yaml(to_mapping(experiment), only_ascii)


def preset_names() -> tuple[str, ...]:
    """The experiments that come with fedwave."""
    files = resources.files(_PRESETS).iterdir()
    return tuple(sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml")))


def preset_about(name: str) -> str:
    """What a preset is, in one line."""
    return _preset_text(name).splitlines()[0].lstrip("# ")


def _preset_text(name: str) -> str:
    known = preset_names()
    if name not in known:
        raise FedwaveError(
            f"there is no experiment {name!r}; {did_you_mean(name, known)} A file must end in .yaml, .yml or .json."
        )
    return resources.files(_PRESETS).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def _network(source: str) -> dict[str, Any] | None:
    """The network that a word names; None if it names an experiment."""
    if source in _NETWORKS:
        return {"kind": source}
    return {"kind": "table", "file": source} if _is_device_table(Path(source)) else None


def _is_device_table(path: Path) -> bool:
    """A device table in YAML is a list, an experiment is a mapping."""
    from fedwave.files.yaml_text import is_yaml_list

    ending = path.suffix.lower()
    if ending not in (".yaml", ".yml") or not path.is_file():
        return ending == ".csv"
    try:
        return is_yaml_list(read_text(path, str(path)), str(path))
    except FedwaveError:
        return False  # load_experiment says what is wrong with it


def _content(source: str | Path) -> Mapping[str, Any]:
    from fedwave.files.yaml_text import read_yaml

    ending, what = Path(source).suffix.lower(), f"experiment {source}"
    text = read_text(source, what) if ending in _FILES else _preset_text(str(source))
    content = (read_json if ending == ".json" else read_yaml)(text, what)
    if not isinstance(content, Mapping):
        raise FedwaveError(f"{what} must be a mapping of fields, such as `rounds: 100`.")
    return content


def _imported(content: Mapping[str, Any], more: Sequence[str]) -> Mapping[str, Any]:
    """The content with all that it imports, by absolute paths, after importing it."""
    given = content.get("imports", [])
    if not (isinstance(given, list) and all(isinstance(source, str) for source in given)):
        return content  # refused where fields are checked
    sources = list(dict.fromkeys(absolute(source, Path()) for source in (*given, *more)))
    for source in sources:
        try:
            import_parts(source)
        except FedwaveError as error:
            raise FedwaveError(f"imports: {error}") from None
    return {**content, "imports": sources}


def _plain_copy(content: Any) -> dict[str, Any]:
    """A copy that holds only plain values."""
    if not isinstance(content, Mapping):
        raise FedwaveError(
            f"an experiment is {short_repr(content)}, must be a mapping of fields, such as `rounds: 100`."
        )
    copy: dict[str, Any] = _copy(content, "", 0)
    return copy


def _copy(value: Any, where: str, depth: int) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Path):
        value = str(value)
    if depth > _DEEPEST:
        raise FedwaveError(f"{short_repr(where)} is nested too deeply: use at most {_DEEPEST} levels.")
    if isinstance(value, Mapping):
        return {
            _key(key, where): _copy(item, f"{where}.{key}" if where else str(key), depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_copy(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise FedwaveError(f"{where} is a number of too many digits: give a smaller one.")
    if isinstance(value, str):
        field = where.removeprefix("sweep.").partition("[")[0]
        return (
            _INFINITE[field, value]
            if value in ("inf", "-inf") and (field, value) in _INFINITE
            else _encodable(value, where)
        )
    if value is not None and not isinstance(value, (bool, int, float)):
        raise FedwaveError(f"{where} is {short_repr(value)}, must be a number or text: put text in quotes.")
    return value


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise FedwaveError(f"{where or 'the experiment'} has the key {short_repr(key)}, must be text.")
    return _encodable(key, where or "the experiment")


def _encodable(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FedwaveError(
            f"{where} holds {short_repr(text)}, which is not valid text: if it is a file, rename it in UTF-8."
        ) from None
    return text


@contextmanager
def _one_line() -> Iterator[None]:
    """A refusal may quote what the user wrote, with its line breaks."""
    try:
        yield
    except FedwaveError as error:
        text = " ".join(str(error).splitlines())
        if len(text) > _LONGEST:  # it quotes a name of any length
            text = f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 3 :]}"
        raise FedwaveError(text) from None
